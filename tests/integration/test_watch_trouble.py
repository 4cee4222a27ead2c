"""What a watch must survive besides broken connections: expired credentials, a stall, a wrong cluster."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest

from airflow_gpu_placement.clusters.connect import client_from_kubeconfig
from airflow_gpu_placement.exceptions import WrongCluster
from airflow_gpu_placement.launch.job import create
from airflow_gpu_placement.model.outcome import LossPolicy, OutcomeKind
from airflow_gpu_placement.watch.cluster import ClusterKey, shared_watch
from airflow_gpu_placement.watch.follow import follow
from airflow_gpu_placement.watch.followed import JobRef
from tests.integration.cluster_support import CountingProxy, opener, pool_of, spec_of, texts, until

if TYPE_CHECKING:
    from airflow_gpu_placement.clusters.client import ClusterClient
    from lab import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]


async def launch(cluster: Cluster, namespace: str, script: str) -> JobRef:
    """Create a job that runs a script."""
    spec = spec_of(pool_of(cluster, namespace), script, gpus_per_node=1)
    async with await opener(cluster)("", None) as client:
        created = await create(client, spec, expected_uid=cluster.uid)
    return JobRef(namespace, spec.attempt.job_name, created.uid)


async def test_expired_credentials_are_read_again(cluster: Cluster, namespace: str) -> None:
    """A token that is refused is replaced by what the connection holds now; the job is followed on."""
    proxy = CountingProxy(cluster.server)
    current = await asyncio.to_thread(_new_account, cluster, namespace, "first")
    opened: list[str] = []

    async def open_cluster(_: str, context: str | None) -> ClusterClient:
        config = cluster.kubeconfig()
        config["clusters"][0]["cluster"]["server"] = proxy.url
        config["users"][0]["user"] = {"token": current}
        opened.append(current)
        return await client_from_kubeconfig(config, context)

    ref = await launch(cluster, namespace, "sleep 25")
    phases: list[str] = []
    async with proxy.running(), shared_watch(ClusterKey("expiring"), open_cluster) as watch:
        following = asyncio.create_task(
            follow(watch, ref, LossPolicy(), report=phases.append, report_log=texts(phases), logs=False)
        )
        await until(lambda: any("running" in line for line in phases), seconds=20, what="it runs")
        first, current = current, await asyncio.to_thread(_new_account, cluster, namespace, "second")
        await asyncio.to_thread(_remove_account, cluster, namespace, "first")
        # Answers to a token are remembered for some seconds; then new requests are refused.
        await asyncio.sleep(11)
        proxy.cut()
        outcome = await asyncio.wait_for(following, 60)
    assert outcome.kind is OutcomeKind.SUCCEEDED, phases
    assert opened[0] == first
    assert opened[-1] == current
    assert len(opened) <= 3


async def test_a_stalled_process_blames_no_node(cluster: Cluster, namespace: str) -> None:
    """What was not heard while this process stood still was not silence."""
    ref = await launch(cluster, namespace, "sleep 12")
    phases: list[str] = []
    async with shared_watch(ClusterKey("stalled"), opener(cluster)) as watch:
        following = asyncio.create_task(
            follow(
                watch,
                ref,
                LossPolicy(node_grace_seconds=5),
                report=phases.append,
                report_log=texts(phases),
                logs=False,
            )
        )
        await until(lambda: any("running" in line for line in phases), seconds=20, what="it runs")
        time.sleep(8)  # noqa: ASYNC251 - the stall is the point
        outcome = await asyncio.wait_for(following, 30)
    assert outcome.kind is OutcomeKind.SUCCEEDED, phases
    assert not any("suspected" in line for line in phases)


async def test_another_cluster_behind_the_connection_is_not_believed(cluster: Cluster) -> None:
    """A job that does not exist there has not been deleted."""
    key = ClusterKey("moved", None, "the-uid-of-another-cluster")
    ref = JobRef("default", "gp-x", "uid-x")
    async with shared_watch(key, opener(cluster)) as watch:
        with watch.track(ref):
            with pytest.raises(WrongCluster, match=cluster.uid):
                await watch.client()
            await asyncio.sleep(2)
            observation = watch.observe(ref)
    assert observation.job is not None


async def test_the_last_user_stops_everything(cluster: Cluster) -> None:
    """Two users share one watch; after the last one no task and no connection is left."""
    proxy = CountingProxy(cluster.server)

    async def open_cluster(_: str, context: str | None) -> ClusterClient:
        config: dict[str, Any] = cluster.kubeconfig()
        config["clusters"][0]["cluster"]["server"] = proxy.url
        return await client_from_kubeconfig(config, context)

    async with proxy.running():
        before = asyncio.all_tasks()
        async with shared_watch(ClusterKey("shared"), open_cluster) as first:
            async with shared_watch(ClusterKey("shared"), open_cluster) as second:
                assert first is second
                await until(lambda: set(first.opens().values()) == {1}, seconds=10, what="streams open")
            assert proxy.open_now >= 2
        await until(lambda: not proxy.open_now, seconds=5, what="all connections are closed")
        await until(lambda: asyncio.all_tasks() == before, seconds=5, what="all tasks have ended")


def _new_account(cluster: Cluster, namespace: str, name: str) -> str:
    """Make a service account that may do everything, and return a token of it."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    cluster.api.post(accounts, {"metadata": {"name": name}})
    group = "rbac.authorization.k8s.io"
    cluster.api.post(
        f"/apis/{group}/v1/clusterrolebindings",
        {
            "metadata": {"name": f"{namespace}-{name}"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        },
    )
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = cluster.api.post(f"{accounts}/{name}/token", body)["status"]["token"]
    return token


def _remove_account(cluster: Cluster, namespace: str, name: str) -> None:
    cluster.api.delete(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}")
    cluster.api.delete(f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{namespace}-{name}")
