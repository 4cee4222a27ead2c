"""The GPUs of a node are joined as the request asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.filters.undeclared import undeclared
from airflow_gpu_placement.engine.matching import interconnect, may_be_switched
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool whose GPUs are joined less well; unknown is never good enough."""
    stage = view.failed("interconnect")
    if stage is None:
        return None
    needed = view.request.interconnect or ""
    known = {
        name
        for kind in stage.candidates
        if (name := interconnect(view.pool, kind)) is not None and not may_be_switched(view.pool, kind)
    }
    if not known and not view.nodes:
        return undeclared(view, needed, "what joins the GPUs of a node", "gpu.interconnect")
    observed = ", ".join(sorted(known)) or "unknown"
    hint = "" if known else "; set gpu.interconnect of the pool in the catalogue"
    return Reason(
        code=ReasonCode.INTERCONNECT_NOT_OFFERED,
        needed=needed,
        observed=observed,
        message=f"pool {view.pool.name} joins the GPUs of a node by {observed}, the job needs {needed}{hint}",
    )
