"""Objects without what a watch never looks at: a triggerer keeps thousands of them for days."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from airflow_gpu_placement.engine.ranks import COMPLETION_INDEX, CONTROLLER_UID_LABEL
from airflow_gpu_placement.model.kube import (
    Condition,
    Container,
    ContainerStatus,
    Job,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    Resources,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

_ARCHITECTURE_LABEL = "kubernetes.io/arch"
_POD_LABELS = (CONTROLLER_UID_LABEL, COMPLETION_INDEX)
_SCHEDULED = "PodScheduled"
_POD_CONDITIONS = (_SCHEDULED, "DisruptionTarget")
_NONE: dict[str, Any] = {}  # one for all: a struct makes an empty dictionary for each field that is not set

T = TypeVar("T", bound="Hashable")


def slim_pod(pod: Pod) -> Pod:
    """Return a pod with what its end, its start and its place in the gang are told by."""
    spec = pod.spec
    return msgspec.structs.replace(
        pod,
        metadata=_identity(pod.metadata, _POD_LABELS, (COMPLETION_INDEX,)),
        spec=PodSpec(
            node_name=sys.intern(spec.node_name),
            containers=tuple(map(_container, spec.containers)),
            init_containers=tuple(map(_container, spec.init_containers)),
            overhead=_NONE,
            node_selector=_NONE,
        ),
        status=msgspec.structs.replace(
            pod.status,
            phase=sys.intern(pod.status.phase),
            conditions=tuple(
                _pod_condition(one) for one in pod.status.conditions if one.type in _POD_CONDITIONS
            ),
            container_statuses=tuple(map(_container_status, pod.status.container_statuses)),
            init_container_statuses=tuple(map(_container_status, pod.status.init_container_statuses)),
        ),
    )


def slim_job(job: Job) -> Job:
    """Return a Job without its labels and annotations."""
    return Job(metadata=_identity(job.metadata), spec=_shared(job.spec), status=_shared(job.status))


def slim_node(node: Node) -> Node:
    """Return a node with what tells whether it lives; equal conditions of all nodes are one object."""
    return Node(
        metadata=_identity(node.metadata, (_ARCHITECTURE_LABEL,)),
        spec=NodeSpec(taints=node.spec.taints),
        status=NodeStatus(
            conditions=tuple(_condition(one.type, one.status) for one in node.status.conditions),
            node_info=node.status.node_info,
        ),
    )


def _identity(
    metadata: ObjectMeta, labels: tuple[str, ...] = (), annotations: tuple[str, ...] = ()
) -> ObjectMeta:
    return ObjectMeta(
        name=sys.intern(metadata.name),
        namespace=sys.intern(metadata.namespace),
        uid=sys.intern(metadata.uid),
        labels=_only(labels, metadata.labels),
        annotations=_only(annotations, metadata.annotations),
        creation_timestamp=metadata.creation_timestamp,
        deletion_timestamp=metadata.deletion_timestamp,
    )


def _only(keys: tuple[str, ...], texts: dict[str, str]) -> dict[str, str]:
    return {key: sys.intern(texts[key]) for key in keys if key in texts} or _NONE


def _container(container: Container) -> Container:
    return _shared_container(
        container.name, container.restart_policy, container.resources.limits.get("memory")
    )


@functools.lru_cache(maxsize=4096)
def _shared_container(name: str, restart_policy: str | None, memory: str | float | None) -> Container:
    limits = {} if memory is None else {"memory": memory}
    return Container(name=name, restart_policy=restart_policy, resources=Resources(limits=limits))


@functools.lru_cache(maxsize=4096)
def _condition(type_: str, status: str) -> Condition:
    return Condition(type=type_, status=status)


def _pod_condition(condition: Condition) -> Condition:
    if condition.type == _SCHEDULED:
        condition = msgspec.structs.replace(condition, last_transition_time=None)
    return _shared(condition)


def _container_status(status: ContainerStatus) -> ContainerStatus:
    return msgspec.structs.replace(
        status, name=sys.intern(status.name), last_state=_shared(status.last_state)
    )


def _shared(value: T) -> T:
    """Return the same object for equal ones."""
    return _first_equal(value)  # type: ignore[return-value]  # a cache does not keep the type


@functools.lru_cache(maxsize=1024)
def _first_equal(value: Hashable) -> Hashable:
    return value
