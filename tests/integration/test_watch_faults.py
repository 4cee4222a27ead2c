"""A cluster or the way to it fails for a while: nobody is lost for it, and no line of a log either."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.clusters.connect import client_from_kubeconfig
from airflow_gpu_placement.launch.job import create
from airflow_gpu_placement.model.outcome import LossPolicy, OutcomeKind
from airflow_gpu_placement.watch.cluster import ClusterKey, shared_watch
from airflow_gpu_placement.watch.follow import follow
from airflow_gpu_placement.watch.followed import JobRef
from tests.integration.cluster_support import CountingProxy, opener, pool_of, spec_of, texts, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.model.outcome import Outcome
    from lab import Cluster, Node

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]

POLICY = LossPolicy(node_grace_seconds=9)
"""Far shorter than the faults, with nodes that renew every second."""

OUTAGE_SECONDS = 20.0


class Followed:
    """A job that says a number every tenth of a second, and what is reported of it."""

    def __init__(
        self, following: asyncio.Task[Outcome], phases: list[str], log: list[str], lines: int
    ) -> None:
        self.following = following
        self.phases = phases
        self.log = log
        self._lines = lines

    async def has_said(self, lines: int) -> None:
        """Wait until so many lines have come."""
        await until(lambda: len(self.log) >= lines, seconds=60, what=f"{lines} lines: {self.phases}")

    async def succeeds(self) -> None:
        """Wait for the end; nothing may have been lost, gone twice or been taken for a loss."""
        outcome = await asyncio.wait_for(self.following, 120)
        assert outcome.kind is OutcomeKind.SUCCEEDED, (outcome, self.phases)
        assert self.log == [f"line {i}" for i in range(1, self._lines + 1)]


@contextlib.asynccontextmanager
async def following(
    cluster: Cluster, namespace: str, node: Node, *, lines: int, open_cluster: OpenCluster | None = None
) -> AsyncIterator[Followed]:
    """Launch such a job on a node and follow it."""
    pool = pool_of(cluster, namespace, node_selector={"kubernetes.io/hostname": node.name})
    spec = spec_of(pool, f"for i in $(seq {lines}); do echo line $i; sleep 0.1; done")
    async with await opener(cluster)("", None) as client:
        created = await create(client, spec, expected_uid=cluster.uid)
    ref = JobRef(namespace, spec.attempt.job_name, created.uid)
    phases: list[str] = []
    log: list[str] = []
    async with shared_watch(ClusterKey(node.name), open_cluster or opener(cluster)) as watch:
        task = asyncio.create_task(
            follow(watch, ref, POLICY, report=phases.append, report_log=texts(log)), name="follow"
        )
        try:
            yield Followed(task, phases, log, lines)
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_a_connection_that_leads_nowhere_is_no_silence_of_nodes(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """Nothing passes and nobody closes a connection, for longer than a node may be silent."""
    proxy = CountingProxy(cluster.server)

    async def open_through_proxy(_: str, context: str | None) -> ClusterClient:
        config = cluster.kubeconfig()
        config["clusters"][0]["cluster"]["server"] = proxy.url
        return await client_from_kubeconfig(config, context)

    async with (
        proxy.running(),
        following(cluster, namespace, spare_node(), lines=350, open_cluster=open_through_proxy) as job,
    ):
        await job.has_said(20)
        with proxy.black_hole():
            await asyncio.sleep(OUTAGE_SECONDS)
            assert not job.following.done(), job.phases
        healed = time.monotonic()
        said = len(job.log)
        await job.has_said(said + 1)
        assert time.monotonic() - healed < 25
        await job.succeeds()


async def test_an_outage_of_etcd_moves_nobody(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """The API server answers and its streams stay open, but no node can renew its Lease."""
    async with following(cluster, namespace, spare_node(), lines=350) as job:
        await job.has_said(20)
        await asyncio.to_thread(cluster.etcd.freeze)
        try:
            await asyncio.sleep(OUTAGE_SECONDS)
        finally:
            await asyncio.to_thread(cluster.etcd.thaw)
        await job.succeeds()
        assert not any("is lost" in line for line in job.phases), job.phases


async def test_an_api_server_that_stops_politely_is_left(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """It keeps silent watches open for a minute, while the new one serves already."""
    async with following(cluster, namespace, spare_node(), lines=150) as job:
        await job.has_said(20)
        await asyncio.to_thread(cluster.api_server.terminate)
        await asyncio.sleep(2)
        await asyncio.to_thread(cluster.api_server.start)
        await job.succeeds()


async def test_a_frozen_api_server_is_no_silence_of_nodes(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """Its machine hangs: connections stay open and nobody answers."""
    async with following(cluster, namespace, spare_node(), lines=350) as job:
        await job.has_said(20)
        await asyncio.to_thread(cluster.api_server.freeze)
        try:
            await asyncio.sleep(OUTAGE_SECONDS)
            assert not job.following.done(), job.phases
        finally:
            await asyncio.to_thread(cluster.api_server.thaw)
        await job.succeeds()
