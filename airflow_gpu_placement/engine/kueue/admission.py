"""Whether a workload would get its quota: every resource it asks for, each group in one flavour."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from airflow_gpu_placement.engine.kueue.flavors import flavors_for, group_of
from airflow_gpu_placement.engine.kueue.objects import tree_of
from airflow_gpu_placement.engine.kueue.pending import waiting_ahead
from airflow_gpu_placement.engine.kueue.stopped import stopped
from airflow_gpu_placement.engine.quantity import units

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_gpu_placement.model.kube import Quantity, Toleration
    from airflow_gpu_placement.model.kueue import ClusterQueue, KueueObjects
    from airflow_gpu_placement.model.pool import GpuIdentity

GPU_RESOURCE = "nvidia.com/gpu"
_PODS = "pods"


class AdmissionForecast(msgspec.Struct, frozen=True, kw_only=True):
    """What Kueue would do with a workload by quota alone.

    :param fits_now: it would reserve its quota now.
    :param fits_ever: it would, were nothing else there.
    :param flavor: flavour that its GPUs would come from; ``None``: none now.
    :param borrows: part of its quota would be borrowed.
    :param because: what it is short of; empty when it fits.
    """

    fits_now: bool
    fits_ever: bool
    flavor: str | None = None
    borrows: bool = False
    because: str = ""


class _Room(NamedTuple):
    """What one flavour can give a group of resources."""

    flavor: str
    now: bool
    ever: bool
    borrows: bool
    short: str


def forecast(
    objects: KueueObjects,
    queue_name: str,
    gpus: int,
    *,
    wanted: Sequence[GpuIdentity] = (),
    others: Mapping[str, Quantity] | None = None,
    selector: Mapping[str, str] | None = None,
    tolerations: Sequence[Toleration] | None = None,
    resource: str = GPU_RESOURCE,
    priority: int = 0,
    pods: int = 1,
) -> AdmissionForecast:
    """Tell whether a workload of one pod set would be admitted by a ClusterQueue.

    Resources of one group come from one flavour; each group chooses its own. A resource that the queue does
    not cover keeps a workload out for good. Under ``StrictFIFO`` whatever waits ahead keeps it out for now,
    also where that waits for another flavour.

    :param gpus: GPUs of the whole workload.
    :param wanted: any of these GPUs; empty: any.
    :param others: what the whole workload asks for beside GPUs, such as ``{"cpu": "64"}``.
    :param pods: of the whole workload; they are counted where the queue has quota for pods.
    """
    queue = objects.cluster_queue(queue_name)
    if queue is None:
        return AdmissionForecast(
            fits_now=False, fits_ever=False, because=f"ClusterQueue {queue_name} does not exist"
        )
    asked = {resource: gpus} | {
        name: units(name, quantity, round_up=True) for name, quantity in (others or {}).items()
    }
    if group_of(queue, _PODS) is not None:
        asked[_PODS] = pods
    uncovered = sorted(name for name in asked if group_of(queue, name) is None)
    if uncovered:
        text = f"ClusterQueue {queue_name} has no quota for {', '.join(uncovered)}"
        return AdmissionForecast(fits_now=False, fits_ever=False, because=text)
    chosen: dict[str, _Room] = {}
    for group in queue.spec.resource_groups:
        part = {name: amount for name, amount in asked.items() if name in group.covered_resources}
        if part:
            names = flavors_for(
                objects,
                queue,
                next(iter(part)),
                selector=selector or {},
                wanted=wanted if resource in part else (),
                tolerations=tolerations,
            )
            room = _choose([_room(objects, queue, name, part) for name in names], queue)
            chosen[next(iter(part))] = room
    held_back = _held_back(objects, queue, priority)
    short = next((room.short for room in chosen.values() if not room.now), "")
    return AdmissionForecast(
        fits_now=not held_back and all(room.now for room in chosen.values()),
        fits_ever=all(room.ever for room in chosen.values()),
        flavor=chosen[resource].flavor if not held_back and chosen[resource].now else None,
        borrows=any(room.borrows for room in chosen.values()),
        because=held_back or short,
    )


def _held_back(objects: KueueObjects, queue: ClusterQueue, priority: int) -> str:
    """Say what keeps anything new out, whatever quota is left; empty: nothing does."""
    halt = stopped(queue)
    if halt is not None:
        return halt.because
    ahead = len(waiting_ahead(objects, queue, priority)) if queue.strict else 0
    many = "1 workload waits" if ahead == 1 else f"{ahead} workloads wait"
    return f"{many} ahead in StrictFIFO order in ClusterQueue {queue.metadata.name}" if ahead else ""


def _choose(rooms: Sequence[_Room], queue: ClusterQueue) -> _Room:
    """Take the first flavour that fits, without borrowing first where the queue says so."""
    if not rooms:
        return _Room("", False, False, False, f"no flavour of ClusterQueue {queue.metadata.name} matches")
    fitting = [room for room in rooms if room.now]
    if queue.borrows_last:
        fitting.sort(key=lambda room: room.borrows)
    if fitting:
        return fitting[0]
    return max(rooms, key=lambda room: room.ever)


def _room(objects: KueueObjects, queue: ClusterQueue, flavor: str, asked: Mapping[str, int]) -> _Room:
    name = queue.metadata.name
    now = ever = True
    borrows = False
    short = ""
    for resource, amount in asked.items():
        tree = tree_of(objects, flavor, resource)
        available, potential = tree.available(name), tree.potential(name)
        own = tree.queues[name].nominal - tree.queues[name].reserved
        borrows = borrows or amount > max(0, own)
        ever = ever and amount <= potential
        if amount > available:
            now = False
            short = (
                short or f"{flavor} has {available} {resource} available ({potential} at most), not {amount}"
            )
    return _Room(flavor, now, ever, borrows and now, short)
