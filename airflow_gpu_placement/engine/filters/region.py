"""The pool's region is one in which the job may run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.filters.undeclared import undeclared
from airflow_gpu_placement.engine.located import is_nowhere_yet, unknown_because
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool outside the allowed regions or inside a denied one; an unknown region is neither."""
    where, region = view.request.where, view.pool.place.region
    if not where.regions and not where.denied_regions:
        return None
    needed = " or ".join(where.regions) if where.regions else f"not {' or '.join(where.denied_regions)}"
    if is_nowhere_yet(view):
        return undeclared(view, needed, "in which region it is", "region")
    if region is None:
        hint = unknown_because(view)
    elif (where.regions and region not in where.regions) or region in where.denied_regions:
        hint = ""
    else:
        return None
    observed = view.pool.place.region_words
    return Reason(
        code=ReasonCode.REGION_NOT_ALLOWED,
        needed=needed,
        observed=observed,
        message=f"pool {view.pool.name} is in region {observed}, the job's is {needed}{hint}",
    )
