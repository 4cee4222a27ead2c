"""The network between the nodes is what the gang needs, and one zone or fabric is large enough for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.capacity_fabric import FABRIC_LABELS
from airflow_gpu_placement.engine.potential import pods_ever, together_ever
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse another kind of network, a slower one, or one that is cut into too small parts."""
    return _kind(view) or _speed(view) or _together(view)


def _kind(view: PoolView) -> Reason | None:
    asked, kind = view.request.network.kinds, view.pool.network.kind
    if not asked or (kind is not None and kind.lower() in asked):
        return None
    return _reason(view, " or ".join(asked), kind or "unknown", advice="" if kind else _set("network.kind"))


def _speed(view: PoolView) -> Reason | None:
    least, gbps = view.request.network.min_gbps, view.pool.network.gbps
    if least is None or (gbps is not None and gbps >= least):
        return None
    observed = "unknown" if gbps is None else f"{gbps:g} Gbit/s"
    advice = _set("network.gbps") if gbps is None else ""
    return _reason(view, f">= {least:g} Gbit/s", observed, advice=advice)


def _set(key: str) -> str:
    return f"; set {key} of the pool in the catalogue"


def _together(view: PoolView) -> Reason | None:
    """Refuse a pool that could hold the gang, but in no single zone or fabric even if it were empty."""
    pods = view.question.pods
    if not view.question.together or not view.known or view.fits:
        return None
    if pods_ever(view, view.possible) < pods:
        return None
    most = together_ever(view, view.possible)
    if most >= pods:
        return None
    network = view.request.network
    what = " and ".join(
        word for word, asked in (("zone", network.same_zone), ("fabric", network.same_fabric)) if asked
    )
    return _reason(
        view,
        f"{pods} x {view.request.gpus_per_node} GPUs in one {what}",
        f"at most {most} x {view.request.gpus_per_node}",
        advice="".join(_remedies(view)),
    )


def _remedies(view: PoolView) -> Iterator[str]:
    """Say what tells the zones and fabrics, and what to set where nothing does or it tells too little."""
    network, default = view.request.network, view.pool.place.zone
    if network.same_zone and default is None:
        if any(node.zone is None for node in view.matching):
            yield "; set zone of the pool in the catalogue, if all its nodes are in one"
        elif view.new_nodes:
            yield "; set zone of the pool in the catalogue, if the nodes that it adds are all in one"
    if network.same_fabric:
        labels = _fabric_labels(view)
        if labels:
            yield (
                f"; the fabric of a node is told by its label {' or '.join(labels)}: if another label tells "
                "it, set network.fabric_label of the pool in the catalogue"
            )
        else:
            yield _set("network.fabric_label")
        if view.new_nodes:
            yield "; no label tells the fabric of a node that the pool has yet to add"


def _fabric_labels(view: PoolView) -> list[str]:
    """Return the labels that told the fabrics of the pool's nodes."""
    keys = (view.pool.network.fabric_label,) if view.pool.network.fabric_label else FABRIC_LABELS
    return [
        key
        for key in keys
        if any(node.fabric and node.labels.get(key) == node.fabric for node in view.matching)
    ]


def _reason(view: PoolView, needed: str, observed: str, *, advice: str) -> Reason:
    return Reason(
        code=ReasonCode.NETWORK_NOT_OFFERED,
        needed=needed,
        observed=observed,
        message=f"the job needs {needed}, the network of pool {view.pool.name} offers {observed}{advice}",
    )
