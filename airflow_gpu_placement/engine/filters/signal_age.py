"""The pool was seen recently enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool whose signals are older than it allows: they count as unknown."""
    age = view.age_seconds
    if not view.known or view.fresh or age is None:
        return None
    most = view.pool.max_signal_age_seconds
    return Reason(
        code=ReasonCode.SIGNALS_TOO_OLD,
        needed=f"<= {most:g} s old",
        observed=f"{age:.0f} s old",
        message=f"what is known of pool {view.pool.name} is {age:.0f} s old, it must be at most {most:g} s",
    )
