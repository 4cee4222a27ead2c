"""The four kinds of streams of a cluster, each with where its objects go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import quote

from airflow_gpu_placement.model.attempt import MANAGED_LABEL
from airflow_gpu_placement.model.kube import Job, Lease, Node, Pod
from airflow_gpu_placement.watch.slim import slim_job, slim_node, slim_pod
from airflow_gpu_placement.watch.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from airflow_gpu_placement.model.kube import ObjectMeta
    from airflow_gpu_placement.watch.store import ClusterStore
    from airflow_gpu_placement.watch.stream import Uplink

LEASES_PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
# Silence on this stream looks like the silence of every node, so a dead connection must be noticed soon.
_LEASE_WATCH_SECONDS = 12
_OURS = {"labelSelector": f"{MANAGED_LABEL}=true"}

T = TypeVar("T")


class _Sink(Generic[T]):
    """Hands what a stream says to five functions."""

    def __init__(
        self,
        listed: Callable[[Sequence[T], Sequence[ObjectMeta]], None],
        changed: Callable[[str, T], None],
        unreadable: Callable[[ObjectMeta], None] = lambda _: None,
        opened: Callable[[], None] = lambda: None,
        broken: Callable[[], None] = lambda: None,
    ) -> None:
        self.listed = listed
        self.changed = changed
        self.unreadable = unreadable
        self.opened = opened
        self.broken = broken


def of_namespace(store: ClusterStore, uplink: Uplink, namespace: str) -> tuple[Stream[Any], ...]:
    """Return the streams of our Jobs and pods in a namespace: no right beyond it is needed."""
    jobs: _Sink[Job] = _Sink(
        lambda items, unreadable: store.jobs_listed(namespace, items, unreadable),
        lambda kind, job: store.job_changed(namespace, kind, job),
    )
    pods: _Sink[Pod] = _Sink(
        lambda items, unreadable: store.pods_listed(namespace, items, unreadable),
        store.pod_changed,
    )
    name = quote(namespace)
    return (
        Stream(
            f"jobs in namespace {namespace}",
            f"/apis/batch/v1/namespaces/{name}/jobs",
            Job,
            jobs,
            uplink,
            slim_job,
            _OURS,
        ),
        Stream(
            f"pods in namespace {namespace}",
            f"/api/v1/namespaces/{name}/pods",
            Pod,
            pods,
            uplink,
            slim_pod,
            _OURS,
        ),
    )


def of_cluster(store: ClusterStore, uplink: Uplink) -> tuple[Stream[Any], ...]:
    """Return the streams of nodes and of their Leases."""
    nodes: _Sink[Node] = _Sink(store.nodes_listed, store.node_changed, unreadable=store.node_unreadable)
    leases = _Sink(
        store.leases_listed, store.lease_changed, opened=store.leases_opened, broken=store.leases.deaf
    )
    return (
        Stream("nodes", "/api/v1/nodes", Node, nodes, uplink, slim_node),
        Stream("node leases", LEASES_PATH, Lease, leases, uplink, watch_seconds=_LEASE_WATCH_SECONDS),
    )
