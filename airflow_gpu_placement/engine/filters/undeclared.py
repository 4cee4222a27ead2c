"""What is said of a pool that has no node to read from and a catalogue entry that does not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def undeclared(view: PoolView, needed: str, what: str, keys: str) -> Reason | None:
    """Refuse, since nothing is promised that nothing tells; without any signal the gap has said it all.

    :param what: what the catalogue does not say, such as ``which GPU it has``.
    :param keys: keys of the pool to set.
    """
    if not view.known:
        return None
    return Reason(
        code=ReasonCode.SIGNALS_MISSING,
        needed=needed,
        observed="unknown",
        message=f"pool {view.pool.name} has no node now and the catalogue does not say {what}; set {keys}",
    )
