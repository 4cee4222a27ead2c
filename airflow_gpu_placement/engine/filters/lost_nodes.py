"""Nodes that a logical task has lost are not used again until they are booted anew or tell its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.potential import together_ever
from airflow_gpu_placement.engine.view import few
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool that is large enough, but not without the nodes that were lost.

    It may fit later: a lost node counts again once its boot id is another, or once it came back and has told
    the end of the job. One whose Node object is gone is on its way back too.
    """
    if not view.known or view.grows or not view.excluded:
        return None  # a pool that grows replaces its nodes
    lost = [node.name for node in view.possible if node.name in view.excluded]
    left = [node for node in view.possible if node.name not in view.excluded]
    request = view.request
    if not lost or together_ever(view, left) >= request.nodes:
        return None
    if together_ever(view, view.possible) < request.nodes:
        return None
    it, is_ = ("it", "is") if len(lost) == 1 else ("they", "are")
    return Reason(
        code=ReasonCode.NODES_LOST,
        needed=f"{request.nodes} x {request.gpus_per_node} GPUs on nodes never lost",
        observed=f"{len(left)} of {len(view.possible)} nodes never lost",
        message=(
            f"earlier tries of this task lost {few(lost)} in pool {view.pool.name}; without "
            f"{'it' if len(lost) == 1 else 'them'} the pool is too small, until {it} {is_} booted anew"
        ),
    )
