"""The free GPUs lie together on enough nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool whose free GPUs are enough in sum and too scattered."""
    if view.shortage is not ReasonCode.GANG_DOES_NOT_FIT:
        return None
    request = view.request
    largest = max((node.free for node in view.allowed), default=0)
    claimed = f"; {view.unseen_gpus} are claimed" if view.unseen_gpus else ""
    return Reason(
        code=ReasonCode.GANG_DOES_NOT_FIT,
        needed=f"{request.nodes} x {request.gpus_per_node} free GPUs",
        observed=f"{view.fits_now} x {request.gpus_per_node} ({view.free_gpus} free, {largest} on one node)",
        message=(
            f"pool {view.pool.name} has {view.free_gpus} GPUs free, but only {view.fits_now} of the job's "
            f"{request.nodes} pods find {request.gpus_per_node} on one node{_where(view)} "
            f"(most there: {largest}){claimed}"
        ),
    )


def _where(view: PoolView) -> str:
    """Say inside what the pods must stay together."""
    if not view.question.together:
        return ""
    return " of one fabric" if view.request.network.same_fabric else " of one zone"
