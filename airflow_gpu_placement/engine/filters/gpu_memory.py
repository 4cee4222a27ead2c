"""The pool's GPUs have the memory class that the request asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.filters.undeclared import undeclared
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool none of whose wanted GPUs is large enough; an unknown memory is never enough."""
    stage = view.failed("memory")
    if stage is None:
        return None
    least = view.request.min_memory_gb
    if not view.nodes and (view.declared is None or view.declared.memory_gb is None):
        return undeclared(view, f">= {least:g} GB", "which GPU it has", "gpu.model and gpu.memory_gb")
    gpus = [kind.gpu for kind in stage.candidates]
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
