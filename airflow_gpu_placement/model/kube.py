"""The few fields of Kubernetes objects that a placement needs, as typed subsets.

Decoding a list page into these structs skips every other field (images, managed fields, volumes), which is
what makes reading thousands of nodes cheap. Field names follow the API (camelCase on the wire, snake_case
here).
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

Quantity = str | int | float
"""A resource quantity as the API sends it: ``"8"``, ``8``, ``"500m"``, ``"96Gi"``."""

ObjectT = TypeVar("ObjectT")


class Struct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Base of the typed subsets: frozen, camelCase on the wire, unknown fields are skipped.

    They are trees, so the garbage collector, whose pauses grow with the number of objects, has nothing to
    look for in them.
    """


class OwnerReference(Struct, frozen=True):
    """Who made an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class ObjectMeta(Struct, frozen=True):
    """``metadata`` of any object. Times are RFC 3339 texts."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: tuple[OwnerReference, ...] = ()


class Condition(Struct, frozen=True):
    """One entry of ``status.conditions`` of a node, pod or job."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Taint(Struct, frozen=True):
    """A node's taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(Struct, frozen=True):
    """A pod's toleration; an empty key with ``Exists`` tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSpec(Struct, frozen=True):
    """``spec`` of a node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeInfo(Struct, frozen=True):
    """``status.nodeInfo`` of a node; the boot id is another after every boot of the machine."""

    boot_id: str = msgspec.field(default="", name="bootID")
    architecture: str = ""


class NodeStatus(Struct, frozen=True):
    """``status`` of a node: capacity is what is there, allocatable what pods may use."""

    capacity: dict[str, Quantity] = {}
    allocatable: dict[str, Quantity] = {}
    conditions: tuple[Condition, ...] = ()
    node_info: NodeInfo = NodeInfo()


class Node(Struct, frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Resources(Struct, frozen=True):
    """Requests and limits of a container."""

    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}


class Container(Struct, frozen=True):
    """A container or init container; ``restart_policy="Always"`` on an init container makes it a sidecar."""

    name: str = ""
    resources: Resources = Resources()
    restart_policy: str | None = None


class PodSpec(Struct, frozen=True):
    """``spec`` of a pod; its own ``resources``, of CPU and memory, count before those of its containers."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: Resources = Resources()
    overhead: dict[str, Quantity] = {}
    tolerations: tuple[Toleration, ...] = ()
    node_selector: dict[str, str] = {}
    priority: int | None = None


class Terminated(Struct, frozen=True):
    """State of a container that ended, as its node reported it."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class Waiting(Struct, frozen=True):
    """State of a container that has not started."""

    reason: str = ""
    message: str = ""


class Running(Struct, frozen=True):
    """State of a container that runs."""

    started_at: str | None = None


class ContainerState(Struct, frozen=True):
    """Exactly one of the three is set; none at all means waiting."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class DeviceHealth(Struct, frozen=True):
    """Health of one device that a container holds: ``Healthy``, ``Unhealthy`` or ``Unknown``."""

    resource_id: str = msgspec.field(default="", name="resourceID")
    health: str = "Unknown"
    message: str = ""


class ResourceHealth(Struct, frozen=True):
    """One entry of ``allocatedResourcesStatus``: the devices of one resource."""

    name: str = ""
    resources: tuple[DeviceHealth, ...] = ()


class ContainerStatus(Struct, frozen=True):
    """Status of one container of a pod."""

    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    restart_count: int = 0
    allocated_resources_status: tuple[ResourceHealth, ...] = ()


class ExtendedResourceMapping(Struct, frozen=True):
    """A container's extended resource that was served by a claim."""

    container_name: str = ""
    resource_name: str = ""


class ExtendedResourceClaimStatus(Struct, frozen=True):
    """The claim that the scheduler made for a pod's extended resources."""

    request_mappings: tuple[ExtendedResourceMapping, ...] = ()


class PodStatus(Struct, frozen=True):
    """``status`` of a pod."""

    phase: str = "Pending"
    nominated_node_name: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None


class Pod(Struct, frozen=True):
    """A pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class JobStatus(Struct, frozen=True):
    """``status`` of a batch/v1 Job."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    conditions: tuple[Condition, ...] = ()


class JobSpec(Struct, frozen=True):
    """``spec`` of a batch/v1 Job."""

    completions: int | None = None
    backoff_limit: int | None = None
    suspend: bool = False


class Job(Struct, frozen=True):
    """A batch/v1 Job."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class LeaseSpec(Struct, frozen=True):
    """``spec`` of a Lease; ``renew_time`` is an RFC 3339 text with microseconds."""

    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class Lease(Struct, frozen=True):
    """A node's heart-beat in the namespace ``kube-node-lease``; it has the node's name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class ListMeta(Struct, frozen=True):
    """``metadata`` of a list page."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ListPage(Struct, Generic[ObjectT], frozen=True):
    """One page of a list."""

    metadata: ListMeta = ListMeta()
    items: tuple[ObjectT, ...] = ()


class Status(Struct, frozen=True):
    """The API's error body, also the object of an ``ERROR`` watch event."""

    code: int = 0
    reason: str = ""
    message: str = ""
