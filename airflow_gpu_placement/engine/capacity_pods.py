"""Devices, CPU and memory that pods hold, as the scheduler counts them.

A container that reaches GPUs by its runtime class or as a privileged one, without asking for them, is
invisible to the scheduler and so to everything here: such GPUs count as free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.pod_evidence import ended
from airflow_gpu_placement.engine.quantity import is_quantity, units

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from airflow_gpu_placement.model.kube import Pod, PodSpec, Quantity, Resources


def pod_devices(spec: PodSpec, resource_name: str, elsewhere: Collection[str] = ()) -> int:
    """Return how many devices of a resource the scheduler sets aside for a pod.

    Overhead plus the larger of: all app containers and sidecars together; the neediest init container with
    the sidecars that were started before it. A container that names only a limit requests that much.

    :param elsewhere: names of containers that were served in another way.
    """
    running = sum(
        _asked(one.resources, resource_name) for one in spec.containers if one.name not in elsewhere
    )
    sidecars = 0
    starting = 0
    for container in spec.init_containers:
        asked = 0 if container.name in elsewhere else _asked(container.resources, resource_name)
        if container.restart_policy == "Always":
            sidecars += asked
            asked = 0
        starting = max(starting, sidecars + asked)
    return max(running + sidecars, starting) + _overhead(spec, resource_name)


def pod_units(spec: PodSpec, resource_name: str) -> int:
    """Return what the scheduler sets aside for a pod: thousandths of a CPU, bytes, or pieces.

    The same rule as for devices, unless the pod as a whole says what it needs.
    """
    of_pod = _asked(spec.resources, resource_name)
    return of_pod + _overhead(spec, resource_name) if of_pod else pod_devices(spec, resource_name)


def names_asked(spec: PodSpec) -> set[str]:
    """Return the resources that a pod or any container of it asks for."""
    found = {*spec.overhead, *spec.resources.requests, *spec.resources.limits}
    for container in (*spec.containers, *spec.init_containers):
        found.update(container.resources.requests, container.resources.limits)
    return found


def _overhead(spec: PodSpec, resource_name: str) -> int:
    overhead = spec.overhead.get(resource_name)
    return 0 if overhead is None else _held(resource_name, overhead)


def _asked(resources: Resources, resource_name: str) -> int:
    quantity = resources.requests.get(resource_name)
    if quantity is None:
        quantity = resources.limits.get(resource_name)
    return 0 if quantity is None else _held(resource_name, quantity)


def _held(resource_name: str, quantity: Quantity) -> int:
    """Return what a quantity holds; one that cannot be read holds something, so at least one unit."""
    return max(0, units(resource_name, quantity, round_up=True)) if is_quantity(quantity) else 1


def devices_held(pod: Pod, resource_name: str) -> int:
    """Return the devices that a pod holds of what its node's device plugin offers.

    What the scheduler served by a claim is counted with the claim, not here.
    """
    claimed = pod.status.extended_resource_claim_status
    if claimed is None:
        return pod_devices(pod.spec, resource_name)
    names = {one.container_name for one in claimed.request_mappings if one.resource_name == resource_name}
    return pod_devices(pod.spec, resource_name, names)


def is_live(pod: Pod) -> bool:
    """Whether a pod has not ended; a terminating one has not."""
    return not ended(pod)


def used_devices(pods: Iterable[Pod], resource_name: str) -> dict[str, int]:
    """Return the devices that pods hold, by node name.

    A pod holds its devices from its binding to a node until it has ended; a terminating pod still holds them.
    """
    used: dict[str, int] = {}
    for pod in pods:
        node_name = pod.spec.node_name
        if not node_name or not is_live(pod):
            continue
        devices = devices_held(pod, resource_name)
        if devices:
            used[node_name] = used.get(node_name, 0) + devices
    return used


def pending_devices(pods: Iterable[Pod], resource_name: str) -> int:
    """Return the devices that pods ask for that are not bound to a node yet: demand, not use."""
    return sum(
        pod_devices(pod.spec, resource_name) for pod in pods if not pod.spec.node_name and is_live(pod)
    )
