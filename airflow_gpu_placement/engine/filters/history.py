"""Nodes that this logical task has lost before are not used again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.view import few
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool that is ruled out, or that is large enough, but not without the nodes that were lost."""
    why = view.question.history.excluded_pools.get(view.pool.name)
    if why is not None:
        return Reason(
            code=ReasonCode.EXCLUDED_BY_HISTORY,
            needed="a pool that can run the job",
            observed=why or "ruled out",
            message=f"an earlier try of this task showed that pool {view.pool.name} cannot run it: {why}",
        )
    if not view.known or view.grows:
        return None  # a pool that grows replaces its nodes
    if not view.excluded:
        return None
    lost = [node.name for node in view.matching if node.name in view.excluded]
    left = [node for node in view.matching if node.name not in view.excluded]
    request = view.request
    if not lost or view.together_ever(left) >= request.nodes:
        return None
    if view.together_ever(view.matching) < request.nodes:
        return None
    return Reason(
        code=ReasonCode.EXCLUDED_BY_HISTORY,
        needed=f"{request.nodes} x {request.gpus_per_node} GPUs on nodes never lost",
        observed=f"{len(left)} of {len(view.matching)} nodes never lost",
        message=(
            f"earlier tries of this task lost {few(lost)} in pool {view.pool.name}; without "
            f"{'it' if len(lost) == 1 else 'them'} the pool is too small"
        ),
    )
