"""The network between the nodes is what the gang needs, and one zone or fabric is large enough for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse another kind of network, a slower one, or one that is cut into too small parts."""
    return _kind(view) or _speed(view) or _together(view)


def _kind(view: PoolView) -> Reason | None:
    asked, kind = view.request.network.kinds, view.pool.network.kind
    if not asked or (kind is not None and kind.lower() in asked):
        return None
    return _reason(view, " or ".join(asked), kind or "unknown", hint="" if kind else "network.kind")


def _speed(view: PoolView) -> Reason | None:
    least, gbps = view.request.network.min_gbps, view.pool.network.gbps
    if least is None or (gbps is not None and gbps >= least):
        return None
    observed = "unknown" if gbps is None else f"{gbps:g} Gbit/s"
    return _reason(view, f">= {least:g} Gbit/s", observed, hint="network.gbps" if gbps is None else "")


def _together(view: PoolView) -> Reason | None:
    """Refuse a pool that could hold the gang, but in no single zone or fabric even if it were empty."""
    pods = view.question.pods
    if not view.question.together or not view.known or view.fits:
        return None
    if view.pods_ever(view.matching) < pods:
        return None
    most = view.together_ever(view.matching)
    if most >= pods:
        return None
    network = view.request.network
    what = " and ".join(
        word for word, asked in (("zone", network.same_zone), ("fabric", network.same_fabric)) if asked
    )
    untold = network.same_fabric and all(node.fabric is None for node in view.matching)
    return _reason(
        view,
        f"{pods} x {view.request.gpus_per_node} GPUs in one {what}",
        f"at most {most} x {view.request.gpus_per_node}",
        hint="network.fabric_label" if untold else "",
    )


def _reason(view: PoolView, needed: str, observed: str, *, hint: str) -> Reason:
    advice = f"; set {hint} of the pool in the catalogue" if hint else ""
    return Reason(
        code=ReasonCode.NETWORK_NOT_OFFERED,
        needed=needed,
        observed=observed,
        message=f"the job needs {needed}, the network of pool {view.pool.name} offers {observed}{advice}",
    )
