"""The job can end before a deadline that must be kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.amounts import apart, deadline_words
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView

_SHOWN_HOURS = 0.005
"""A shorter wait is 0.00 h to a reader."""


def check(view: PoolView) -> Reason | None:
    """Refuse a pool that cannot make a hard deadline; a runtime that is only guessed refuses nothing."""
    left = view.question.hours_left
    if left is None or not view.request.time.deadline_is_hard:
        return None
    if view.basis.estimates.runtime_hours.source == "default":
        return None
    if view.hours_to_end <= left:
        return None
    needed, observed = apart(view.hours_to_end, left)
    waits = view.hours_to_end - view.basis.held_hours
    start = f", {waits:.2f} h of it until it can start" if waits >= _SHOWN_HOURS else ""
    return Reason(
        code=ReasonCode.DEADLINE_UNREACHABLE,
        needed=f"{needed} h",
        observed=f"{observed} h left" if left >= 0 else deadline_words(observed),
        message=f"in pool {view.pool.name} the job takes {needed} h{start}; the deadline "
        f"{deadline_words(observed)}",
    )
