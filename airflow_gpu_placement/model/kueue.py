"""The few fields of Kueue objects that quota arithmetic needs, as typed subsets.

One set of structs reads ``v1beta1`` and ``v1beta2``: a field that was renamed has both names here and one
property that is the answer.
"""

from __future__ import annotations

import msgspec

from airflow_gpu_placement.model.kube import (
    Condition,
    ObjectMeta,
    PodSpec,
    Quantity,
    Struct,
    Taint,
    Toleration,
)

Count = int | None
"""A counter of a status, which may be absent or null."""


class ResourceQuota(Struct, frozen=True):
    """Quota of one resource in one flavour; a limit of ``None`` is no limit."""

    name: str = ""
    nominal_quota: Quantity = 0
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Struct, frozen=True):
    """Quotas of one flavour."""

    name: str = ""
    resources: tuple[ResourceQuota, ...] = ()


class ResourceGroup(Struct, frozen=True):
    """Resources that are given out together: a workload gets all of them in one flavour."""

    covered_resources: tuple[str, ...] = ()
    flavors: tuple[FlavorQuotas, ...] = ()


class Preemption(Struct, frozen=True):
    """Who may be made to give way: ``Never``, ``LowerPriority``, ``Any`` ..."""

    reclaim_within_cohort: str = "Never"


class FlavorFungibility(Struct, frozen=True):
    """Whether a flavour that is found to fit by borrowing ends the search."""

    when_can_borrow: str = "MayStopSearch"


class ClusterQueueSpec(Struct, frozen=True):
    """``spec`` of a ClusterQueue; the cohort is ``cohort`` in v1beta1 and ``cohortName`` in v1beta2."""

    cohort: str | None = None
    cohort_name: str | None = None
    resource_groups: tuple[ResourceGroup, ...] = ()
    queueing_strategy: str = "BestEffortFIFO"
    flavor_fungibility: FlavorFungibility | None = None
    preemption: Preemption | None = None
    stop_policy: str | None = None


class ResourceUsage(Struct, frozen=True):
    """How much of a resource is held in a flavour; ``borrowed`` is the part of ``total`` above nominal."""

    name: str = ""
    total: Quantity = 0
    borrowed: Quantity | None = None


class FlavorUsage(Struct, frozen=True):
    """What is held in one flavour."""

    name: str = ""
    resources: tuple[ResourceUsage, ...] = ()


class ClusterQueueStatus(Struct, frozen=True):
    """``status`` of a ClusterQueue.

    ``flavorsReservation`` holds what workloads have reserved, those that wait for admission checks included;
    ``flavorsUsage`` leaves those out.
    """

    flavors_reservation: tuple[FlavorUsage, ...] | None = None
    flavors_usage: tuple[FlavorUsage, ...] | None = None
    pending_workloads: Count = None
    conditions: tuple[Condition, ...] = ()


class ClusterQueue(Struct, frozen=True):
    """A ClusterQueue."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()

    @property
    def cohort(self) -> str | None:
        """Name of its cohort; ``None``: it neither borrows nor lends."""
        return self.spec.cohort_name or self.spec.cohort or None

    @property
    def strict(self) -> bool:
        """Whether the first pending workload holds back all that come after it."""
        return self.spec.queueing_strategy == "StrictFIFO"

    @property
    def borrows_last(self) -> bool:
        """Whether all flavours are tried without borrowing before one is borrowed in.

        A flavour that fits by borrowing ends the search under ``MayStopSearch``, which v1beta1 called
        ``Borrow``.
        """
        chosen = self.spec.flavor_fungibility
        return chosen is not None and chosen.when_can_borrow == "TryNextFlavor"

    @property
    def reclaim(self) -> str:
        """Which workloads of others give way for quota that is this queue's own."""
        return "Never" if self.spec.preemption is None else self.spec.preemption.reclaim_within_cohort


class CohortSpec(Struct, frozen=True):
    """``spec`` of a Cohort; the parent is ``parent`` in v1alpha1 and ``parentName`` later."""

    parent: str | None = None
    parent_name: str | None = None
    resource_groups: tuple[ResourceGroup, ...] = ()


