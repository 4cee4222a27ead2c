"""Whole GPUs that are really free, from real Node and Pod objects."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from airflow_gpu_placement.engine.bought import capacity_type_of, region_of
from airflow_gpu_placement.engine.capacity_fabric import architecture_of, fabric_label_of, zone_of
from airflow_gpu_placement.engine.capacity_load import Load
from airflow_gpu_placement.engine.capacity_pods import pod_devices, used_devices
from airflow_gpu_placement.engine.device_faults import faults_of
from airflow_gpu_placement.engine.gpu import identify, marks_gpus
from airflow_gpu_placement.engine.gpu_devices import NodeDevices, devices_of
from airflow_gpu_placement.engine.leaving import leaves_at, leaving_because
from airflow_gpu_placement.engine.pinning import telling_labels
from airflow_gpu_placement.engine.quantity import whole
from airflow_gpu_placement.engine.taints import not_tolerated, words
from airflow_gpu_placement.model.signals import NodeCapacity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from airflow_gpu_placement.engine.dra import DraView
    from airflow_gpu_placement.model.kube import Node, Pod, Toleration
    from airflow_gpu_placement.model.pool import GpuPool

__all__ = [
    "Within",
    "capacity_warnings",
    "closed_because",
    "gang_fits",
    "members_of",
    "node_capacities",
    "pod_devices",
    "used_devices",
]


class Within(StrEnum):
    """What all pods of a gang must share."""

    NODE = "name"
    ZONE = "zone"
    FABRIC = "fabric"


def node_capacities(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    pool: GpuPool,
    *,
    load: Load | None = None,
    dra: DraView | None = None,
) -> tuple[NodeCapacity, ...]:
    """Return the whole GPUs of a pool's nodes, by node name.

    :param nodes: nodes of the cluster; the pool's selector is applied here.
    :param pods: pods of the whole cluster.
    :param load: what these pods hold when that was already counted; it is the same for all pools of a
        cluster.
    :param dra: what the cluster offers through Dynamic Resource Allocation under the pool's resource; on a
        node whose device plugin offers any of the resource, the plugin serves it.
    """
    resource_name = pool.gpu.resource_name
    if load is None:
        load = Load([resource_name], list(pods))
    members = members_of(nodes, pool)
    tolerations = pool.job_tolerations
    found = []
    alike: dict[str, dict[str, str]] = {}  # most nodes of a pool say the same of themselves
    for node in members:
        name = node.metadata.name
        held = _Held(load.used(resource_name, name), load.promised(resource_name, name))
        one = _capacity(node, resource_name, held, tolerations)
        if dra is not None and not served_by_plugin(node, resource_name):
            one = _through_dra(one, node, dra, tolerations)
        if one is not None:
            fabric_label = pool.network.fabric_label or fabric_label_of(node.metadata.labels)
            labels = telling_labels(node.metadata.labels, fabric_label)
            fabric = None if fabric_label is None else labels.get(fabric_label)
            found.append(
                msgspec.structs.replace(
                    one,
                    fabric=fabric,
                    labels=alike.setdefault(str(labels), labels),
                    spare=load.spare(node),
                )
            )
    return tuple(sorted(found, key=lambda one: one.name))


def served_by_plugin(node: Node, resource_name: str) -> bool:
    """Whether a device plugin serves the resource there: a plugin that was removed leaves a 0 behind."""
    return whole(node.status.allocatable.get(resource_name, 0)) > 0


def members_of(nodes: Iterable[Node], pool: GpuPool) -> list[Node]:
    """Return the nodes that a pool's selector covers."""
    selector = pool.node_selector.items()
    return [node for node in nodes if selector <= node.metadata.labels.items()]


class _Held(NamedTuple):
    """Devices of one node that its pods hold, and that are promised to pods which are not there yet."""

    used: int
    promised: int


def _capacity(
    node: Node, resource_name: str, held: _Held, tolerations: Sequence[Toleration]
) -> NodeCapacity | None:
    labels = node.metadata.labels
    gpu = identify(labels)
    devices = devices_of(node, resource_name)
    if gpu is None and _offers_nothing(devices) and not marks_gpus(labels):
        return None  # not a GPU node
    whole = devices.why_not is None or _changes_slices(node)
    # What is promised may be held by pods that are to make way for it: it is not counted twice.
    used = max(held.used, min(held.used + held.promised, devices.allocatable))
    closed = closed_because(node, tolerations)
    unusable_because = closed or devices.why_not or devices.unreadable
    if unusable_because is None and devices.allocatable == 0:
        withdrawn = f"all {devices.capacity} GPUs are withdrawn"
        unusable_because = withdrawn if devices.capacity else f"offers no {resource_name}"
    return NodeCapacity(
        name=node.metadata.name,
        gpu=gpu,
        capacity=devices.capacity,
        allocatable=devices.allocatable,
        used=used if whole else 0,
        free=max(devices.allocatable - used, 0) if unusable_because is None else 0,
        whole=whole,
        shares=devices.shares,
        slices=devices.slices,
        zone=zone_of(labels),
        architecture=architecture_of(labels),
        region=region_of(labels),
        capacity_type=capacity_type_of(labels),
        boot=_boot(node),
        leaves_at=leaves_at(labels),
        closed=closed is not None,
        unusable_because=unusable_because,
    )


