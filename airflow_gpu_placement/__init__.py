"""Decide at run time where a GPU training job can run, launch it there, re-place it when its node is lost.

The names of this module are the public ones; they are loaded when first used, so that importing the package,
which every Airflow process does, stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_gpu_placement.model.request import (
        CheckpointNeed,
        GpuRequest,
        NetworkNeed,
        TimeNeed,
        WhereNeed,
    )
    from airflow_gpu_placement.operators.gpu_training import GpuTrainingJobOperator
    from airflow_gpu_placement.policies.retry import GpuRetryPolicy

__version__ = "0.1.0"

_HOMES = {
    "CheckpointNeed": "airflow_gpu_placement.model.request",
    "GpuRequest": "airflow_gpu_placement.model.request",
    "GpuRetryPolicy": "airflow_gpu_placement.policies.retry",
    "GpuTrainingJobOperator": "airflow_gpu_placement.operators.gpu_training",
    "NetworkNeed": "airflow_gpu_placement.model.request",
    "TimeNeed": "airflow_gpu_placement.model.request",
    "WhereNeed": "airflow_gpu_placement.model.request",
}

__all__ = [
    "CheckpointNeed",
    "GpuRequest",
    "GpuRetryPolicy",
    "GpuTrainingJobOperator",
    "NetworkNeed",
    "TimeNeed",
    "WhereNeed",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Load a public name from where it is defined."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