class Cohort(Struct, frozen=True):
    """A Cohort object; a cohort that has none is a flat one without quota of its own."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CohortSpec = CohortSpec()

    @property
    def parent(self) -> str | None:
        """Name of the cohort above it."""
        return self.spec.parent_name or self.spec.parent or None


class ResourceFlavorSpec(Struct, frozen=True):
    """``spec`` of a ResourceFlavor."""

    node_labels: dict[str, str] = msgspec.field(default_factory=dict)
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


class ResourceFlavor(Struct, frozen=True):
    """A ResourceFlavor: the kind of node that a quota is for."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceFlavorSpec = ResourceFlavorSpec()


class LocalQueueSpec(Struct, frozen=True):
    """``spec`` of a LocalQueue."""

    cluster_queue: str = ""
    stop_policy: str | None = None


class LocalQueueStatus(Struct, frozen=True):
    """``status`` of a LocalQueue."""

    conditions: tuple[Condition, ...] = ()


class LocalQueue(Struct, frozen=True):
    """A LocalQueue: a namespace's door to a ClusterQueue."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()


class PodTemplate(Struct, frozen=True):
    """The pod that a pod set is made of."""

    spec: PodSpec = PodSpec()


class PodSet(Struct, frozen=True):
    """Equal pods of a workload."""

    name: str = "main"
    count: int = 1
    template: PodTemplate = PodTemplate()


class WorkloadSpec(Struct, frozen=True):
    """``spec`` of a Workload."""

    queue_name: str = ""
    priority: int | None = None
    active: bool | None = None
    pod_sets: tuple[PodSet, ...] = ()


class PodSetAssignment(Struct, frozen=True):
    """Flavour and amount that a pod set has reserved of each resource."""

    name: str = "main"
    flavors: dict[str, str] = msgspec.field(default_factory=dict)
    resource_usage: dict[str, Quantity] = msgspec.field(default_factory=dict)


class Admission(Struct, frozen=True):
    """What a workload has reserved."""

    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class AdmissionCheckState(Struct, frozen=True):
    """What one admission check says: ``Pending``, ``Ready``, ``Retry`` or ``Rejected``."""

    name: str = ""
    state: str = "Pending"
    message: str = ""


class WorkloadStatus(Struct, frozen=True):
    """``status`` of a Workload."""

    admission: Admission | None = None
    admission_checks: tuple[AdmissionCheckState, ...] = ()
    conditions: tuple[Condition, ...] = ()


class Workload(Struct, frozen=True):
    """A Workload: what Kueue queues and admits for a job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def priority(self) -> int:
        """Larger is looked at first."""
        return self.spec.priority or 0

    def condition(self, type_: str) -> Condition | None:
        """Return a condition by its type."""
        return next((one for one in self.status.conditions if one.type == type_), None)

    def is_true(self, type_: str) -> bool:
        """Whether a condition holds."""
        found = self.condition(type_)
        return found is not None and found.status == "True"

    @property
    def waits_for_quota(self) -> bool:
        """Whether it is in the queue: it has no quota yet, is not over and not switched off."""
        over = self.is_true("QuotaReserved") or self.is_true("Finished")
        return self.spec.active is not False and not over


class KueueObjects(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of a cluster's Kueue at one moment.

    :param workloads: ``None``: they could not be read, so that only counters are known.
    """

    cluster_queues: tuple[ClusterQueue, ...] = ()
    cohorts: tuple[Cohort, ...] = ()
    flavors: tuple[ResourceFlavor, ...] = ()
    local_queues: tuple[LocalQueue, ...] = ()
    workloads: tuple[Workload, ...] | None = None

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        """Return a ClusterQueue by name."""
        return next((one for one in self.cluster_queues if one.metadata.name == name), None)

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """Return a LocalQueue by namespace and name."""
        return next(
            (
                one
                for one in self.local_queues
                if one.metadata.name == name and one.metadata.namespace == namespace
            ),
            None,
        )

    def flavor(self, name: str) -> ResourceFlavor | None:
        """Return a ResourceFlavor by name."""
        return next((one for one in self.flavors if one.metadata.name == name), None)
