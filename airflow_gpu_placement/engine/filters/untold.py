"""What the nodes have is told: labels and devices that are not there yet are unknown, which is no "no"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.view import few
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool none of whose nodes is known to be right, while one may turn out to be."""
    if view.has_a_match or not view.untold:
        return None
    unlabelled = [node.name for node in view.untold if node.gpu is None]
    said = view.declared
    if unlabelled and said is None:
        what, key, names = "no label tells the GPU", "gpu.model", unlabelled
    elif unlabelled and said is not None and None in {said.memory_gb, said.form_factor}:
        what, names = f"no label tells the kind of the {said.model}", unlabelled
        key = "gpu.memory_gb and gpu.form_factor"
    else:
        what, key, names = "no device is shown", "gpu.per_node", [node.name for node in view.untold]
    return Reason(
        code=ReasonCode.SIGNALS_MISSING,
        needed="GPUs that are told",
        observed=f"unknown on {len(names)} of {len(view.nodes)} nodes",
        message=(
            f"{what} of {few(names)} in pool {view.pool.name} yet; if that lasts, set {key} of the pool in "
            "the catalogue"
        ),
    )
