"""The four kinds of streams of a cluster, each with where its objects go."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar
from urllib.parse import quote

from airflow_gpu_placement.model.attempt import MANAGED_LABEL
from airflow_gpu_placement.model.kube import Job, Lease, Node, Pod
from airflow_gpu_placement.watch.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from airflow_gpu_placement.watch.store import ClusterStore
    from airflow_gpu_placement.watch.stream import Uplink

# Silence on this stream looks like the silence of every node, so a dead connection must be noticed soon.
_LEASE_WATCH_SECONDS = 12
_OURS = {"labelSelector": f"{MANAGED_LABEL}=true"}

T = TypeVar("T")


class _Sink(Generic[T]):
    """Hands what a stream says to four functions."""

    def __init__(
        self,
        listed: Callable[[tuple[T, ...]], None],
        changed: Callable[[str, T], None],
        opened: Callable[[], None] = lambda: None,
        broken: Callable[[], None] = lambda: None,
    ) -> None:
        self.listed = listed
        self.changed = changed
        self.opened = opened
        self.broken = broken


def of_namespace(store: ClusterStore, uplink: Uplink, namespace: str) -> tuple[Stream[Any], ...]:
    """Return the streams of our Jobs and pods in a namespace: no right beyond it is needed."""
    jobs = _Sink(partial(store.jobs_listed, namespace), partial(store.job_changed, namespace))
    pods = _Sink(partial(store.pods_listed, namespace), store.pod_changed)
    name = quote(namespace)
    return (
        Stream(
            f"jobs in namespace {namespace}",
            f"/apis/batch/v1/namespaces/{name}/jobs",
            Job,
            jobs,
            uplink,
            _OURS,
        ),
        Stream(f"pods in namespace {namespace}", f"/api/v1/namespaces/{name}/pods", Pod, pods, uplink, _OURS),
    )


def of_cluster(store: ClusterStore, uplink: Uplink) -> tuple[Stream[Any], ...]:
    """Return the streams of nodes and of their Leases."""
    nodes = _Sink(store.nodes_listed, store.node_changed)
    leases = _Sink(store.leases_listed, store.lease_changed, store.leases_opened, store.leases.deaf)
    path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    return (
        Stream("nodes", "/api/v1/nodes", Node, nodes, uplink),
        Stream("node leases", path, Lease, leases, uplink, watch_seconds=_LEASE_WATCH_SECONDS),
    )
