"""What the pods of a cluster hold of its nodes, and what they wait for: counted once for all of its pools.

Beside devices a pod takes one of its node's pod slots, CPU and memory. A pod that the scheduler has promised
a node, where others make way for it, holds its share there already; one for which there is no room at all
gets the next node that a pool adds. Pods of a negative priority, which wait only to be pushed aside, do
neither: a remote job has the priority 0.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.capacity_pods import is_live, pod_devices, pod_units, used_devices
from airflow_gpu_placement.engine.quantity import is_quantity, units

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_gpu_placement.model.kube import Node, Pod
    from airflow_gpu_placement.model.pool import GpuPool

SLOTS = "pods"
BESIDE = ("cpu", "memory")
"""Resources beside GPUs that a job may ask for and that are counted."""

_COUNTED = (SLOTS, *BESIDE)
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
        self._beside: dict[str, list[int]] = {}
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
                held = self._beside.setdefault(node_name, [0] * len(_COUNTED))
                held[0] += 1
                for index, resource in enumerate(BESIDE, start=1):
                    held[index] += pod_units(pod.spec, resource)

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
        """Return what is left of a node's pod slots, CPU (in thousandths) and memory (in bytes).

        :return: without what the node does not tell.
        """
        size = _size(node)
        held = self._beside.get(node.metadata.name)
        if held is None:
            return size
        return {
            resource: max(size[resource] - used, 0)
            for resource, used in zip(_COUNTED, held, strict=True)
            if resource in size
        }

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
    """Return the most pod slots, CPU and memory that one of these nodes has, each by itself."""
    found: dict[str, int] = {}
    for node in nodes:
        for resource, size in _size(node).items():
            found[resource] = max(found.get(resource, 0), size)
    return found


def _size(node: Node) -> dict[str, int]:
    allocatable = node.status.allocatable
    return {
        resource: units(resource, quantity)
        for resource in _COUNTED
        if (quantity := allocatable.get(resource)) is not None and is_quantity(quantity)
    }


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
