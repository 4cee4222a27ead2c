"""What a pool that does not fit now is short of: exactly one of four things."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.growth import nodes_for_others
from airflow_gpu_placement.engine.potential import best_sizes
from airflow_gpu_placement.engine.room import best_room
from airflow_gpu_placement.model.reasons import ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def shortage_of(view: PoolView) -> ReasonCode | None:
    """Name the shortage, so that a pool is never told four things where one is true.

    Nodes closed to new pods when opening them would be enough, or when there is no open node at all; else
    what a pod needs beside its GPUs, when those would be enough; else too few free GPUs in sum; else enough
    of them, but spread too thin.
    """
    if not view.known or view.fits or not view.has_whole_gpus:
        return None
    if not view.open_nodes and not nodes_for_others(view):
        return ReasonCode.NODES_NOT_SCHEDULABLE
    shut = [node for node in view.allowed if node.unusable_because is not None]
    closed = [
        (node, max(size - node.used, 0)) for node, size in zip(shut, best_sizes(view, shut), strict=True)
    ]
    if closed:
        reopened = best_room(view, [*view.open_nodes, *closed], view.new_nodes, view.unseen)
        if reopened.grown >= view.question.pods:
            return ReasonCode.NODES_NOT_SCHEDULABLE
    free = [(node, node.free) for node, _ in view.open_nodes]
    if best_room(view, free, view.new_nodes, view.unseen, view.per_node).grown >= view.question.pods:
        return ReasonCode.NODE_RESOURCES_TAKEN
    if view.free_gpus < view.question.total_gpus:
        return ReasonCode.INSUFFICIENT_FREE_GPUS
    return ReasonCode.GANG_DOES_NOT_FIT
