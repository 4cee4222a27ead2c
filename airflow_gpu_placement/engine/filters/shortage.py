"""What a pool that does not fit now is short of: exactly one of three things."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.room import best_room
from airflow_gpu_placement.model.reasons import ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def shortage(view: PoolView) -> ReasonCode | None:
    """Name the shortage, so that a pool is never told three things where one is true.

    Nodes closed to new pods when opening them would be enough, or when there is no open node at all; else too
    few free GPUs in sum; else enough of them, but spread too thin.
    """
    if not view.known or view.fits or not view.has_whole_gpus:
        return None
    if not view.open_nodes:
        return ReasonCode.NODES_NOT_SCHEDULABLE
    closed = [
        (node, max(node.allocatable - node.used, 0))
        for node in view.allowed
        if node.unusable_because is not None
    ]
    if closed:
        reopened = best_room(view, [*view.open_nodes, *closed], view.new_nodes, view.unseen)
        if reopened.grown >= view.question.pods:
            return ReasonCode.NODES_NOT_SCHEDULABLE
    if view.free_gpus < view.question.total_gpus:
        return ReasonCode.INSUFFICIENT_FREE_GPUS
    return ReasonCode.GANG_DOES_NOT_FIT
