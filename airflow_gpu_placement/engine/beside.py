"""What a pod of the job needs beside GPUs: a pod slot of its node, and CPU, memory and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.capacity_load import SLOTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_gpu_placement.engine.question import Question
    from airflow_gpu_placement.model.signals import NodeCapacity

_NAMES = {SLOTS: "a pod slot", "cpu": "CPUs", "memory": "memory"}
_GIB = 2**30


def pods_beside(needs: Mapping[str, int], spare: Mapping[str, int], pods: int) -> int:
    """Return how many of so many pods find there what each needs beside GPUs.

    What is needed and nothing tells of counts as none. A node that does not tell its pod slots
    is taken to have enough: every kubelet tells them, so they are missing only where the rest is incomplete.
    """
    for resource, needed in needs.items():
        there = spare.get(resource)
        if there is not None:
            pods = min(pods, there // needed)
        elif resource != SLOTS:
            return 0
    return pods


def usable(question: Question, nodes: Iterable[NodeCapacity]) -> list[tuple[NodeCapacity, int]]:
    """Return for each node the free GPUs that pods of the job can use, which need other things with them.

    GPUs beside a full pod of the job count as free too where nothing else is too little.
    """
    size, needs = question.gpus_per_node, question.beside
    found: list[tuple[NodeCapacity, int]] = []
    before, gpus = None, 0
    for node in nodes:
        # Mostly a node is like the one before it, and comparing them is cheaper than counting again.
        if before is None or node.free != before.free or node.spare != before.spare:
            places = node.free // size
            pods = pods_beside(needs, node.spare, places)
            gpus = node.free if pods == places else pods * size
            before = node
        found.append((node, gpus))
    return found


def words(amounts: Mapping[str, int]) -> str:
    """Spell amounts for people: ``64 CPUs, 200 GiB of memory and 4 of rdma/hca``."""
    *others, last = [_amount(resource, amount) for resource, amount in amounts.items()]
    return f"{', '.join(others)} and {last}" if others else last


def name_of(resource: str) -> str:
    """Name a resource for people."""
    return _NAMES.get(resource, resource)


def _amount(resource: str, amount: int) -> str:
    if resource == SLOTS:
        return "a pod slot" if amount == 1 else f"{amount} pod slots"
    if resource == "cpu":
        return f"{amount / 1000:g} CPUs"
    size = f"{amount / _GIB:.4g} GiB" if _is_size(resource) else f"{amount}"
    return f"{size} of {resource}"


def _is_size(resource: str) -> bool:
    return resource in {"memory", "ephemeral-storage"} or resource.startswith("hugepages-")
