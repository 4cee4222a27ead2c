"""The pool's processors run the job's image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.filters.undeclared import undeclared
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool without a node of the architecture; an unknown one is never the right one."""
    stage = view.failed("architecture")
    if stage is None:
        return None
    excluded = view.question.history.excluded_architectures
    needed = view.request.architecture or f"not {' or '.join(sorted(excluded))}"
    known = sorted({kind.architecture for kind in stage.candidates if kind.architecture is not None})
    if not known and not view.nodes:
        return undeclared(view, needed, "which processors it has", "architecture")
    observed = ", ".join(known) or "unknown"
    hint = "" if known else "; set architecture of the pool in the catalogue"
    told = [f"{name}: {why}" for name, why in sorted(excluded.items()) if name in known]
    if told:
        hint = f" (earlier tries showed {', '.join(told)})"
    return Reason(
        code=ReasonCode.ARCHITECTURE_MISMATCH,
        needed=needed,
        observed=observed,
        message=f"the image needs {needed}, the nodes of pool {view.pool.name} are {observed}{hint}",
    )
