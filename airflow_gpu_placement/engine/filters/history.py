"""A pool in which an earlier try found that the job cannot run is not tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool that is ruled out."""
    why = view.question.history.excluded_pools.get(view.pool.name)
    if why is None:
        return None
    return Reason(
        code=ReasonCode.EXCLUDED_BY_HISTORY,
        needed="a pool that can run the job",
        observed=why or "ruled out",
        message=f"an earlier try of this task showed that pool {view.pool.name} cannot run it: {why}",
    )
