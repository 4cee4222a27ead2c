"""From the nodes of a live cluster to the pools that a catalogue should describe."""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.catalog import node_facts as facts_of
from airflow_gpu_placement.catalog.node_facts import NodeFacts, lasting_taints, node_facts
from airflow_gpu_placement.engine.taints import not_tolerated, words
from airflow_gpu_placement.model.kube import Taint, Toleration
from airflow_gpu_placement.model.pool import (
    CapacityType,
    ClusterRef,
    DeclaredGpu,
    GpuIdentity,
    GpuPool,
    Place,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from airflow_gpu_placement.catalog.seen_nodes import SeenNodes
    from airflow_gpu_placement.model.kube import Node
    from airflow_gpu_placement.model.signals import NodeCapacity

RESOURCE_NAMES = ("nvidia.com/gpu", "amd.com/gpu")
_MOST_EXTRA_LABELS = 4
_SLUG = re.compile(r"[^a-z0-9]+")


class FoundPool(msgspec.Struct, frozen=True, kw_only=True):
    """One pool of a live cluster.

    :param pool: what the catalogue should say.
    :param gpu: GPU as the labels name it; ``None``: no label does.
    :param per_node: different numbers of GPUs of its nodes.
    :param nodes: names of its nodes.
    :param remarks: what a person should know about it.
    """

    pool: GpuPool
    gpu: GpuIdentity | None
    per_node: tuple[int, ...]
    nodes: tuple[str, ...]
    machine_type: str | None = None
    remarks: tuple[str, ...] = ()


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """Everything found in one cluster.

    :param left_out: what looks like a GPU but cannot be a pool, in words.
    """

    pools: tuple[FoundPool, ...]
    left_out: tuple[str, ...] = ()


class _GroupKey(msgspec.Struct, frozen=True):
    resource_name: str
    gpu: GpuIdentity | None
    facts: NodeFacts


def discover(seen_nodes: SeenNodes, cluster: ClusterRef) -> Discovery:
    """Group a cluster's nodes into pools of one kind each.

    Nodes of one pool have the same GPU, machine type, node pool, zone and way of being bought. Devices that
    are not whole GPUs make no pool.

    :param seen_nodes: every node of the cluster; a selector is chosen so that it matches none beyond its
        pool.
    :param cluster: how the cluster is reached; its uid is written into each pool.
    """
    nodes = seen_nodes.nodes
    by_name = {node.metadata.name: node for node in nodes}
    groups: dict[_GroupKey, list[NodeCapacity]] = {}
    left_out: list[str] = []
    for resource_name in RESOURCE_NAMES:
        for seen in _capacities(seen_nodes, cluster, resource_name):
            text = f"node {seen.name}: no whole GPUs: {seen.unusable_because}"
            if not seen.whole and text not in left_out:  # one that is all slices shows under each resource
                left_out.append(text)
            elif seen.whole and seen.capacity > 0:
                key = _GroupKey(resource_name, seen.gpu, node_facts(by_name[seen.name]))
                groups.setdefault(key, []).append(seen)
    grouped = {one.name for members in groups.values() for one in members}
    left_out += _without_devices(seen_nodes, cluster, grouped, left_out)
    ordered = sorted(groups.items(), key=lambda item: _order(item[0]))
    names = _names(cluster.kubernetes_conn_id, [key for key, _ in ordered])
    return Discovery(
        pools=tuple(
            _found(key, [by_name[one.name] for one in members], members, nodes, cluster, name)
            for (key, members), name in zip(ordered, names, strict=True)
        ),
        left_out=tuple(left_out),
    )


def select_exactly(wanted: Collection[str], nodes: Sequence[Node]) -> dict[str, str] | None:
    """Choose labels that match the wanted nodes and no other of the cluster.

    The label that names the GPU is always among them, so that nodes with another GPU that are added later
    do not slip in; then as few others as possible.

    :param wanted: names of nodes, at least one.
    :return: ``None``: no choice of lasting labels tells them from the others.
    """
    members = [node.metadata.labels for node in nodes if node.metadata.name in wanted]
    others = [node.metadata.labels for node in nodes if node.metadata.name not in wanted]
    common = {
        key: members[0][key]
        for key in _candidates()
        if members[0].get(key) and all(labels.get(key) == members[0][key] for labels in members)
    }
    identity = next((key for key in facts_of.IDENTITY_LABELS if key in common), None)
    base = {identity: common[identity]} if identity else {}
    others = [labels for labels in others if base.items() <= labels.items()]
    extra = [key for key in common if key not in base]
    for size in range(min(len(extra), _MOST_EXTRA_LABELS) + 1):
        for keys in combinations(extra, size):
            selector = base | {key: common[key] for key in keys}
            if selector and not any(selector.items() <= labels.items() for labels in others):
                return selector
    return None


def _candidates() -> tuple[str, ...]:
    """Return the labels that may stand in a selector: those that last, preferred ones first."""
    return (
        *facts_of.IDENTITY_LABELS,
        facts_of.MACHINE_TYPE_LABEL,
        *facts_of.NODE_POOL_LABELS,
        *facts_of.CAPACITY_LABELS,
        facts_of.ZONE_LABEL,
        facts_of.REGION_LABEL,
        facts_of.ARCHITECTURE_LABEL,
        "nvidia.com/gpu.memory",
        "nvidia.com/gpu.count",
        "nvidia.com/gpu.machine",
        "nvidia.com/gpu.replicas",
        "cloud.google.com/gke-accelerator-count",
    )


def _capacities(seen_nodes: SeenNodes, cluster: ClusterRef, resource_name: str) -> tuple[NodeCapacity, ...]:
    anything = GpuPool(name="any", cluster=cluster, gpu=DeclaredGpu(resource_name=resource_name))
    return seen_nodes.offering(anything)


def _without_devices(
    seen_nodes: SeenNodes, cluster: ClusterRef, grouped: Collection[str], left_out: Sequence[str]
) -> list[str]:
    """Name the nodes whose labels promise a GPU that no device plugin offers."""
    told = {text.split(":")[0] for text in left_out}
    return [
        f"node {seen.name}: labelled as {seen.gpu}, but offers no GPU; is its device plugin running?"
        for seen in _capacities(seen_nodes, cluster, RESOURCE_NAMES[0])
        if seen.gpu is not None and seen.name not in grouped and f"node {seen.name}" not in told
    ]


def _found(
    key: _GroupKey,
    members: Sequence[Node],
    capacities: Sequence[NodeCapacity],
    nodes: Sequence[Node],
    cluster: ClusterRef,
    name: str,
) -> FoundPool:
    remarks: list[str] = []
    names = tuple(sorted(node.metadata.name for node in members))
    selector = select_exactly(names, nodes)
    if selector is None:
        selector = {}
        remarks.append("no lasting labels tell its nodes from the others: give them one and select by it")
    capacity_type = key.facts.capacity_type
    if capacity_type is None:
        capacity_type = CapacityType.ON_DEMAND if key.facts.cloud else CapacityType.RESERVED
        remarks.append(f"capacity_type: no label tells it; {capacity_type} is a guess")
    if key.gpu is None:
        remarks.append("no label names its GPU: write gpu.model, and gpu.memory_gb where there are several")
    bare = GpuPool(
        name=name,
        cluster=cluster,
        place=Place(cloud=key.facts.cloud, region=key.facts.region, zone=key.facts.zone),
        capacity_type=capacity_type,
        gpu=DeclaredGpu(resource_name=key.resource_name),
        node_selector=selector,
    )
    tolerations, taint_remarks = _tolerations(members, bare)
    return FoundPool(
        pool=msgspec.structs.replace(bare, tolerations=tolerations),
        gpu=key.gpu,
        per_node=tuple(sorted({one.capacity for one in capacities})),
        nodes=names,
        machine_type=key.facts.machine_type,
        remarks=(*remarks, *taint_remarks),
    )


def _tolerations(members: Sequence[Node], pool: GpuPool) -> tuple[tuple[Toleration, ...], tuple[str, ...]]:
    """Tolerate what is on every node of the group; what is on some of them only may be there to keep off."""
    taints = [not_tolerated(lasting_taints(node), pool.job_tolerations) for node in members]
    everywhere = [taint for taint in taints[0] if all(taint in others for others in taints)]
    remarks = [
        f"node {node.metadata.name} has the taint {words(taint)}, which is not tolerated"
        for node, found in zip(members, taints, strict=True)
        for taint in found
        if taint not in everywhere
    ]
    return tuple(tolerate(taint) for taint in everywhere), tuple(remarks)


def tolerate(taint: Taint) -> Toleration:
    """Return the toleration that covers one taint and nothing else."""
    if taint.value:
        return Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
    return Toleration(key=taint.key, operator="Exists", effect=taint.effect)


def _order(key: _GroupKey) -> tuple[str, ...]:
    facts = key.facts
    told = (str(key.gpu or "~"), facts.region, facts.zone, facts.node_pool, facts.machine_type)
    return tuple(part or "" for part in (*told, facts.capacity_type, facts.architecture, key.resource_name))


def _names(conn_id: str, keys: Sequence[_GroupKey]) -> list[str]:
    """Name each group by its cluster and GPU; those that clash also by the first thing that differs."""
    parts = [_name_parts(key) for key in keys]
    columns: list[list[int]] = [[0] for _ in keys]
    while True:
        names = [_slug(conn_id, row, chosen) for row, chosen in zip(parts, columns, strict=True)]
        clashes = [[at for at, other in enumerate(names) if other == name] for name in set(names)]
        told_apart = [
            _tell_apart([parts[at] for at in rows], [columns[at] for at in rows]) for rows in clashes
        ]
        if not any(told_apart):
            break
    twice = {name for name in names if names.count(name) > 1}
    return [f"{name}-{at}" if name in twice else name for at, name in enumerate(names, start=1)]


def _tell_apart(rows: Sequence[Sequence[str]], columns: Sequence[list[int]]) -> bool:
    """Add the first column in which rows of the same name differ to each of them; tell whether one does."""
    for column in range(len(rows[0])):
        if column not in columns[0] and len({row[column] for row in rows}) > 1:
            for chosen in columns:
                chosen.append(column)
            return True
    return False


def _name_parts(key: _GroupKey) -> tuple[str, ...]:
    gpu, facts = key.gpu, key.facts
    memory = f"{gpu.memory_gb:g}gb" if gpu is not None and gpu.memory_gb is not None else ""
    return (
        gpu.model if gpu is not None else "gpu",
        memory,
        (gpu.form_factor or "") if gpu is not None else "",
        (gpu.variant or "") if gpu is not None else "",
        facts.capacity_type or "",
        facts.zone or "",
        facts.node_pool or "",
        facts.machine_type or "",
        facts.architecture or "",
    )


def _slug(conn_id: str, row: Sequence[str], columns: Iterable[int]) -> str:
    text = "-".join(part for part in (conn_id, *(row[column] for column in columns)) if part)
    return _SLUG.sub("-", text.lower()).strip("-")[:60].rstrip("-")
