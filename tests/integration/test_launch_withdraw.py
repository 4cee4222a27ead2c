"""Remote jobs taken away from a real cluster, and how well their end is proven."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.launch.find import find
from airflow_gpu_placement.launch.job import create
from airflow_gpu_placement.launch.withdraw import withdraw
from airflow_gpu_placement.model.outcome import EndGrade
from tests.integration.cluster_support import opener, pool_of, spec_of, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.launch.spec import LaunchSpec
    from lab import Cluster, Node

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]

RUNNING = "trap 'exit 0' TERM; sleep 600 & wait"


async def take_away(
    cluster: Cluster, spec: LaunchSpec, uid: str | None, *, seconds: float, proof: bool = False
) -> EndGrade:
    """Withdraw the job of a spec."""
    async with await opener(cluster)("", None) as client:
        return await withdraw(
            client,
            spec.pool.cluster.namespace,
            spec.attempt.job_name,
            job_uid=uid,
            node_deletion_is_proof=proof,
            timeout_seconds=seconds,
        )


async def launched(cluster: Cluster, spec: LaunchSpec, phase: str = "Running") -> str:
    """Create the job of a spec and wait until its pods are in a phase; return its uid."""
    async with await opener(cluster)("", None) as client:
        created = await create(client, spec, expected_uid=cluster.uid)
    await asyncio.to_thread(
        cluster.api.wait,
        f"/api/v1/namespaces/{spec.pool.cluster.namespace}/pods",
        lambda found: (
            len(found["items"]) == spec.nodes
            and all(pod["status"]["phase"] == phase for pod in found["items"])
        ),
        30,
        f"{spec.nodes} pods are {phase}",
    )
    return created.uid


def left(cluster: Cluster, namespace: str) -> int:
    """Return how many jobs and pods a namespace has."""
    paths = (f"/apis/batch/v1/namespaces/{namespace}/jobs", f"/api/v1/namespaces/{namespace}/pods")
    return sum(len(cluster.api.get(path)["items"]) for path in paths)


async def test_a_running_job_ends_and_its_node_says_so(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """On a healthy node the end is confirmed, and then no process of the job runs any more."""
    node = spare_node()
    idle = len(node.pids())
    pool = pool_of(cluster, namespace, node_selector={"kubernetes.io/hostname": node.name})
    spec = spec_of(pool, RUNNING, nodes=2, gpus_per_node=1)
    uid = await launched(cluster, spec)
    assert len(node.pids()) > idle
    assert await take_away(cluster, spec, uid, seconds=40) is EndGrade.CONFIRMED
    assert len(node.pids()) == idle
    assert left(cluster, namespace) == 0
    async with await opener(cluster)("", None) as client:
        assert await find(client, namespace, spec.attempt.task.hash) == ()


async def test_a_job_that_has_ended_is_confirmed_at_once(cluster: Cluster, namespace: str) -> None:
    """The pods of an ended job are still there to tell how it went."""
    spec = spec_of(pool_of(cluster, namespace), "true")
    uid = await launched(cluster, spec, "Succeeded")
    assert await take_away(cluster, spec, uid, seconds=15) is EndGrade.CONFIRMED
    assert left(cluster, namespace) == 0


async def test_a_job_that_found_no_node_never_ran(cluster: Cluster, namespace: str) -> None:
    """Pods that were never bound have no process."""
    spec = spec_of(pool_of(cluster, namespace), "true", gpus_per_node=500)
    uid = await launched(cluster, spec, "Pending")
    assert await take_away(cluster, spec, uid, seconds=15) is EndGrade.CONFIRMED


async def test_of_what_never_was_nothing_runs(cluster: Cluster, namespace: str) -> None:
    """Without a job and a known uid nothing was created; with one nobody knows how it ended."""
    spec = spec_of(pool_of(cluster, namespace), "true")
    assert await take_away(cluster, spec, None, seconds=5) is EndGrade.CONFIRMED
    uid = "00000000-0000-0000-0000-000000000000"
    assert await take_away(cluster, spec, uid, seconds=5) is EndGrade.UNKNOWN


async def test_a_deletion_is_asked_for_although_nobody_waits_for_the_end(
    cluster: Cluster, namespace: str
) -> None:
    """The time is for the proof; without any, nothing is proven, of a pod without a node neither."""
    bound, unbound = (spec_of(pool_of(cluster, namespace), RUNNING, gpus_per_node=n) for n in (1, 500))
    for spec, phase in ((bound, "Running"), (unbound, "Pending")):
        uid = await launched(cluster, spec, phase)
        assert await take_away(cluster, spec, uid, seconds=0) is EndGrade.UNKNOWN
        await until(lambda: left(cluster, namespace) == 0, seconds=40, what="the job and its pod are gone")


async def test_another_job_of_the_same_name_is_left_alone(cluster: Cluster, namespace: str) -> None:
    """The uid decides, not the name."""
    spec = spec_of(pool_of(cluster, namespace), "sleep 600", gpus_per_node=1)
    await launched(cluster, spec)
    other = "00000000-0000-0000-0000-000000000000"
    assert await take_away(cluster, spec, other, seconds=5) is EndGrade.UNKNOWN
    assert left(cluster, namespace) == 2


async def test_a_silent_node_proves_nothing_until_it_is_back(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """Unknown while the node has no power; the same call confirms once the node has come back."""
    node = spare_node()
    pool = pool_of(cluster, namespace, node_selector={"kubernetes.io/hostname": node.name})
    spec = spec_of(pool, "sleep 600")
    uid = await launched(cluster, spec)
    node.power_off()
    assert await take_away(cluster, spec, uid, seconds=4) is EndGrade.UNKNOWN
    assert left(cluster, namespace) == 2
    again = asyncio.create_task(take_away(cluster, spec, uid, seconds=40))
    await asyncio.sleep(1)
    await asyncio.to_thread(node.start)
    assert await again is EndGrade.CONFIRMED
    assert left(cluster, namespace) == 0


async def test_a_deleted_node_is_proof_only_where_the_pool_says_so(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """After the Node object is gone the process lives on: only somebody's word says otherwise."""
    node = spare_node()
    pool = pool_of(cluster, namespace, node_selector={"kubernetes.io/hostname": node.name})
    spec = spec_of(pool, RUNNING)
    uid = await launched(cluster, spec)
    await asyncio.to_thread(node.kill_agent)
    await asyncio.to_thread(node.delete_object)
    assert await take_away(cluster, spec, uid, seconds=4) is EndGrade.UNKNOWN
    assert node.pids(), "the process lives on"
    assert await take_away(cluster, spec, uid, seconds=4, proof=True) is EndGrade.ASSERTED


