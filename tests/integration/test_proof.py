"""The wait for the proof that a lost remote job has ended, on a real cluster."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.model.attempt import AttemptRecord
from airflow_gpu_placement.model.outcome import EndGrade, LossPolicy
from airflow_gpu_placement.operators.sweep import LOOK_SECONDS, labels_of, withdraw_attempt
from airflow_gpu_placement.triggers.proof import ProofTrigger
from tests.integration.cluster_support import opener, pool_of, spec_of, until
from tests.integration.test_watch_follow import Told, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.launch.spec import LaunchSpec
    from airflow_gpu_placement.model.outcome import Outcome
    from lab import Cluster, Node

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]


async def lose(cluster: Cluster, node: Node, spec: LaunchSpec) -> Outcome:
    """Run a job on a node that loses its power; return what the watcher makes of it."""
    told = Told()
    following = asyncio.create_task(run(cluster, spec, told, LossPolicy(node_grace_seconds=4.0)))
    await until(lambda: told.log == ["up"], seconds=30, what="the program runs")
    node.power_off()
    return await asyncio.wait_for(following, 40)


def record_of(cluster: Cluster, spec: LaunchSpec, outcome: Outcome) -> AttemptRecord:
    """Remember a job as the operator does when it was lost."""
    job = cluster.api.get(
        f"/apis/batch/v1/namespaces/{spec.pool.cluster.namespace}/jobs/{spec.attempt.job_name}"
    )
    return AttemptRecord(
        attempt_id=spec.attempt.attempt_id,
        try_number=1,
        fence=1,
        pool=spec.pool.name,
        kubernetes_conn_id=cluster.name,
        cluster_uid=cluster.uid,
        namespace=spec.pool.cluster.namespace,
        job_name=spec.attempt.job_name,
        job_uid=job["metadata"]["uid"],
        lost_nodes=outcome.nodes,
        lost_boots=outcome.boot_ids,
    )


async def test_a_node_that_is_up_again_confirms_the_end(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """As long as it is silent nobody can tell; booted anew it runs nothing from before."""
    node = spare_node()
    pool = pool_of(cluster, namespace, node_selector={"kubernetes.io/hostname": node.name})
    spec = spec_of(pool, "echo up; sleep 600")
    outcome = await lose(cluster, node, spec)
    assert (outcome.nodes, list(outcome.boot_ids)) == ((node.name,), [node.name]), outcome
    known = record_of(cluster, spec, outcome)
    grade = await withdraw_attempt(known, open_cluster=opener(cluster), timeout_seconds=LOOK_SECONDS)
    assert grade is EndGrade.UNKNOWN

    until = datetime.now(UTC) + timedelta(seconds=120)
    trigger = ProofTrigger.of(known, labels=labels_of(known, spec.attempt.task), until=until)
    waiting = asyncio.create_task(trigger.news(opener(cluster)))
    done, _ = await asyncio.wait({waiting}, timeout=8)
    assert not done, waiting.result()
    node.start()
    event = await asyncio.wait_for(waiting, 100)
    assert event == {"version": 1, "job_name": known.job_name, "kind": "proof", "grade": "confirmed"}
    # Nothing is left to look at, and yet the boot id tells.
    grade = await withdraw_attempt(known, open_cluster=opener(cluster), timeout_seconds=LOOK_SECONDS)
    assert grade is EndGrade.CONFIRMED
