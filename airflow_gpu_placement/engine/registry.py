"""Every filter, in the order in which reasons of the same weight are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.filters import (
    free_gpus,
    gang,
    gap,
    gpu_memory,
    gpu_model,
    history,
    pool_size,
    schedulable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.engine.view import PoolView
    from airflow_gpu_placement.model.reasons import Reason

FILTERS: tuple[Callable[[PoolView], Reason | None], ...] = (
    gap.check,
    gpu_model.check,
    gpu_memory.check,
    pool_size.check,
    history.check,
    free_gpus.check,
    gang.check,
    schedulable.check,
)
