"""What the pods of a cluster hold of its nodes, and what they wait for: counted once for all of its pools.

Beside GPUs a pod takes one of its node's pod slots, CPU, memory and whatever else it asks for, such as RDMA
devices. A pod that the scheduler has promised
a node, where others make way for it, holds its share there already; one for which there is no room at all
gets the next node that a pool adds. Pods of a negative priority, which wait only to be pushed aside, do
neither: a remote job has the priority 0.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.capacity_pods import (
    is_live,
    names_asked,
    pod_devices,
    pod_units,
    used_devices,
)
from airflow_gpu_placement.engine.quantity import is_quantity, units

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_gpu_placement.model.kube import Node, Pod
    from airflow_gpu_placement.model.pool import GpuPool

SLOTS = "pods"

_ALWAYS = (SLOTS, "cpu", "memory")
"""Resources that are told of every node; of others those that there are some of."""

_BESIDE = re.compile(r"ephemeral-storage|hugepages-.+|[^/]+/(?!gpu$|gpu\.|mig-).+")
"""Other resources that nodes offer: storage, huge pages, and devices that are no GPUs or slices of one."""

_Selector = frozenset[tuple[str, str]]


class Load:
    """All that pods hold and wait for.

    :param resource_names: extended resources under which pools have GPUs.
    :param pods: more of them can be added later.
    """

    def __init__(self, resource_names: Iterable[str], pods: Sequence[Pod] = ()) -> None:
        names = tuple(dict.fromkeys(resource_names))
        self._used: dict[str, Counter[str]] = {name: Counter() for name in names}
        self._promised: dict[str, Counter[str]] = {name: Counter() for name in names}
        self._waiting: dict[str, Counter[tuple[int, _Selector]]] = {name: Counter() for name in names}
        self._beside: dict[str, Counter[str]] = {}
        self.add(pods)

    def add(self, pods: Sequence[Pod]) -> None:
        """Count more pods."""
        for resource_name, used in self._used.items():
            used.update(used_devices(pods, resource_name))
        for pod in pods:
            if not is_live(pod):
                continue
            node_name = pod.spec.node_name or self._not_bound(pod)
            if node_name:
                held = self._beside.setdefault(node_name, Counter())
                held[SLOTS] += 1
                for resource in names_asked(pod.spec):
                    if resource in _ALWAYS or _is_beside(resource):
                        held[resource] += pod_units(pod.spec, resource)

    def _not_bound(self, pod: Pod) -> str:
        """Count a pod without a node; return the name of the node that it was promised, if any."""
        if (pod.spec.priority or 0) < 0:
            return ""
        node_name = pod.status.nominated_node_name
        for resource_name, promised in self._promised.items():
            devices = pod_devices(pod.spec, resource_name)
            if not devices:
                continue
            if node_name:
                promised[node_name] += devices
            elif _found_no_room(pod):
                self._waiting[resource_name][devices, frozenset(pod.spec.node_selector.items())] += 1
        return node_name

    def used(self, resource_name: str, node_name: str) -> int:
        """Return the devices of a node that its pods hold."""
        return self._used[resource_name][node_name]

    def promised(self, resource_name: str, node_name: str) -> int:
        """Return the devices of a node that pods hold which are not there yet."""
        return self._promised[resource_name][node_name]

    def spare(self, node: Node) -> dict[str, int]:
        """Return what is left of a node's pod slots, CPU (in thousandths), memory (in bytes) and the rest.

        :return: without what the node does not tell, and without other resources of which nothing is left.
        """
        size = {one: amount for one, amount in _size(node).items() if one not in self._used}
        held = self._beside.get(node.metadata.name)
        if held is None:
            return size
        left = {resource: max(amount - held[resource], 0) for resource, amount in size.items()}
        return {resource: amount for resource, amount in left.items() if amount or resource in _ALWAYS}

    def waiting(self, pool: GpuPool, members: Sequence[Node]) -> dict[int, int]:
        """Return which pods will get the next nodes of a pool: GPUs a pod -> pods.

        A pod that asks for labels which none of the pool's nodes has waits for something else.

        :param members: nodes of the pool.
        """
        found: Counter[int] = Counter()
        for (devices, selector), pods in self._waiting[pool.gpu.resource_name].items():
            if _may_mean(selector, pool, members):
                found[devices] += pods
        return dict(sorted(found.items()))


def largest(nodes: Iterable[Node]) -> dict[str, int]:
    """Return the most of everything beside GPUs that one of these nodes has, each by itself."""
    found: dict[str, int] = {}
    for node in nodes:
        for resource, size in _size(node).items():
            found[resource] = max(found.get(resource, 0), size)
    return found


def _size(node: Node) -> dict[str, int]:
    allocatable = node.status.allocatable
    found = {
        resource: units(resource, quantity)
        for resource in _ALWAYS
        if (quantity := allocatable.get(resource)) is not None and is_quantity(quantity)
    }
    for resource, quantity in allocatable.items():
        if _is_beside(resource) and (amount := units(resource, quantity)) > 0:
            found[resource] = amount
    return found


@lru_cache(maxsize=1024)
def _is_beside(resource: str) -> bool:
    return _BESIDE.fullmatch(resource) is not None


def _found_no_room(pod: Pod) -> bool:
    """Whether the scheduler has looked for a node in vain."""
    return any(
        one.type == "PodScheduled" and one.status == "False" and one.reason == "Unschedulable"
        for one in pod.status.conditions
    )


def _may_mean(selector: _Selector, pool: GpuPool, members: Sequence[Node]) -> bool:
    if members:
        return any(selector <= node.metadata.labels.items() for node in members)
    return all(pool.node_selector.get(key, value) == value for key, value in selector)
