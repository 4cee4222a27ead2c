"""Kueue's quota, computed from its objects: what a queue could reserve now, and at most.

A module may live here when it answers a question about quota from Kueue objects alone: pure, no I/O, no
clock. The numbers are those of Kueue's own scheduler; they are accounting and say nothing of nodes.
"""

from __future__ import annotations

from airflow_gpu_placement.engine.kueue.admission import AdmissionForecast, forecast
from airflow_gpu_placement.engine.kueue.arrivals import admit_in_order
from airflow_gpu_placement.engine.kueue.quota import quota_of_pool, quota_of_queue
from airflow_gpu_placement.engine.kueue.stopped import Stopped, stopped
from airflow_gpu_placement.engine.kueue.tree import CohortQuota, QueueQuota, QuotaTree

__all__ = [
    "AdmissionForecast",
    "CohortQuota",
    "QueueQuota",
    "QuotaTree",
    "Stopped",
    "admit_in_order",
    "forecast",
    "quota_of_pool",
    "quota_of_queue",
    "stopped",
]
