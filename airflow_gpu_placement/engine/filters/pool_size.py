"""The pool could hold the gang if all of it were empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.potential import pods_ever
from airflow_gpu_placement.engine.view import few
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool that is too small even when empty, in order and fully grown."""
    request = view.request
    if not view.has_whole_gpus:
        return _no_whole_gpu(view)
    per_node = largest_node(view)
    if per_node is None:
        return None
    if per_node < request.gpus_per_node:
        return Reason(
            code=ReasonCode.EXCEEDS_POOL_SIZE,
            needed=f"{request.gpus_per_node} GPUs on one node",
            observed=f"largest node has {per_node}",
            message=(
                f"a pod of the job needs {request.gpus_per_node} GPUs and no node of pool {view.pool.name} "
                f"has more than {per_node}; "
                f"{_withdrawn(view) or 'ask for fewer gpus_per_node and more nodes'}"
            ),
        )
    pods = most_pods(view)
    if pods is not None and pods < request.nodes:
        worn = _withdrawn(view)
        return Reason(
            code=ReasonCode.EXCEEDS_POOL_SIZE,
            needed=f"{request.nodes} x {request.gpus_per_node} GPUs",
            observed=f"at most {pods} x {request.gpus_per_node}",
            message=(
                f"pool {view.pool.name} could hold {pods} of the job's {request.nodes} pods with "
                f"{request.gpus_per_node} GPUs each, even if it were empty{worn and f'; {worn}'}"
            ),
        )
    return None


def _withdrawn(view: PoolView) -> str:
    """Say which nodes would be large enough with all of their GPUs; empty: none would."""
    least = view.request.gpus_per_node
    worn = [node.name for node in view.matching if 0 < node.allocatable < least <= node.capacity]
    return f"GPUs of {few(worn)} are withdrawn until somebody repairs or boots the node" if worn else ""


def _no_whole_gpu(view: PoolView) -> Reason:
    why = sorted({node.unusable_because or "" for node in view.matching})
    return Reason(
        code=ReasonCode.EXCEEDS_POOL_SIZE,
        needed=f"{view.request.gpus_per_node} whole GPUs on one node",
        observed="no whole GPU",
        message=f"the nodes of pool {view.pool.name} have no whole GPU: {few(why)}",
    )


def largest_node(view: PoolView) -> int | None:
    """Return the GPUs of the largest node, present or possible; ``None``: unknown."""
    largest = max(view.possible_sizes, default=0)
    if view.pool.gpu.per_node is not None and (view.grows or not view.known):
        largest = max(largest, view.pool.gpu.per_node)
    return largest or None


def most_pods(view: PoolView) -> int | None:
    """Return the pods that the whole pool could hold; ``None``: unknown."""
    if not view.known and not view.grows:
        return None
    return pods_ever(view, view.possible)
