"""Writes whose answers get lost, and the rights that the whole cycle needs."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import yaml
from aiohttp import web

from airflow_gpu_placement.clusters.connect import client_from_kubeconfig
from airflow_gpu_placement.launch.find import find
from airflow_gpu_placement.launch.job import create
from airflow_gpu_placement.launch.withdraw import withdraw
from airflow_gpu_placement.model.outcome import EndGrade, LossPolicy, OutcomeKind
from airflow_gpu_placement.signals.collect import collect
from airflow_gpu_placement.watch.cluster import ClusterKey, shared_watch
from airflow_gpu_placement.watch.follow import follow
from airflow_gpu_placement.watch.followed import JobRef
from tests.integration.cluster_support import opener, pool_of, spec_of, texts, utc_now
from tests.integration.rights import granted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lab import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]

RBAC = Path(__file__).resolve().parents[2] / "docker" / "rbac.yaml"


class LosingProxy:
    """Passes requests on, and loses the answers of the first few POSTs."""

    def __init__(self, cluster: Cluster, lose: int) -> None:
        self._cluster = cluster
        self._lose = lose
        self.posts = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[dict[str, Any]]:
        """Listen, and give a kubeconfig that leads here."""
        trusted = ssl.create_default_context(cafile=str(self._cluster.ca_file))
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted))
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        config = self._cluster.kubeconfig()
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}
        try:
            yield config
        finally:
            await runner.cleanup()
            await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in ("Authorization", "Content-Type")}
        url = self._cluster.server + request.raw_path
        body = await request.read()
        async with self._session.request(request.method, url, headers=headers, data=body) as answer:
            content = await answer.read()
        if request.method == "POST":
            self.posts += 1
            if self.posts <= self._lose:
                assert request.transport is not None
                request.transport.close()
        return web.Response(status=answer.status, body=content, content_type=answer.content_type)


@pytest.mark.parametrize("lose", [1, 2])
async def test_a_lost_answer_makes_no_second_job(cluster: Cluster, namespace: str, lose: int) -> None:
    """The job was created although nobody said so: it is found again and there is one of it."""
    spec = spec_of(pool_of(cluster, namespace), "sleep 600", nodes=2, gpus_per_node=1)
    proxy = LosingProxy(cluster, lose)
    async with proxy.running() as config, await client_from_kubeconfig(config) as client:
        created = await create(client, spec, expected_uid=cluster.uid)
    jobs = cluster.api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
    assert [job["metadata"]["uid"] for job in jobs] == [created.uid]
    assert created.adopted
    assert proxy.posts == lose + 2


async def test_the_whole_cycle_needs_few_rights(cluster: Cluster, namespace: str) -> None:
    """Read signals, create, watch, read logs, withdraw: with the rules that are shipped and nothing else."""
    with contextlib.ExitStack() as grants:
        for made in yaml.safe_load_all(RBAC.read_text()):
            if made["kind"] in {"Role", "ClusterRole"}:
                where = made["metadata"].get("namespace")
                where = namespace if where == "training" else where
                grants.enter_context(granted(cluster, "visitor", made["rules"], where))
        open_cluster = opener(cluster, "visitor")
        pool = pool_of(cluster, namespace)
        snapshot = await collect([pool], open_cluster, deadline_seconds=10, clock=utc_now)
        assert snapshot.pools[pool.name].gap is None
        spec = spec_of(pool, "echo hello; sleep 1", nodes=2, gpus_per_node=1)
        phases: list[str] = []
        log: list[str] = []
        async with await open_cluster("", None) as client:
            created = await create(client, spec, expected_uid=cluster.uid)
            ref = JobRef(namespace, spec.attempt.job_name, created.uid)
            async with shared_watch(ClusterKey("visitor"), open_cluster) as watch:
                following = follow(watch, ref, LossPolicy(), report=phases.append, report_log=texts(log))
                outcome = await asyncio.wait_for(following, 60)
            assert outcome.kind is OutcomeKind.SUCCEEDED, phases
            assert sorted(log) == ["[rank 0] hello", "[rank 1] hello"]
            assert len(await find(client, namespace, spec.attempt.task.hash)) == 1
            grade = await withdraw(
                client,
                namespace,
                spec.attempt.job_name,
                job_uid=created.uid,
                node_deletion_is_proof=False,
                timeout_seconds=20,
            )
        assert grade is EndGrade.CONFIRMED
