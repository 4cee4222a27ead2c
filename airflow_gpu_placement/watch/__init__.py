"""Follow remote jobs: one set of streams a cluster, shared by all of its jobs in this event loop.

A module may live here when it observes. It writes nothing to a cluster, and what an observation means is
decided in :mod:`airflow_gpu_placement.engine.classify`.
"""

from __future__ import annotations