def _boot(node: Node) -> str:
    """Return enough of a boot id to tell two boots apart; a fleet's snapshot has one a node."""
    return node.status.node_info.boot_id[:8]


def _offers_nothing(devices: NodeDevices) -> bool:
    return (
        devices.capacity == 0
        and devices.shares == 0
        and not devices.slices
        and devices.unreadable is None
        and devices.why_not is None
    )


def _through_dra(
    seen: NodeCapacity | None, node: Node, dra: DraView, tolerations: Sequence[Toleration]
) -> NodeCapacity | None:
    """Lay what DRA offers on a node over what its labels say."""
    name = node.metadata.name
    labels = node.metadata.labels
    closed = closed_because(node, tolerations)
    base = seen or NodeCapacity(
        name=name,
        zone=zone_of(labels),
        architecture=architecture_of(labels),
        region=region_of(labels),
        capacity_type=capacity_type_of(labels),
        boot=_boot(node),
        leaves_at=leaves_at(labels),
        closed=closed is not None,
    )
    offered = dra.nodes.get(name)
    if name in dra.unknown_nodes:
        text = "its DRA devices cannot be read completely now"
        return msgspec.structs.replace(base, unusable_because=closed or text)
    if offered is None:
        if name not in dra.unmapped_nodes:
            return seen
        text = "offers its GPUs through DRA, and no DeviceClass stands for the pool's resource"
        return msgspec.structs.replace(base, unusable_because=closed or text)
    return msgspec.structs.replace(
        base,
        gpu=base.gpu or offered.gpu,
        capacity=offered.devices,
        allocatable=offered.healthy,
        used=offered.used,
        free=0 if closed else offered.free,
        unusable_because=closed,
        whole=True,
    )


def closed_because(node: Node, tolerations: Sequence[Toleration]) -> str | None:
    """Say why the scheduler would, or should, put no new pod on a node."""
    if node.metadata.deletion_timestamp is not None:
        return "being deleted"
    if node.spec.unschedulable:
        return "cordoned"
    ready = next((one.status for one in node.status.conditions if one.type == "Ready"), "missing")
    if ready != "True":
        return f"not ready (Ready={ready})"
    leaving = leaving_because(node)
    if leaving is not None:
        return leaving
    blocking = not_tolerated(node.spec.taints, tolerations)
    if blocking:
        return f"taint {', '.join(words(taint) for taint in blocking)}"
    faults = faults_of(node)
    if faults:
        return f"GPU fault ({', '.join(faults)})"
    return "its MIG slices are being changed" if _changes_slices(node) else None


def _changes_slices(node: Node) -> bool:
    """Whether what its devices are is about to be another thing."""
    return node.metadata.labels.get("nvidia.com/mig.config.state") in {"pending", "rebooting"}


def gang_fits(
    nodes: Iterable[NodeCapacity],
    gpus_per_node: int,
    excluded: Collection[str],
    within: Collection[Within] = (),
) -> int:
    """Return how many pods with this many GPUs each fit together on usable nodes that are not excluded.

    :param within: what all of them must share, for example ``(Within.ZONE, Within.FABRIC)``. A node that does
        not tell its zone or fabric shares it with nobody.
    """
    groups: Counter[tuple[str, ...]] = Counter()
    for node in nodes:
        group = tuple(str(getattr(node, one.value) or "") for one in within)
        if node.unusable_because is None and node.name not in excluded and all(group):
            groups[group] += node.free // gpus_per_node
    return max(groups.values(), default=0)


def capacity_warnings(nodes: Iterable[NodeCapacity]) -> tuple[str, ...]:
    """Say what is odd about a pool's nodes: labels without devices, withdrawn or shared devices."""
    return tuple(f"node {node.name}{text}" for node in nodes if (text := oddity(node)) is not None)


def oddity(node: NodeCapacity) -> str | None:
    """Say what is odd about a node's devices, to be read after its name."""
    reason = node.unusable_because
    if node.capacity > node.allocatable:
        return f": {node.capacity - node.allocatable} of {node.capacity} GPUs are withdrawn"
    if node.capacity == 0 and reason is not None:
        return f" is labelled as a GPU node but has no whole GPU: {reason}"
    if node.used > node.allocatable:
        return f": pods hold {node.used} GPUs of {node.allocatable}"
    return None
