"""A pool whose cluster did not take the job is asked again after a pause, a longer one each time."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView

FIRST_REST_SECONDS = 30.0
LONGEST_REST_SECONDS = 600.0
_MOST_DOUBLINGS = 10


def check(view: PoolView) -> Reason | None:
    """Refuse a pool until the pause after its last refusal is over."""
    refusal = view.question.history.refusals.get(view.pool.name)
    if refusal is None:
        return None
    rest = timedelta(seconds=rest_seconds(refusal.times))
    if view.question.now - refusal.at >= rest:
        return None
    name, often = view.pool.name, "once" if refusal.times == 1 else f"{refusal.times} times in a row"
    return Reason(
        code=ReasonCode.JOB_REFUSED,
        needed="a cluster that takes the job",
        observed=f"refused {often}, last at {refusal.at:%H:%M:%S}",
        message=(
            f"the cluster of pool {name} did not take the job ({often}, last at {refusal.at:%H:%M:%S} UTC): "
            f"{refusal.why}; it is asked again from {refusal.at + rest:%H:%M:%S} UTC on"
        ),
    )


def rest_seconds(times: int) -> float:
    """Return how long a pool is left alone that refused a job so often in a row."""
    doublings = min(max(times - 1, 0), _MOST_DOUBLINGS)
    return float(min(FIRST_REST_SECONDS * 2.0**doublings, LONGEST_REST_SECONDS))
