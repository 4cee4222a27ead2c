"""From Kueue objects to the cohort tree of one resource in one flavour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.kueue.stopped import stopped
from airflow_gpu_placement.engine.kueue.tree import CohortQuota, QueueQuota, QuotaTree
from airflow_gpu_placement.engine.quantity import units

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_gpu_placement.model.kube import Quantity
    from airflow_gpu_placement.model.kueue import ClusterQueue, KueueObjects, ResourceGroup, ResourceQuota


def tree_of(objects: KueueObjects, flavor: str, resource: str) -> QuotaTree:
    """Build the tree of all queues and cohorts for one resource in one flavour."""
    return QuotaTree(
        (_queue(one, flavor, resource) for one in objects.cluster_queues),
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


def _queue(queue: ClusterQueue, flavor: str, resource: str) -> QueueQuota:
    groups = queue.spec.resource_groups
    return QueueQuota(
        name=queue.metadata.name,
        nominal=_nominal(groups, flavor, resource),
        reserved=reserved_of(queue, flavor, resource),
        borrowing_limit=_limit(groups, flavor, resource, lending=False),
        lending_limit=_limit(groups, flavor, resource, lending=True),
        cohort=queue.cohort,
        active=stopped(queue) is None,
        reclaim=queue.reclaim,
    )


def reserved_of(queue: ClusterQueue, flavor: str, resource: str) -> int:
    """Return what the queue's workloads hold: reserved, not only what is fully admitted."""
    return sum(
        units(resource, held.total, round_up=True)
        for usage in queue.status.flavors_reservation or ()
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
