"""Moving data to the pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.estimate import CostTerm

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.costs.basis import Basis


def term(basis: Basis) -> CostTerm | None:
    """Return GiB x USD per GiB of everything that has to be moved; nothing when all is there."""
    if not basis.moves:
        return None
    return CostTerm(
        name="egress",
        usd=basis.egress_usd,
        hours=basis.staging_hours,
        formula=" + ".join(
            f"{move.what} {move.gib:g} GiB x {move.route.usd_per_gib:g} USD from {move.source}"
            for move in basis.moves
        ),
    )
