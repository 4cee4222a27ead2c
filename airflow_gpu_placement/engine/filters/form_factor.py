"""The pool's GPUs are mounted as the request asks: PCIe, SXM, NVL, or a full board."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.filters.undeclared import undeclared
from airflow_gpu_placement.engine.matching import HGX_GPUS
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool none of whose GPUs has the form factor; an unknown one is never the right one."""
    stage = view.failed("form_factor")
    if stage is None:
        return None
    needed = " or ".join(view.request.form_factors)
    if not view.nodes and (view.declared is None or view.declared.form_factor is None):
        return undeclared(view, needed, "how its GPUs are mounted", "gpu.model and gpu.form_factor")
    kinds = {
        f"{kind.gpu.form_factor} x {kind.gpus}" if kind.gpus else kind.gpu.form_factor
        for kind in stage.candidates
        if kind.gpu is not None and kind.gpu.form_factor is not None
    }
    observed = ", ".join(sorted(kinds)) or "unknown"
    hint = f"; HGX is a board of {HGX_GPUS} SXM GPUs" if "HGX" in view.request.form_factors else ""
    if not kinds:
        hint = "; set gpu.form_factor of the pool in the catalogue"
    return Reason(
        code=ReasonCode.FORM_FACTOR_NOT_OFFERED,
        needed=needed,
        observed=observed,
        message=f"pool {view.pool.name} has GPUs of form {observed}, the job needs {needed}{hint}",
    )
