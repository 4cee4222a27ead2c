"""The pool's GPUs have the memory class that the request asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool none of whose wanted GPUs is large enough; an unknown memory is never enough."""
    least = view.request.min_memory_gb
    if least is None:
        return None
    if not view.nodes and view.declared is None:
        return _nothing_tells(view, least) if view.known else None
    gpus = [one.gpu for one in view.nodes] or [view.declared]
    gpus = [gpu for gpu in gpus if view.is_wanted(gpu)] or gpus
    if any(view.is_large_enough(gpu) for gpu in gpus):
        return None
    sizes = sorted({gpu.memory_gb for gpu in gpus if gpu is not None and gpu.memory_gb is not None})
    observed = ", ".join(f"{size:g} GB" for size in sizes) or "unknown"
    message = f"pool {view.pool.name} has GPUs of {observed}, the job needs at least {least:g} GB"
    if not sizes:
        message = (
            f"nothing tells the memory of the GPUs of pool {view.pool.name} and the job needs at least "
            f"{least:g} GB; set gpu.model and gpu.memory_gb of the pool in the catalogue"
        )
    return Reason(
        code=ReasonCode.GPU_MEMORY_TOO_SMALL,
        needed=f">= {least:g} GB",
        observed=observed,
        message=message,
    )


def _nothing_tells(view: PoolView, least: float) -> Reason:
    return Reason(
        code=ReasonCode.SIGNALS_MISSING,
        needed=f">= {least:g} GB",
        observed="unknown",
        message=(
            f"pool {view.pool.name} has no node now and the catalogue does not say which GPU it has; "
            "set gpu.model and gpu.memory_gb"
        ),
    )
