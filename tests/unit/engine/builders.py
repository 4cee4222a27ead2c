"""Builders of the values that the engine works on; every argument has a usual value."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.gpu import identify
from airflow_gpu_placement.engine.place import place
from airflow_gpu_placement.model.decision import Decision, History, PoolVerdict, Setting
from airflow_gpu_placement.model.kube import Node, Pod
from airflow_gpu_placement.model.pool import ClusterRef, DeclaredGpu, GpuPool, Growth, Place, Price
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import Claim, GapKind, NodeCapacity, PoolSignals, SignalGap, Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)

H100 = "NVIDIA-H100-80GB-HBM3"
A100_40 = "NVIDIA-A100-SXM4-40GB"
L40S = "NVIDIA-L40S"


def kube_node(
    name: str = "n1",
    *,
    capacity: Any = "8",
    allocatable: Any = None,
    product: str = H100,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    ready: str | None = "True",
    unschedulable: bool = False,
    deleting: bool = False,
    more: Mapping[str, str] | None = None,
) -> Node:
    """Build a Node object as the API sends it."""
    offered = {"nvidia.com/gpu": capacity, **(more or {})}
    allowed = {"nvidia.com/gpu": capacity if allocatable is None else allocatable, **(more or {})}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "labels": {"nvidia.com/gpu.product": product} if labels is None else dict(labels),
                **({"deletionTimestamp": "2026-01-05T10:00:00Z"} if deleting else {}),
            },
            "spec": {"unschedulable": unschedulable, "taints": list(taints)},
            "status": {
                "capacity": offered,
                "allocatable": allowed,
                "conditions": [] if ready is None else [{"type": "Ready", "status": ready}],
            },
        },
        Node,
    )


def container(gpus: Any = None, *, limit: Any = None, always: bool = False) -> dict[str, Any]:
    """Build a container that requests or limits GPUs; ``always`` makes an init container a sidecar."""
    resources: dict[str, Any] = {}
    if gpus is not None:
        resources["requests"] = {"nvidia.com/gpu": gpus}
    if limit is not None:
        resources["limits"] = {"nvidia.com/gpu": limit}
    return {"name": "main", "resources": resources, **({"restartPolicy": "Always"} if always else {})}


def kube_pod(
    *containers: dict[str, Any],
    node: str = "n1",
    phase: str = "Running",
    init: Sequence[dict[str, Any]] = (),
    overhead: Mapping[str, Any] | None = None,
    deleting: bool = False,
) -> Pod:
    """Build a Pod object that holds GPUs."""
    return msgspec.convert(
        {
            "metadata": {
                "name": "holder",
                **({"deletionTimestamp": "2026-01-05T10:00:00Z"} if deleting else {}),
            },
            "spec": {
                "nodeName": node,
                "containers": list(containers) or [container("1")],
                "initContainers": list(init),
                "overhead": dict(overhead or {}),
            },
            "status": {"phase": phase},
        },
        Pod,
    )


_GROUPS: dict[str, tuple[type[msgspec.Struct], dict[str, str]]] = {
    "gpu": (DeclaredGpu, {key: key for key in DeclaredGpu.__struct_fields__}),
    "place": (Place, {key: key for key in Place.__struct_fields__}),
    "growth": (Growth, {key: key for key in Growth.__struct_fields__}),
    "price": (Price, {key: key for key in Price.__struct_fields__}),
    "cluster": (
        ClusterRef,
        {"conn": "kubernetes_conn_id", "context": "context", "cluster_uid": "uid", "namespace": "namespace"},
    ),
}


def pool(name: str = "p", **fields: Any) -> GpuPool:
    """Build a pool; the fields of its groups may be given flat, such as ``model=`` or ``gpu_hour_usd=``."""
    fields.setdefault("conn", "cluster")
    groups: dict[str, Any] = {
        group: make(**{field: fields.pop(key) for key, field in keys.items() if key in fields})
        for group, (make, keys) in _GROUPS.items()
        if group not in fields
    }
    return GpuPool(name=name, **groups, **fields)


def seen(
    name: str = "n1",
    *,
    gpus: int = 8,
    used: int = 0,
    product: str | None = H100,
    unusable: str | None = None,
    whole: bool = True,
    **more: Any,
) -> NodeCapacity:
    """Build what was observed of a node."""
    offered = gpus if whole else 0
    return NodeCapacity(
        name=name,
        gpu=identify({"nvidia.com/gpu.product": product}) if product else None,
        capacity=offered,
        allocatable=offered,
        used=used,
        free=0 if unusable else max(offered - used, 0),
        whole=whole,
        unusable_because=unusable,
        **more,
    )


def signals(
    name: str, *nodes: NodeCapacity, gap: GapKind | None = None, age_seconds: float = 0, **more: Any
) -> PoolSignals:
    """Build the signals of a pool, or their gap."""
    return PoolSignals(
        pool=name,
        observed_at=NOW - timedelta(seconds=age_seconds),
        source="nodes and pods of https://10.0.0.1:6443",
        nodes=nodes,
        gap=None if gap is None else SignalGap(kind=gap, message=f"{gap.value} happened"),
        **more,
    )


def snapshot(*observed: PoolSignals, claims: Sequence[Claim] = ()) -> Snapshot:
    """Build a snapshot."""
    return Snapshot(taken_at=NOW, pools={one.pool: one for one in observed}, claims=tuple(claims))


def decide(
    request: GpuRequest,
    pools: Sequence[GpuPool],
    *observed: PoolSignals,
    history: History | None = None,
    setting: Setting | None = None,
    claims: Sequence[Claim] = (),
) -> Decision:
    """Decide at the usual moment."""
    return place(
        request,
        pools,
        snapshot(*observed, claims=claims),
        history or History(),
        setting or Setting(),
        now=NOW,
        subject="llm.train",
        catalog_hash="abc",
    )


def verdict_of(decision: Decision, name: str = "p") -> PoolVerdict:
    """Return the one verdict of a pool."""
    (verdict,) = [one for one in decision.verdicts if one.pool == name]
    return verdict


def codes(decision: Decision, name: str = "p") -> list[str]:
    """Return the reason codes of a pool, worst first."""
    return [reason.code.value for reason in verdict_of(decision, name).reasons]


def judged(
    request: dict[str, Any],
    *nodes: Any,
    setting: Setting | None = None,
    history: History | None = None,
    seen_as: dict[str, Any] | None = None,
    **fields: Any,
) -> Decision:
    """Decide about one pool that has these nodes."""
    return decide(
        GpuRequest(**request),
        [pool(**fields)],
        signals("p", *(nodes or (seen(),)), **(seen_as or {})),
        setting=setting,
        history=history,
    )
