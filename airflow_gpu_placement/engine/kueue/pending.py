"""Who waits before a new workload, and how long it may take."""

from __future__ import annotations

from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.capacity import pod_devices
from airflow_gpu_placement.engine.quantity import units

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from airflow_gpu_placement.model.kueue import ClusterQueue, KueueObjects, Workload

_NEWEST = 50
_LEAST_SECONDS = 1.0
"""Kubernetes stamps whole seconds, so nothing shorter was ever observed."""


class ObservedAdmission(msgspec.Struct, frozen=True):
    """When a workload got its quota, and how long after its creation."""

    at: datetime
    waited_seconds: float


def asked_gpus(workload: Workload, resource: str) -> int:
    """Return the devices that all pods of a workload ask for."""
    return sum(one.count * pod_devices(one.template.spec, resource) for one in workload.spec.pod_sets)


def reserved_units(workload: Workload, resource: str, flavor: str) -> int:
    """Return what a workload holds of a resource in a flavour: devices, thousandths of a CPU, bytes."""
    if workload.status.admission is None or workload.is_true("Finished"):
        return 0
    return sum(
        units(resource, one.resource_usage.get(resource, 0), round_up=True)
        for one in workload.status.admission.pod_set_assignments
        if one.flavors.get(resource) == flavor
    )


def waiting_ahead(objects: KueueObjects, queue: ClusterQueue, priority: int) -> list[Workload]:
    """Return the workloads of a queue that are looked at before a new one of this priority."""
    doors = _doors(objects, queue)
    return [
        one
        for one in objects.workloads or ()
        if one.waits_for_quota
        and (one.metadata.namespace, one.spec.queue_name) in doors
        and one.priority >= priority
    ]


def pending_ahead(
    objects: KueueObjects,
    queue: ClusterQueue,
    *,
    priority: int,
    resource: str,
    available: int,
    potential: int,
) -> int:
    """Count the workloads that are looked at before a new one and could hold it back.

    Those of the same or a higher priority go first. Under ``StrictFIFO`` each of them holds back all that
    come after it. Under ``BestEffortFIFO`` one that cannot use what is free is passed, and one that exceeds
    what the queue could ever have never counts.
    """
    if objects.workloads is None:
        return queue.status.pending_workloads or 0
    waiting = waiting_ahead(objects, queue, priority)
    if queue.strict:
        return len(waiting)
    asked = [asked_gpus(one, resource) for one in waiting]
    return sum(1 for gpus in asked if gpus <= potential and (gpus <= available or available == 0))


def reclaimable(
    objects: KueueObjects,
    queue: ClusterQueue,
    borrowers: Collection[str],
    *,
    withheld: int,
    priority: int,
    resource: str,
    flavor: str,
) -> int:
    """Return how much of its own quota, now held by others, a queue would get back by preempting them.

    With ``reclaimWithinCohort: LowerPriority`` only workloads that are known to be less important count.
    """
    if queue.reclaim == "Any":
        return withheld
    if queue.reclaim != "LowerPriority" or not withheld:
        return 0
    lower = sum(
        reserved_units(one, resource, flavor)
        for one in objects.workloads or ()
        if one.status.admission is not None
        and one.status.admission.cluster_queue in borrowers
        and one.priority < priority
    )
    return min(withheld, lower)


def observed_admissions(objects: KueueObjects, queue: ClusterQueue) -> tuple[ObservedAdmission, ...]:
    """Return the admissions that the queue's workloads still tell of, oldest first."""
    name = queue.metadata.name
    found = []
    for one in objects.workloads or ():
        reserved = one.condition("QuotaReserved")
        admission, created = one.status.admission, one.metadata.creation_timestamp
        if reserved is None or reserved.status != "True" or reserved.last_transition_time is None:
            continue
        if admission is not None and admission.cluster_queue == name and created is not None:
            at = datetime.fromisoformat(reserved.last_transition_time)
            waited = (at - datetime.fromisoformat(created)).total_seconds()
            found.append(ObservedAdmission(at, max(0.0, waited)))
    return tuple(sorted(found, key=lambda one: one.at))


def predicted_wait(admissions: Sequence[ObservedAdmission], turns: int) -> float | None:
    """Predict the wait of a new workload: its turn at the observed pace, and no less than is usual there.

    :param admissions: observed in the queue, oldest first; the newest count.
    :param turns: admissions that have to happen until it is in; 0: it is next and there is room.
    :return: seconds; ``None``: too little was observed to tell.
    """
    newest = admissions[-_NEWEST:]
    if len(newest) < 2:
        return None
    usual = median(one.waited_seconds for one in newest)
    pace = (newest[-1].at - newest[0].at).total_seconds() / (len(newest) - 1)
    return max(_LEAST_SECONDS, usual, turns * pace)


def _doors(objects: KueueObjects, queue: ClusterQueue) -> frozenset[tuple[str, str]]:
    return frozenset(
        (one.metadata.namespace, one.metadata.name)
        for one in objects.local_queues
        if one.spec.cluster_queue == queue.metadata.name
    )
