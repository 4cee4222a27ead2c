"""The pool could hold the gang if all of it were empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.view import few, sizes
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
                f"has more than {per_node}; ask for fewer gpus_per_node and more nodes"
            ),
        )
    pods = most_pods(view)
    if pods is not None and pods < request.nodes:
        return Reason(
            code=ReasonCode.EXCEEDS_POOL_SIZE,
            needed=f"{request.nodes} x {request.gpus_per_node} GPUs",
            observed=f"at most {pods} x {request.gpus_per_node}",
            message=(
                f"pool {view.pool.name} could hold {pods} of the job's {request.nodes} pods with "
                f"{request.gpus_per_node} GPUs each, even if it were empty"
            ),
        )
    return None


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
    found = [size for size in sizes(view.matching) if size]
    can_be_new = view.grows or not view.known
    if can_be_new and view.pool.gpu.per_node is not None:
        found.append(view.pool.gpu.per_node)
    return max(found, default=None)


def most_pods(view: PoolView) -> int | None:
    """Return the pods that the whole pool could hold; ``None``: unknown."""
    if not view.known and not view.grows:
        return None
    return view.pods_ever(view.matching)