async def test_an_operator_may_vouch_for_a_machine(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """The out-of-service taint asserts the end."""
    node = spare_node()
    pool = pool_of(cluster, namespace, node_selector={"kubernetes.io/hostname": node.name})
    spec = spec_of(pool, "sleep 600")
    uid = await launched(cluster, spec)
    node.power_off()
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    await asyncio.to_thread(cluster.api.patch, f"/api/v1/nodes/{node.name}", {"spec": {"taints": [taint]}})
    assert await take_away(cluster, spec, uid, seconds=5) is EndGrade.ASSERTED


async def test_a_job_deleted_in_the_background_leaves_pods_that_are_found(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """The Job is gone at once, its pod on a silent node is not."""
    node = spare_node()
    pool = pool_of(cluster, namespace, node_selector={"kubernetes.io/hostname": node.name})
    spec = spec_of(pool, "sleep 600")
    uid = await launched(cluster, spec)
    node.power_off()
    async with await opener(cluster)("", None) as client:
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{spec.attempt.job_name}"
        await client.delete(path, uid=uid, propagation="Background")
        await asyncio.to_thread(cluster.api.wait, path, lambda job: job is None, 10, "the Job is gone")
        found = await find(client, namespace, spec.attempt.task.hash)
    assert [(one.uid, one.exists, one.attempt_id) for one in found] == [(uid, False, spec.attempt.attempt_id)]
    assert await take_away(cluster, spec, uid, seconds=3) is EndGrade.UNKNOWN
