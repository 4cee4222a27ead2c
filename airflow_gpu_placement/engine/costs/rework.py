"""GPUs that do work again after interruptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.estimate import CostTerm

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.costs.basis import Basis


def term(basis: Basis) -> CostTerm | None:
    """Return billed GPUs x price x expected rework; nothing when the price is unknown."""
    price, gpus = basis.view.rank_price, basis.view.billed_gpus
    if price is None:
        return None
    hours, known = basis.rework_hours, basis.estimates
    return CostTerm(
        name="rework",
        usd=gpus * price * hours,
        hours=hours,
        formula=(
            f"{gpus} GPUs x {price:g} USD x {hours:.4g} h ({known.interruptions_per_gpu_hour.value:g} "
            f"interruptions per GPU hour, {known.interval_hours.value:.4g} h between checkpoints)"
        ),
    )
