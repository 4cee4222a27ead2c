"""The pool has a GPU model that the request names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.filters.undeclared import undeclared
from airflow_gpu_placement.engine.gpu_models import canonical_model, may_satisfy, suggest
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView
    from airflow_gpu_placement.model.pool import GpuIdentity


def check(view: PoolView) -> Reason | None:
    """Refuse a pool none of whose GPUs is named by the request."""
    stage = view.failed("model")
    if stage is None:
        return None
    if not view.nodes and view.declared is None:
        return undeclared(view, " or ".join(view.request.models), "which GPU it has", "gpu.model")
    if not view.nodes and view.declared is not None and _may_be_right(view.declared, view):
        what = f"which kind of {view.declared.model} it has"
        return undeclared(view, " or ".join(view.request.models), what, "gpu.memory_gb and gpu.form_factor")
    observed = ", ".join(str(gpu) for gpu in view.identities)
    return Reason(
        code=ReasonCode.GPU_MODEL_NOT_OFFERED,
        needed=" or ".join(view.request.models),
        observed=observed,
        message=_message(view, observed),
    )


def _may_be_right(declared: GpuIdentity, view: PoolView) -> bool:
    return any(may_satisfy(declared, wanted) for wanted in view.question.wanted)


def _message(view: PoolView, observed: str) -> str:
    asked = " or ".join(view.request.models)
    parts = [f"pool {view.pool.name} has {observed}, not {asked}"]
    offered = view.question.offered_models
    for name, wanted in zip(view.request.models, view.question.wanted, strict=True):
        if canonical_model(name) is None and wanted.model not in offered:
            parts.append(f"{name!r} is not a known GPU model: {suggest(name, offered)}")
            parts.append(f"on offer: {', '.join(offered) or 'nothing'}")
    return "; ".join(parts)
