"""Remote jobs followed to their end on a real cluster."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.clusters.connect import client_from_kubeconfig
from airflow_gpu_placement.launch.job import create
from airflow_gpu_placement.model.outcome import EndGrade, LossPolicy, OutcomeKind
from airflow_gpu_placement.watch.cluster import ClusterKey, shared_watch
from airflow_gpu_placement.watch.follow import follow
from airflow_gpu_placement.watch.followed import JobRef
from tests.integration.cluster_support import (
    RENEW_SECONDS,
    CountingProxy,
    opener,
    pool_of,
    spec_of,
    texts,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.launch.spec import LaunchSpec
    from airflow_gpu_placement.model.outcome import Outcome
    from lab import Cluster, Node

GRACE_SECONDS = 9.0

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]


class Told:
    """What was reported while a job was followed."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.log: list[str] = []


async def launch(cluster: Cluster, spec: LaunchSpec) -> JobRef:
    """Create the job of a spec."""
    async with await opener(cluster)("", None) as client:
        created = await create(client, spec, expected_uid=cluster.uid)
    return JobRef(spec.pool.cluster.namespace, spec.attempt.job_name, created.uid)


async def run(cluster: Cluster, spec: LaunchSpec, told: Told, policy: LossPolicy | None = None) -> Outcome:
    """Launch a job and follow it to its end."""
    ref = await launch(cluster, spec)
    async with shared_watch(ClusterKey(cluster.name), opener(cluster)) as watch:
        return await follow(
            watch, ref, policy or LossPolicy(), report=told.phases.append, report_log=texts(told.log)
        )


async def test_a_success_brings_its_result_and_its_whole_log(cluster: Cluster, namespace: str) -> None:
    """The result file of rank 0 is the outcome's result; no log line is missing or doubled."""
    script = (
        "for i in 1 2 3; do echo line $i; sleep 0.3; done; "
        """echo '{"accuracy": 0.9}' > ${LAB_TERMINATION_LOG:-$GPU_PLACEMENT_RESULT_PATH}"""
    )
    told = Told()
    outcome = await run(cluster, spec_of(pool_of(cluster, namespace), script), told)
    assert outcome.kind is OutcomeKind.SUCCEEDED, (outcome, told.phases)
    assert json.loads(outcome.result or "") == {"accuracy": 0.9}
    assert outcome.grade is EndGrade.CONFIRMED
    assert told.log == ["line 1", "line 2", "line 3"]
    assert sum("is bound to node h100-1" in line for line in told.phases) == 1


async def test_an_application_failure_brings_the_last_log_lines(cluster: Cluster, namespace: str) -> None:
    """The message of the outcome names the exit code and ends with what the program last said."""
    script = "for i in $(seq 30); do echo line $i; done; echo 'ValueError: bad batch' >&2; exit 3"
    told = Told()
    outcome = await run(cluster, spec_of(pool_of(cluster, namespace), script), told)
    assert (outcome.kind, outcome.exit_code) == (OutcomeKind.APPLICATION, 3), outcome
    assert outcome.message.splitlines()[-1] == "ValueError: bad batch"
    assert "line 12" in outcome.message
    assert "line 11\n" not in outcome.message
    assert len(told.log) == 31


async def test_all_ranks_are_streamed_with_their_rank(cluster: Cluster, namespace: str) -> None:
    """A job of two pods finds its peers by name, and its log says who speaks."""
    spec = spec_of(
        pool_of(cluster, namespace),
        "echo rank $NODE_RANK of $PET_NNODES on $MASTER_PORT",
        nodes=2,
        gpus_per_node=2,
    )
    told = Told()
    outcome = await run(cluster, spec, told)
    assert outcome.kind is OutcomeKind.SUCCEEDED
    port = 20_000 + int(spec.attempt.tail, 16) % 10_000
    assert sorted(told.log) == [f"[rank 0] rank 0 of 2 on {port}", f"[rank 1] rank 1 of 2 on {port}"]


