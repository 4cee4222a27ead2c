"""A pool in which a job of this task has just failed to start is given a rest."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView

SHORTEST_REST_SECONDS = 60.0
"""Long enough to place the job elsewhere first, however impatient the pool's own setting is."""


def check(view: PoolView) -> Reason | None:
    """Refuse a pool for as long again as the job waited there; then it may be tried once more."""
    at = view.question.history.start_timeouts.get(view.pool.name)
    if at is None:
        return None
    rest = timedelta(seconds=max(view.pool.loss.start_timeout_seconds, SHORTEST_REST_SECONDS))
    if view.question.now - at >= rest:
        return None
    return Reason(
        code=ReasonCode.START_TIMED_OUT,
        needed=f"no start missed within {rest.total_seconds():g} s",
        observed=f"one missed at {at:%H:%M:%S}",
        message=(
            f"a job of this task did not start in time in pool {view.pool.name} at {at:%H:%M:%S} UTC; "
            f"the pool is tried again from {at + rest:%H:%M:%S} UTC on"
        ),
    )
