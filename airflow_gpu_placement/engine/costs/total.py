"""The sum of the terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.costs import compute, egress, preference, rework, time_value
from airflow_gpu_placement.model.estimate import Cost, Estimate

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.engine.costs.basis import Basis
    from airflow_gpu_placement.model.estimate import CostTerm

TERMS: tuple[Callable[[Basis], CostTerm | None], ...] = (
    compute.term,
    rework.term,
    egress.term,
    time_value.term,
    preference.term,
)


def cost_of(basis: Basis) -> Cost:
    """Add up the terms of one pool; without a price the money for GPUs is not among them."""
    terms = [found for make in TERMS if (found := make(basis)) is not None]
    held_hours = basis.held_hours
    return Cost(
        terms=tuple(terms),
        total_usd=sum([term.usd for term in terms]),
        cash_usd=basis.cash_usd,
        wait_hours=basis.wait_hours,
        held_hours=held_hours,
        finish_hours=basis.wait_hours + held_hours,
        estimates=_estimates(basis),
    )


def _estimates(basis: Basis) -> dict[str, Estimate]:
    view, known = basis.view, basis.estimates
    found = known._asdict()
    if view.cash_price is not None:
        found["gpu_hour_usd"] = Estimate(value=view.cash_price, source=view.pool.price.source or "given")
    if view.rank_price is not None and view.rank_price != view.cash_price:
        found["rank_gpu_hour_usd"] = Estimate(value=view.rank_price, source="given")
    for move in basis.moves:
        found[f"usd_per_gib:{move.what}"] = Estimate(value=move.route.usd_per_gib, source=move.route.origin)
        found[f"gbps:{move.what}"] = Estimate(value=move.route.gbps, source=move.route.origin)
    brought = [move.gib for move in basis.moves if move.what == "checkpoint"]
    if brought:
        size = view.request.checkpoint.size_gib
        found["checkpoint_gib"] = Estimate(value=brought[0], source="default" if size is None else "given")
    return found
