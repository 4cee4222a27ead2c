"""Objects without what a watch never looks at: a triggerer keeps thousands of them for days."""

from __future__ import annotations

import functools
import sys

import msgspec

from airflow_gpu_placement.engine.ranks import COMPLETION_INDEX, CONTROLLER_UID_LABEL
from airflow_gpu_placement.model.kube import (
    Condition,
    Container,
    Job,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    Resources,
)

_ARCHITECTURE_LABEL = "kubernetes.io/arch"
_POD_LABELS = (CONTROLLER_UID_LABEL, COMPLETION_INDEX)


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
        ),
        status=msgspec.structs.replace(
            pod.status, conditions=tuple(map(_shared_condition, pod.status.conditions))
        ),
    )


def slim_job(job: Job) -> Job:
    """Return a Job without its labels and annotations."""
    return msgspec.structs.replace(job, metadata=_identity(job.metadata))


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
        uid=metadata.uid,
        labels={key: metadata.labels[key] for key in labels if key in metadata.labels},
        annotations={key: metadata.annotations[key] for key in annotations if key in metadata.annotations},
        creation_timestamp=metadata.creation_timestamp,
        deletion_timestamp=metadata.deletion_timestamp,
    )


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


@functools.lru_cache(maxsize=4096)
def _shared_condition(condition: Condition) -> Condition:
    return condition
