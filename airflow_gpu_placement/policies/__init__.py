"""Retry policies: what the next try of a task does after a failure."""

from __future__ import annotations

from airflow_gpu_placement.policies.retry import GpuRetryPolicy

__all__ = ["GpuRetryPolicy"]
