"""Decisions, all pure: the same arguments give the same answer, in any process, at any time.

A module may live here when it decides or explains something from values. It may import the standard library,
msgspec, rich (to draw a table), :mod:`airflow_gpu_placement.model` and
:mod:`airflow_gpu_placement.exceptions`;
never a client of a cluster, Airflow, YAML or a clock. The time is an argument called ``now``.
"""

from __future__ import annotations
