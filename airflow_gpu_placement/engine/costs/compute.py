"""GPUs that do the work, and hold while its data is brought."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.estimate import CostTerm

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.costs.basis import Basis


def term(basis: Basis) -> CostTerm | None:
    """Return billed GPUs x price x (staging + runtime); nothing when the price is unknown."""
    price, gpus = basis.view.rank_price, basis.view.billed_gpus
    if price is None:
        return None
    hours = basis.staging_hours + basis.runtime_hours
    return CostTerm(
        name="compute",
        usd=gpus * price * hours,
        hours=hours,
        formula=f"{gpus} GPUs x {price:g} USD x {hours:.4g} h",
    )
