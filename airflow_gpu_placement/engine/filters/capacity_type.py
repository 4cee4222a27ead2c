"""Request and profile allow how the nodes are bought: reserved, on demand, spot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool none of whose nodes is bought in a way that the request and the profile allow."""
    stage = view.failed("capacity_type")
    if stage is None:
        return None
    kinds = {kind.capacity_type for kind in stage.candidates}
    observed = " or ".join(sorted(kinds))
    is_ = f"pool {view.pool.name} is {observed}"
    if kinds != {view.pool.capacity_type}:
        is_ = f"the labels of the nodes of pool {view.pool.name} say {observed}"
    bounds = [
        (who, " or ".join(allowed))
        for who, allowed in view.question.capacity_types
        if allowed and not kinds <= set(allowed)
    ]
    return Reason(
        code=ReasonCode.CAPACITY_TYPE_NOT_ALLOWED,
        needed=" and ".join(dict.fromkeys(allowed for _, allowed in bounds)),
        observed=observed,
        message=", ".join((is_, *(f"{who} allows {allowed}" for who, allowed in bounds))),
    )
