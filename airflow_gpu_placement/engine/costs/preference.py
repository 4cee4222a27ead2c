"""The platform team's own bias; it orders pools and is never money."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.estimate import CostTerm

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.costs.basis import Basis


def term(basis: Basis) -> CostTerm | None:
    """Return the bias that the catalogue gives the pool, when it gives one."""
    usd = basis.view.pool.price.preference_usd
    return CostTerm(name="preference", usd=usd, formula="set in the catalogue") if usd else None
