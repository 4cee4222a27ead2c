"""The quota signals of one pool for one LocalQueue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.gpu import identify
from airflow_gpu_placement.engine.gpu_models import wanted_model
from airflow_gpu_placement.engine.kueue.flavors import flavors_for, group_of
from airflow_gpu_placement.engine.kueue.objects import tree_of
from airflow_gpu_placement.engine.kueue.pending import (
    observed_admissions,
    pending_ahead,
    predicted_wait,
    reclaimable,
)
from airflow_gpu_placement.engine.kueue.stopped import stopped
from airflow_gpu_placement.model.signals import QuotaSignals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_gpu_placement.engine.kueue.pending import ObservedAdmission
    from airflow_gpu_placement.model.kueue import ClusterQueue, KueueObjects, LocalQueue
    from airflow_gpu_placement.model.pool import GpuIdentity, GpuPool


def quota_of_pool(
    objects: KueueObjects,
    pool: GpuPool,
    local_queue: str,
    *,
    priority: int = 0,
    admissions: Sequence[ObservedAdmission] | None = None,
) -> QuotaSignals:
    """Tell what a LocalQueue of the pool's namespace could reserve in the pool.

    :param priority: of the new workload.
    :param admissions: observed in the queue, oldest first; ``None``: those that its workloads tell of.
    """
    door = objects.local_queue(pool.cluster.namespace, local_queue)
    where = f"LocalQueue {pool.cluster.namespace}/{local_queue}"
    if door is None:
        return _nothing(local_queue, "", f"{where} does not exist")
    queue = objects.cluster_queue(door.spec.cluster_queue)
    if queue is None:
        text = f"{where} leads to ClusterQueue {door.spec.cluster_queue}, which does not exist"
        return _nothing(local_queue, door.spec.cluster_queue, text)
    resource = pool.gpu.resource_name
    names = _flavors(objects, queue, pool)
    if isinstance(names, str):
        return _nothing(local_queue, queue.metadata.name, names)
    return quota_of_queue(
        objects, queue, door, names, resource=resource, priority=priority, admissions=admissions
    )


def quota_of_queue(
    objects: KueueObjects,
    queue: ClusterQueue,
    local_queue: LocalQueue,
    flavors: Sequence[str],
    *,
    resource: str,
    priority: int = 0,
    admissions: Sequence[ObservedAdmission] | None = None,
) -> QuotaSignals:
    """Tell what a LocalQueue could reserve in any one of these flavours; never their sum.

    The numbers are those of the flavour with the most available; ``potential`` is that of the largest one.
    Nothing is available in a stopped queue, nor in a ``StrictFIFO`` queue while somebody ahead of the new one
    waits, nor where no flavour is left.
    """
    if not flavors:
        text = f"no flavour of ClusterQueue {queue.metadata.name} matches"
        return _nothing(local_queue.metadata.name, queue.metadata.name, text)
    each = [
        _of_flavor(objects, queue, local_queue, flavor, resource=resource, priority=priority)
        for flavor in flavors
    ]
    best = max(each, key=lambda one: (one.available, one.potential))
    potential = max(one.potential for one in each)
    because = _why(objects, queue, local_queue)
    ahead = pending_ahead(
        objects, queue, priority=priority, resource=resource, available=best.available, potential=potential
    )
    held_back = because is not None or (queue.strict and ahead > 0)
    if admissions is None:
        admissions = observed_admissions(objects, queue)
    turns = ahead if best.available and not held_back else ahead + 1
    return msgspec.structs.replace(
        best,
        available=0 if held_back else best.available,
        borrowing=0 if held_back else best.borrowing,
        potential=potential,
        pending_ahead=ahead,
        wait_seconds=None if because is not None else predicted_wait(admissions, turns),
        stopped_because=because,
    )


def _of_flavor(
    objects: KueueObjects,
    queue: ClusterQueue,
    local_queue: LocalQueue,
    flavor: str,
    *,
    resource: str,
    priority: int,
) -> QuotaSignals:
    tree = tree_of(objects, flavor, resource)
    name = queue.metadata.name
    own = tree.queues[name]
    return QuotaSignals(
        local_queue=local_queue.metadata.name,
        cluster_queue=name,
        flavor=flavor,
        nominal=own.nominal,
        reserved=own.reserved,
        available=tree.available(name),
        potential=tree.potential(name),
        borrowing=tree.borrowing(name),
        reclaimable=reclaimable(
            objects,
            queue,
            tree.borrowers(name),
            withheld=tree.withheld(name),
            priority=priority,
            resource=resource,
            flavor=flavor,
        ),
    )


def _why(objects: KueueObjects, queue: ClusterQueue, local_queue: LocalQueue) -> str | None:
    """Say why nothing is admitted at all."""
    halt = stopped(queue, local_queue)
    if halt is not None:
        return halt.because
    if tree_of(objects, "", "").in_cycle(queue.metadata.name):
        return f"queue stopped: the parents of cohort {queue.cohort} form a circle"
    return None


def _flavors(objects: KueueObjects, queue: ClusterQueue, pool: GpuPool) -> tuple[str, ...] | str:
    """Return the flavours that stand for the pool, or why there is none."""
    resource = pool.gpu.resource_name
    group = group_of(queue, resource)
    name = queue.metadata.name
    if group is None:
        return f"ClusterQueue {name} has no quota for {resource}"
    if pool.kueue.flavor is not None:
        if any(one.name == pool.kueue.flavor for one in group.flavors):
            return (pool.kueue.flavor,)
        return f"ClusterQueue {name} has no quota for {resource} in flavour {pool.kueue.flavor}"
    found = flavors_for(
        objects,
        queue,
        resource,
        selector=pool.node_selector,
        wanted=_gpus(pool),
        tolerations=pool.job_tolerations,
    )
    if found:
        return found
    offered = ", ".join(one.name for one in group.flavors)
    return (
        f"no flavour of ClusterQueue {name} stands for pool {pool.name} (it has: {offered}); set kueue.flavor"
    )


def _gpus(pool: GpuPool) -> tuple[GpuIdentity, ...]:
    told = identify(pool.node_selector)
    if pool.gpu.model is not None:
        told = wanted_model(pool.gpu.model)
    return () if told is None else (told,)


def _nothing(local_queue: str, cluster_queue: str, because: str) -> QuotaSignals:
    return QuotaSignals(
        local_queue=local_queue, cluster_queue=cluster_queue, flavor="", stopped_because=because
    )
