"""The pool has a GPU model that the request names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.gpu_models import canonical_model, suggest
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool none of whose GPUs is named by the request."""
    if not view.wanted:
        return None
    if not view.nodes and view.declared is None:
        # Without signals the gap says it all; with them there is no node to read and nothing to promise.
        return _nothing_tells(view) if view.known else None
    gpus = [one.gpu for one in view.nodes] or [view.declared]
    if any(view.is_wanted(gpu) for gpu in gpus):
        return None
    observed = ", ".join(str(gpu) for gpu in view.identities) or "unknown"
    return Reason(
        code=ReasonCode.GPU_MODEL_NOT_OFFERED,
        needed=" or ".join(view.request.models),
        observed=observed,
        message=_message(view, observed),
    )


def _nothing_tells(view: PoolView) -> Reason:
    return Reason(
        code=ReasonCode.SIGNALS_MISSING,
        needed=" or ".join(view.request.models),
        observed="unknown",
        message=(
            f"pool {view.pool.name} has no node now and the catalogue does not say which GPU it has; "
            "set gpu.model"
        ),
    )


def _message(view: PoolView, observed: str) -> str:
    if not view.identities:
        return (
            f"no label of the nodes of pool {view.pool.name} tells their GPU model; set gpu.model of the "
            "pool in the catalogue"
        )
    asked = " or ".join(view.request.models)
    parts = [f"pool {view.pool.name} has {observed}, not {asked}"]
    for name, wanted in zip(view.request.models, view.wanted, strict=True):
        if canonical_model(name) is None and wanted.model not in view.offered_models:
            hint = suggest(name, view.offered_models)
            parts.append(f"{name!r} is not a known GPU model: {hint}")
            parts.append(f"on offer: {', '.join(view.offered_models) or 'nothing'}")
    return "; ".join(parts)
