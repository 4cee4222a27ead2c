"""Free GPUs and missing signals, read from a real cluster."""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from airflow_gpu_placement.clusters.connect import client_from_kubeconfig
from airflow_gpu_placement.exceptions import ConnectionMissing
from airflow_gpu_placement.launch.job import create
from airflow_gpu_placement.model.pool import ClusterRef
from airflow_gpu_placement.model.signals import GapKind
from airflow_gpu_placement.signals.collect import collect
from tests.integration.cluster_support import opener, pool_of, spec_of, utc_now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity, PoolSignals
    from lab import Cluster, Node

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]


async def signals_of(cluster: Cluster, pool: GpuPool, user: str = "admin") -> PoolSignals:
    """Return the signals of one pool."""
    snapshot = await collect([pool], opener(cluster, user), deadline_seconds=10, clock=utc_now)
    return snapshot.pools[pool.name]


async def capacity_of(cluster: Cluster, pool: GpuPool, node: str) -> NodeCapacity:
    """Return what one node of a pool has."""
    signals = await signals_of(cluster, pool)
    assert signals.gap is None, signals.gap
    return next(one for one in signals.nodes if one.name == node)


async def test_a_bound_pod_takes_its_gpus_until_it_ends(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """Free is what is allocatable minus what bound pods hold."""
    node = spare_node()
    pool = pool_of(cluster, namespace, node_selector={"kubernetes.io/hostname": node.name})
    before = await capacity_of(cluster, pool, node.name)
    assert (before.allocatable, before.used, before.free) == (8, 0, 8)
    assert before.gpu is not None
    assert (before.gpu.model, before.gpu.memory_gb) == ("H100", 80)
    async with await opener(cluster)("", None) as client:
        await create(client, spec_of(pool, "sleep 5", gpus_per_node=3), expected_uid=cluster.uid)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    for phase, free in (("Running", 5), ("Succeeded", 8)):
        await asyncio.to_thread(
            cluster.api.wait,
            pods,
            partial(_only_pod_is, phase),
            30,
            f"the pod is {phase}",
        )
        assert (await capacity_of(cluster, pool, node.name)).free == free


async def test_a_cordoned_or_tainted_node_offers_nothing(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """The reason is given in words; a toleration of the pool makes the node usable again."""
    node = spare_node()
    path = f"/api/v1/nodes/{node.name}"
    pool = pool_of(cluster, namespace, node_selector={"kubernetes.io/hostname": node.name})
    cluster.api.patch(path, {"spec": {"unschedulable": True}})
    cordoned = await capacity_of(cluster, pool, node.name)
    assert cordoned.free == 0
    assert cordoned.unusable_because is not None
    taint = {"key": "gpu", "value": "maintenance", "effect": "NoSchedule"}
    cluster.api.patch(path, {"spec": {"unschedulable": None, "taints": [taint]}})
    tainted = await capacity_of(cluster, pool, node.name)
    assert tainted.free == 0
    assert "gpu=maintenance:NoSchedule" in (tainted.unusable_because or "")


async def test_every_gap_has_its_kind(cluster: Cluster, namespace: str) -> None:
    """One cluster in seven states, all asked at the same time: each pool learns its own reason."""
    config = cluster.kubeconfig()
    bad_token = _with_token(config, "not-a-token")
    closed = _with_server(config, "https://127.0.0.1:1")
    visitor = cluster.kubeconfig("visitor")

    async with hung_server() as hung:
        configs = {
            "good": config,
            "bad-token": bad_token,
            "closed": closed,
            "no-rights": visitor,
            "hung": _with_server(config, hung),
            "wrong": config,
        }

        async def open_cluster(name: str, context: str | None) -> ClusterClient:
            if name == "broken":
                raise RuntimeError("a bug")
            if name not in configs:
                raise ConnectionMissing(f"connection {name!r} does not exist")
            return await client_from_kubeconfig(configs[name], context)

        base = pool_of(cluster, namespace)
        names = [*configs, "missing", "broken"]
        other = "11111111-2222-3333-4444-555555555555"
        pools = [
            msgspec.structs.replace(
                base,
                name=name,
                cluster=ClusterRef(
                    kubernetes_conn_id=name, namespace=namespace, uid=other if name == "wrong" else None
                ),
            )
            for name in names
        ]
        began = time.monotonic()
        snapshot = await collect(pools, open_cluster, deadline_seconds=3, clock=utc_now)
        took = time.monotonic() - began
    gaps = {name: signals.gap for name, signals in snapshot.pools.items()}
    kinds = {name: gap and gap.kind for name, gap in gaps.items()}
    assert kinds == {
        "good": None,
        "bad-token": GapKind.UNAUTHORIZED,
        "closed": GapKind.UNREACHABLE,
        "no-rights": GapKind.FORBIDDEN,
        "hung": GapKind.TIMEOUT,
        "wrong": GapKind.WRONG_CLUSTER,
        "missing": GapKind.CONNECTION_MISSING,
        "broken": GapKind.INVALID,
    }
    assert took < 4.5
    messages = {name: gap.message for name, gap in gaps.items() if gap is not None}
    assert 'cannot get resource "namespaces"' in messages["no-rights"]
    assert cluster.uid in messages["wrong"]
    assert "127.0.0.1:1" in messages["closed"]
    assert snapshot.pools["good"].cluster_uid == cluster.uid


async def test_a_forbidden_verb_is_named(cluster: Cluster, namespace: str) -> None:
    """A user who may read the cluster's identity but not its pods learns which right is missing."""
    rules = [
        {"apiGroups": [""], "resources": ["namespaces", "nodes"], "verbs": ["get", "list"]},
    ]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    name = f"half-{namespace}"
    cluster.api.post(f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "visitor"}],
    }
    cluster.api.post(f"{rbac}/clusterrolebindings", binding)
    try:
        gap = (await signals_of(cluster, pool_of(cluster, namespace), "visitor")).gap
    finally:
        cluster.api.delete(f"{rbac}/clusterrolebindings/{name}")
        cluster.api.delete(f"{rbac}/clusterroles/{name}")
    assert gap is not None
    assert gap.kind is GapKind.FORBIDDEN
    assert 'cannot list resource "pods"' in gap.message


@contextlib.asynccontextmanager
async def hung_server() -> AsyncIterator[str]:
    """Run a server that accepts connections and never says a word."""
    writers: list[asyncio.StreamWriter] = []

    def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()


def _only_pod_is(phase: str, pods: dict[str, Any]) -> bool:
    return [pod["status"]["phase"] for pod in pods["items"]] == [phase]


def _with_server(config: dict[str, Any], server: str) -> dict[str, Any]:
    (named,) = config["clusters"]
    return {**config, "clusters": [{**named, "cluster": {**named["cluster"], "server": server}}]}


def _with_token(config: dict[str, Any], token: str) -> dict[str, Any]:
    (named,) = config["users"]
    return {**config, "users": [{**named, "user": {"token": token}}]}
