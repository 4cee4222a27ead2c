"""Whole GPUs that are really free, from real Node and Pod objects."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.gpu import identify, sharing_of
from airflow_gpu_placement.engine.quantity import whole
from airflow_gpu_placement.engine.taints import not_tolerated, words
from airflow_gpu_placement.model.signals import NodeCapacity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from airflow_gpu_placement.model.kube import Container, Node, Pod, PodSpec, Toleration
    from airflow_gpu_placement.model.pool import GpuPool

_TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
_MIG_RESOURCE = re.compile(r"nvidia\.com/mig-(\d+)g\.\d+gb.*")
_MIG_SLICES_PER_CARD = 7
_VGPU_ANNOTATION = "hami.io/node-nvidia-register"
_ZONE_LABELS = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")


def pod_devices(spec: PodSpec, resource_name: str) -> int:
    """Return how many devices of a resource the scheduler sets aside for a pod.

    Overhead plus the larger of: all app containers and sidecars together; the neediest init container with
    the
    sidecars that were started before it. A container that names only a limit requests that much.
    """
    running = sum(_asked(container, resource_name) for container in spec.containers)
    sidecars = 0
    starting = 0
    for container in spec.init_containers:
        asked = _asked(container, resource_name)
        if container.restart_policy == "Always":
            sidecars += asked
            asked = 0
        starting = max(starting, sidecars + asked)
    overhead = spec.overhead.get(resource_name)
    return max(running + sidecars, starting) + (0 if overhead is None else whole(overhead, round_up=True))


def _asked(container: Container, resource_name: str) -> int:
    resources = container.resources
    quantity = resources.requests.get(resource_name)
    if quantity is None:
        quantity = resources.limits.get(resource_name)
    return 0 if quantity is None else whole(quantity, round_up=True)


def used_devices(pods: Iterable[Pod], resource_name: str) -> dict[str, int]:
    """Return the devices that pods hold, by node name.

    A pod holds its devices from its binding to a node until it has ended; a terminating pod still holds them.
    """
    used: dict[str, int] = {}
    for pod in pods:
        node_name = pod.spec.node_name
        if not node_name or pod.status.phase in _TERMINAL_PHASES:
            continue
        devices = pod_devices(pod.spec, resource_name)
        if devices:
            used[node_name] = used.get(node_name, 0) + devices
    return used


def node_capacities(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    pool: GpuPool,
    *,
    used: Mapping[str, int] | None = None,
) -> tuple[NodeCapacity, ...]:
    """Return the whole GPUs of a pool's nodes, by node name.

    :param nodes: nodes of the cluster; the pool's selector is applied here.
    :param pods: pods of the whole cluster.
    :param used: devices held by node name when :func:`used_devices` was already asked for these pods and the
        pool's resource; it is the same for every pool of a cluster.
    """
    resource_name = pool.gpu.resource_name
    if used is None:
        used = used_devices(pods, resource_name)
    selector = pool.node_selector.items()
    tolerations = pool.job_tolerations
    found = (
        _capacity(node, resource_name, used.get(node.metadata.name, 0), tolerations)
        for node in nodes
        if selector <= node.metadata.labels.items()
    )
    return tuple(sorted((one for one in found if one is not None), key=lambda one: one.name))


def _capacity(
    node: Node, resource_name: str, used: int, tolerations: Sequence[Toleration]
) -> NodeCapacity | None:
    labels = node.metadata.labels
    gpu = identify(labels)
    capacity = whole(node.status.capacity.get(resource_name, 0))
    if gpu is None and capacity == 0:
        return None  # not a GPU node
    allocatable = whole(node.status.allocatable.get(resource_name, 0))
    not_whole = _not_whole(node, capacity, resource_name)
    if not_whole is not None:
        capacity = allocatable = used = 0
    unusable_because = _closed(node, tolerations) or not_whole
    if unusable_because is None and capacity == 0:
        unusable_because = f"offers no {resource_name}"
    return NodeCapacity(
        name=node.metadata.name,
        gpu=gpu,
        capacity=capacity,
        allocatable=allocatable,
        used=used,
        free=max(allocatable - used, 0) if unusable_because is None else 0,
        whole=not_whole is None,
        zone=next((labels[key] for key in _ZONE_LABELS if labels.get(key)), None),
        unusable_because=unusable_because,
    )


def _closed(node: Node, tolerations: Sequence[Toleration]) -> str | None:
    """Say why the scheduler would put no new pod on a node."""
    if node.metadata.deletion_timestamp is not None:
        return "being deleted"
    if node.spec.unschedulable:
        return "cordoned"
    ready = next((one.status for one in node.status.conditions if one.type == "Ready"), "missing")
    if ready != "True":
        return f"not ready (Ready={ready})"
    blocking = not_tolerated(node.spec.taints, tolerations)
    if blocking:
        return f"taint {', '.join(words(taint) for taint in blocking)}"
    return None


def _not_whole(node: Node, capacity: int, resource_name: str) -> str | None:
    """Say why a node's devices cannot be handed out as whole GPUs."""
    labels = node.metadata.labels
    slices = _mig_slices(node)
    if capacity == 0:
        return "all its GPUs are cut into MIG slices" if slices else None
    if _VGPU_ANNOTATION in node.metadata.annotations:
        return f"shared by a vGPU plugin ({_VGPU_ANNOTATION})"
    sharing = sharing_of(labels, capacity)
    if sharing is not None:
        return sharing
    count = labels.get("nvidia.com/gpu.count", "").strip()
    cards_in_slices = -(-slices // _MIG_SLICES_PER_CARD)
    if count.isdecimal() and cards_in_slices and capacity + cards_in_slices > int(count):
        return (
            f"offers {capacity} {resource_name} and MIG slices of at least {cards_in_slices} cards, "
            f"but has {count}: the same cards twice"
        )
    return None


def _mig_slices(node: Node) -> int:
    """Return the slices of cards that the node offers as MIG devices of any profile."""
    slices = 0
    for name, quantity in node.status.allocatable.items():
        match = _MIG_RESOURCE.fullmatch(name)
        if match is not None:
            slices += int(match[1]) * whole(quantity)
    return slices


def gang_fits(nodes: Iterable[NodeCapacity], gpus_per_node: int, excluded: Collection[str]) -> int:
    """Return how many pods with this many GPUs each fit on usable nodes that are not excluded."""
    return sum(
        node.free // gpus_per_node
        for node in nodes
        if node.unusable_because is None and node.name not in excluded
    )


def capacity_warnings(nodes: Iterable[NodeCapacity]) -> tuple[str, ...]:
    """Say what is odd about a pool's nodes: labels without devices, withdrawn or shared devices."""
    warnings = []
    for node in nodes:
        reason = node.unusable_because
        if node.capacity > node.allocatable:
            warnings.append(
                f"node {node.name}: {node.capacity - node.allocatable} of {node.capacity} GPUs are withdrawn"
            )
        elif node.capacity == 0 and reason is not None:
            warnings.append(f"node {node.name} is labelled as a GPU node but has no whole GPU: {reason}")
        elif node.used > node.allocatable:
            warnings.append(f"node {node.name}: pods hold {node.used} GPUs of {node.allocatable}")
    return tuple(warnings)
