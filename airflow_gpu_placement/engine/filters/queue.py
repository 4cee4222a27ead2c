"""The queue that leads to the pool admits new work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool whose queue is stopped, however many GPUs are free."""
    quota = view.quota
    if quota is None or quota.stopped_because is None:
        return None
    return Reason(
        code=ReasonCode.QUEUE_STOPPED,
        needed="a queue that admits",
        observed=quota.stopped_because,
        message=f"local queue {quota.local_queue} of pool {view.pool.name} admits nothing: "
        f"{quota.stopped_because}",
    )
