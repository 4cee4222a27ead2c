"""What a store is told in tests, and a clock for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.model.kube import (
    Condition,
    Job,
    JobStatus,
    Lease,
    LeaseSpec,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Taint,
)
from airflow_gpu_placement.watch.followed import JobRef, Subscription

if TYPE_CHECKING:
    from airflow_gpu_placement.watch.store import ClusterStore

REF = JobRef("ml", "gp-a", "uid-a")


class Now:
    """A clock that a test moves."""

    def __init__(self, at: float = 0.0) -> None:
        self.at = at

    def __call__(self) -> float:
        """Return the time."""
        return self.at


def job(uid: str = "uid-a", name: str = "gp-a", **status: Any) -> Job:
    """Return a Job."""
    return Job(metadata=ObjectMeta(name=name, namespace="ml", uid=uid), status=JobStatus(**status))


def pod(uid: str, node: str = "", owner: str = "uid-a", namespace: str = "ml", **status: Any) -> Pod:
    """Return a pod of a Job."""
    labels = {"batch.kubernetes.io/controller-uid": owner}
    metadata = ObjectMeta(name=f"pod-{uid}", namespace=namespace, uid=uid, labels=labels)
    return Pod(metadata=metadata, spec=PodSpec(node_name=node), status=PodStatus(**status))


def node(name: str, ready: str = "True", *taints: Taint) -> Node:
    """Return a Node."""
    status = NodeStatus(conditions=(Condition(type="Ready", status=ready),))
    return Node(metadata=ObjectMeta(name=name), spec=NodeSpec(taints=taints), status=status)


def lease(name: str, beat: int) -> Lease:
    """Return a Lease with a period of 10 s."""
    return Lease(
        metadata=ObjectMeta(name=name), spec=LeaseSpec(lease_duration_seconds=40, renew_time=str(beat))
    )


def woken(subscription: Subscription) -> bool:
    """Tell whether a follower was woken, and let it sleep again."""
    was = subscription._news
    subscription._news = False
    return was


def seen(store: ClusterStore, ref: JobRef = REF) -> Any:
    """Return the observation of a job in a cluster that answers."""
    return store.observation(ref, unreachable_seconds=0.0)
