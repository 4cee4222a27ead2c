"""The job can end before a deadline that must be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool that cannot make a hard deadline; a runtime that is only guessed refuses nothing."""
    left = view.question.hours_left
    if left is None or not view.request.time.deadline_is_hard:
        return None
    if view.basis.estimates.runtime_hours.source == "default":
        return None
    needed = view.hours_to_end
    if needed <= left:
        return None
    return Reason(
        code=ReasonCode.DEADLINE_UNREACHABLE,
        needed=f"{needed:.2f} h",
        observed=f"{left:.2f} h left",
        message=f"in pool {view.pool.name} the job takes {needed:.2f} h, the deadline is in {left:.2f} h",
    )
