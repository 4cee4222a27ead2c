"""The request and its profile allow how the capacity is bought: reserved, on demand, spot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool of a kind of capacity that the request or the profile leaves out."""
    kind = view.pool.capacity_type
    profile = view.question.setting.profile
    for who, allowed in (
        ("the job", view.request.where.capacity_types),
        (f"profile {profile.name}", profile.capacity_types),
    ):
        if allowed and kind not in allowed:
            needed = " or ".join(allowed)
            return Reason(
                code=ReasonCode.CAPACITY_TYPE_NOT_ALLOWED,
                needed=needed,
                observed=kind.value,
                message=f"pool {view.pool.name} is {kind.value}, {who} allows {needed}",
            )
    return None
