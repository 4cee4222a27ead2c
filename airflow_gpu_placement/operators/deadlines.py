"""How long a task may take: one moment over all its deferrals, however often it is resumed."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_gpu_placement.operators.gpu_training import GpuTrainingJobOperator

_BACKSTOP = timedelta(seconds=120)
"""A trigger tells of the deadline itself; Airflow ends the deferral only when it did not."""

_JITTER = 0.2
"""Tasks that wait for the same pools do not all ask again at the same moment."""


def execution_deadline(operator: GpuTrainingJobOperator, ti: Any) -> datetime | None:
    """Return when ``execution_timeout`` is over, counted from the start of the try; ``None``: never.

    Airflow itself measures each part between two deferrals anew.
    """
    if operator.execution_timeout is None:
        return None
    began: datetime = ti.start_date
    return began + operator.execution_timeout


def placement_deadline(operator: GpuTrainingJobOperator, ti: Any) -> datetime:
    """Return when ``placement_timeout`` is over, counted from the start of the try."""
    began: datetime = ti.start_date
    return began + operator.placement_timeout


def backstop(deadline: datetime | None) -> timedelta | None:
    """Return the time-out of a deferral; ``None``: it may last for ever."""
    if deadline is None:
        return None
    return max(deadline - datetime.now(UTC), timedelta(0)) + _BACKSTOP


def next_look(pause_seconds: float, *deadlines: datetime | None) -> datetime:
    """Return when to decide again: after about the given pause, but at a deadline at the latest."""
    jitter = random.uniform(1.0, 1.0 + _JITTER)
    usual = datetime.now(UTC) + timedelta(seconds=pause_seconds * jitter)
    return min([usual, *(moment for moment in deadlines if moment is not None)])
