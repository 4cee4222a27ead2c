"""The operator that a DAG author writes."""

from __future__ import annotations

from airflow_gpu_placement.operators.gpu_training import GpuTrainingJobOperator

__all__ = ["GpuTrainingJobOperator"]
