"""From Kueue objects to the cohort tree of one resource in one flavour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.kueue.pending import reserved_units
from airflow_gpu_placement.engine.kueue.stopped import stopped
from airflow_gpu_placement.engine.kueue.tree import CohortQuota, QueueQuota, QuotaTree
from airflow_gpu_placement.engine.quantity import units

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_gpu_placement.model.kube import Quantity
    from airflow_gpu_placement.model.kueue import (
        ClusterQueue,
        FlavorUsage,
        KueueObjects,
        ResourceGroup,
        ResourceQuota,
    )


def tree_of(objects: KueueObjects, flavor: str, resource: str) -> QuotaTree:
    """Build the tree of all queues and cohorts for one resource in one flavour."""
    return QuotaTree(
        (_queue(objects, one, flavor, resource) for one in objects.cluster_queues),
        (
            CohortQuota(
                name=one.metadata.name,
                nominal=_nominal(one.spec.resource_groups, flavor, resource),
                borrowing_limit=_limit(one.spec.resource_groups, flavor, resource, lending=False),
                lending_limit=_limit(one.spec.resource_groups, flavor, resource, lending=True),
                parent=one.parent,
            )
            for one in objects.cohorts
        ),
    )


def _queue(objects: KueueObjects, queue: ClusterQueue, flavor: str, resource: str) -> QueueQuota:
    groups = queue.spec.resource_groups
    return QueueQuota(
        name=queue.metadata.name,
        nominal=_nominal(groups, flavor, resource),
        reserved=reserved_of(objects, queue, flavor, resource),
        borrowing_limit=_limit(groups, flavor, resource, lending=False),
        lending_limit=_limit(groups, flavor, resource, lending=True),
        cohort=queue.cohort,
        active=stopped(queue) is None,
        reclaim=queue.reclaim,
    )


def reserved_of(objects: KueueObjects, queue: ClusterQueue, flavor: str, resource: str) -> int:
    """Return what the queue's workloads hold: reserved, not only what is fully admitted.

    A status that does not say it is no proof that nothing is held: what is fully admitted is then the least
    of it, and so is what the workloads themselves say.
    """
    status = queue.status
    if status.flavors_reservation is not None:
        return _total(status.flavors_reservation, flavor, resource)
    held = sum(
        reserved_units(one, resource, flavor)
        for one in objects.workloads or ()
        if one.status.admission is not None and one.status.admission.cluster_queue == queue.metadata.name
    )
    return max(held, _total(status.flavors_usage or (), flavor, resource))


def _total(usages: Iterable[FlavorUsage], flavor: str, resource: str) -> int:
    return sum(
        units(resource, held.total, round_up=True)
        for usage in usages
        if usage.name == flavor
        for held in usage.resources
        if held.name == resource
    )


def _quota(groups: Sequence[ResourceGroup], flavor: str, resource: str) -> ResourceQuota | None:
    for group in groups:
        for quotas in group.flavors:
            if quotas.name == flavor:
                found = next((one for one in quotas.resources if one.name == resource), None)
                if found is not None:
                    return found
    return None


def _nominal(groups: Sequence[ResourceGroup], flavor: str, resource: str) -> int:
    quota = _quota(groups, flavor, resource)
    return 0 if quota is None else units(resource, quota.nominal_quota)


def _limit(groups: Sequence[ResourceGroup], flavor: str, resource: str, *, lending: bool) -> int | None:
    quota = _quota(groups, flavor, resource)
    if quota is None:
        return None
    limit: Quantity | None = quota.lending_limit if lending else quota.borrowing_limit
    return None if limit is None else units(resource, limit)
