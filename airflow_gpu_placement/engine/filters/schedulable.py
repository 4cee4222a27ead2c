"""The scheduler may use enough of the pool's nodes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool that would fit if its nodes were open to new pods, or that has no open node."""
    if view.shortage is not ReasonCode.NODES_NOT_SCHEDULABLE:
        return None
    closed = Counter(node.unusable_because for node in view.allowed if node.unusable_because is not None)
    usable = len(view.allowed) - closed.total()
    why = ", ".join(f"{count} {reason}" for reason, count in sorted(closed.items(), key=_most_first))
    needed = f"{view.request.nodes} x {view.request.gpus_per_node} GPUs on open nodes"
    if not view.matching:
        selector = ", ".join(f"{key}={value}" for key, value in sorted(view.pool.node_selector.items()))
        observed, message = (
            "no node",
            (
                f"pool {view.pool.name} has no GPU node now; if it should have, check that its node_selector "
                f"({selector or 'empty'}) matches its nodes"
            ),
        )
    else:
        observed = f"{usable} of {len(view.matching)} nodes open"
        lost = len(view.matching) - len(view.allowed)
        if lost:
            why = ", ".join(part for part in (why, f"{lost} lost by earlier tries") if part)
        message = f"nodes of pool {view.pool.name} take no new pod: {why}"
    return Reason(code=ReasonCode.NODES_NOT_SCHEDULABLE, needed=needed, observed=observed, message=message)


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]
