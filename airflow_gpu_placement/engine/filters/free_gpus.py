"""Enough GPUs are free in sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.growth import nodes_for_others
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool with too few free GPUs."""
    if view.shortage is not ReasonCode.INSUFFICIENT_FREE_GPUS:
        return None
    needed = view.request.total_gpus
    held = sum(node.used for node in view.allowed)
    claimed = f", {view.unseen_gpus} are claimed" if view.unseen_gpus else ""
    others = nodes_for_others(view)
    next_nodes = "node" if others == 1 else f"{others} nodes"
    taken = f"; pods that wait already get the next {next_nodes} that it adds" if others else ""
    return Reason(
        code=ReasonCode.INSUFFICIENT_FREE_GPUS,
        needed=f"{needed} free GPUs",
        observed=f"{view.free_gpus} free",
        message=(
            f"pool {view.pool.name} has {view.free_gpus} GPUs free on nodes that can take the job, "
            f"which needs {needed}; other pods hold {held}{claimed}{taken}"
        ),
    )
