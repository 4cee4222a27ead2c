"""Read the world: what the GPU pools have free right now, and what could not be read.

A module may live here when it turns answers of a cluster into :mod:`airflow_gpu_placement.model.signals`. It
decides nothing.
"""

from __future__ import annotations