async def test_a_node_without_power_is_suspected_then_lost(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """The outcome names the node, and nothing claims that its processes have ended."""
    node = spare_node()
    pool = pool_of(cluster, namespace, node_selector={"kubernetes.io/hostname": node.name})
    told = Told()
    policy = LossPolicy(node_grace_seconds=GRACE_SECONDS)
    following = asyncio.create_task(run(cluster, spec_of(pool, "echo up; sleep 600"), told, policy))
    await until(lambda: told.log == ["up"], seconds=30, what="the program runs")
    node.power_off()
    off_at = time.monotonic()
    outcome = await asyncio.wait_for(following, GRACE_SECONDS + 20)
    took = time.monotonic() - off_at
    assert (outcome.kind, outcome.cause, outcome.nodes) == (
        OutcomeKind.INFRASTRUCTURE,
        "NodeLost",
        (node.name,),
    ), outcome
    assert outcome.grade is EndGrade.UNKNOWN
    assert GRACE_SECONDS - RENEW_SECONDS - 0.5 <= took <= GRACE_SECONDS + 2, (took, told.phases)
    suspected = [line for line in told.phases if line.startswith("suspected")]
    assert len(suspected) >= 1, told.phases
    assert node.name in suspected[0]
    assert node.name in told.phases[-1]


async def test_a_node_that_comes_back_in_time_is_not_lost(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """A pause shorter than the grace is shown and passes; the job goes on."""
    node = spare_node()
    pool = pool_of(cluster, namespace, node_selector={"kubernetes.io/hostname": node.name})
    told = Told()
    policy = LossPolicy(node_grace_seconds=60)
    following = asyncio.create_task(run(cluster, spec_of(pool, "echo up; sleep 14"), told, policy))
    await until(lambda: told.log == ["up"], seconds=30, what="the program runs")
    agent = int((node.root_dir / "agent.pid").read_text().split()[0])
    os.kill(agent, signal.SIGSTOP)
    await until(lambda: "suspected" in told.phases[-1], seconds=20, what="the node is suspected")
    os.kill(agent, signal.SIGCONT)
    outcome = await asyncio.wait_for(following, 60)
    assert outcome.kind is OutcomeKind.SUCCEEDED, told.phases
    assert f"node {node.name} is no longer suspected" in told.phases


async def test_a_missing_right_is_told(cluster: Cluster, namespace: str) -> None:
    """Whoever may not watch learns which right is missing, and the job does not count as gone."""
    ref = JobRef(namespace, "gp-x", "uid-x")
    told = Told()
    async with shared_watch(ClusterKey("visitor"), opener(cluster, "visitor")) as watch:
        following = asyncio.create_task(
            follow(watch, ref, LossPolicy(), report=told.phases.append, report_log=texts(told.log))
        )
        await until(lambda: bool(told.phases), seconds=10, what="the trouble is told")
        await asyncio.sleep(1)
        assert not following.done()
        following.cancel()
    assert len(told.phases) == 1
    assert 'cannot get resource "namespaces"' in told.phases[0]


async def test_a_restart_of_the_api_server_loses_nothing(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """While the API is away nobody is lost; afterwards the log goes on without a gap or a repeat."""
    node = spare_node()
    pool = pool_of(cluster, namespace, node_selector={"kubernetes.io/hostname": node.name})
    told = Told()
    script = "for i in $(seq 150); do echo line $i; sleep 0.1; done"
    policy = LossPolicy(node_grace_seconds=GRACE_SECONDS)
    following = asyncio.create_task(run(cluster, spec_of(pool, script), told, policy))
    await until(lambda: "line 5" in told.log, seconds=30, what="the program runs")
    await asyncio.to_thread(cluster.api_server.kill)
    await asyncio.sleep(4)
    await asyncio.to_thread(cluster.api_server.start)
    outcome = await asyncio.wait_for(following, 60)
    assert outcome.kind is OutcomeKind.SUCCEEDED, (outcome, told.phases)
    assert told.log == [f"line {i}" for i in range(1, 151)]


async def test_a_deleted_job_is_cancelled(cluster: Cluster, namespace: str) -> None:
    """Somebody else's deletion is told apart from a loss."""
    told = Told()
    spec = spec_of(pool_of(cluster, namespace), "trap 'exit 0' TERM; echo up; sleep 600 & wait")
    following = asyncio.create_task(run(cluster, spec, told))
    await until(lambda: told.log == ["up"], seconds=30, what="the program runs")
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{spec.attempt.job_name}"
    await asyncio.to_thread(cluster.api.delete, path, propagationPolicy="Background")
    outcome = await asyncio.wait_for(following, 20)
    assert outcome.kind is OutcomeKind.CANCELLED


async def test_nothing_is_known_of_a_job_that_is_gone_before_anybody_looks(
    cluster: Cluster, namespace: str
) -> None:
    """A job that no stream ever shows is asked for by its name before it counts as gone."""
    told = Told()
    ref = JobRef(namespace, "gp-never", "00000000-0000-0000-0000-000000000000")
    async with shared_watch(ClusterKey(cluster.name), opener(cluster)) as watch:
        outcome = await asyncio.wait_for(
            follow(watch, ref, LossPolicy(), report=told.phases.append, report_log=texts(told.log)), 20
        )
    assert (outcome.kind, outcome.final) == (OutcomeKind.UNKNOWN, True)


async def test_twenty_followers_share_one_set_of_streams(cluster: Cluster, namespace: str) -> None:
    """However many jobs are followed, the cluster serves four streams, over which all of them succeed."""
    specs = [spec_of(pool_of(cluster, namespace), "sleep 2", gpus_per_node=0) for _ in range(20)]
    refs = [await launch(cluster, spec) for spec in specs]
    proxy = CountingProxy(cluster.server)

    async def open_through_proxy(_: str, context: str | None) -> ClusterClient:
        config = cluster.kubeconfig()
        config["clusters"][0]["cluster"]["server"] = proxy.url
        return await client_from_kubeconfig(config, context)

    async def one(ref: JobRef) -> Outcome:
        async with shared_watch(ClusterKey("proxied"), open_through_proxy) as watch:
            told = Told()
            outcome = await follow(
                watch, ref, LossPolicy(), report=told.phases.append, report_log=texts(told.log), logs=False
            )
            opens.update(watch.opens())
            return outcome

    opens: dict[str, int] = {}
    async with proxy.running():
        outcomes = await asyncio.wait_for(asyncio.gather(*map(one, refs)), 90)
    assert {outcome.kind for outcome in outcomes} == {OutcomeKind.SUCCEEDED}, outcomes
    assert len(opens) == 4
    assert proxy.opened <= 8, (proxy.opened, opens)


async def test_streams_that_are_cut_come_back(cluster: Cluster, namespace: str) -> None:
    """A connection that breaks again and again delays the news and never falsifies it."""
    proxy = CountingProxy(cluster.server)

    async def open_through_proxy(_: str, context: str | None) -> ClusterClient:
        config = cluster.kubeconfig()
        config["clusters"][0]["cluster"]["server"] = proxy.url
        return await client_from_kubeconfig(config, context)

    ref = await launch(
        cluster, spec_of(pool_of(cluster, namespace), "for i in $(seq 50); do echo $i; sleep 0.1; done")
    )
    told = Told()
    async with proxy.running(), shared_watch(ClusterKey("cut"), open_through_proxy) as watch:
        following = asyncio.create_task(
            follow(watch, ref, LossPolicy(), report=told.phases.append, report_log=texts(told.log))
        )
        for _ in range(4):
            await asyncio.sleep(1)
            proxy.cut()
        outcome = await asyncio.wait_for(following, 60)
    assert outcome.kind is OutcomeKind.SUCCEEDED, told.phases
    assert told.log == [str(i) for i in range(1, 51)]
