"""The author's time: waiting and training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.estimate import CostTerm

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.costs.basis import Basis


def term(basis: Basis) -> CostTerm | None:
    """Return the value of an hour x (wait + held); nothing when the profile gives time no value."""
    value = basis.view.question.setting.profile.value_of_time_usd_per_hour
    if not value:
        return None
    hours = basis.wait_hours + basis.held_hours
    return CostTerm(
        name="time",
        usd=value * hours,
        hours=hours,
        formula=f"{value:g} USD x ({basis.wait_hours:.4g} h wait + {basis.held_hours:.4g} h held)",
    )
