"""What is withdrawn before anything is launched, on a real cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from airflow_gpu_placement.launch.job import create, jobs_path
from airflow_gpu_placement.model.attempt import AttemptPhase, AttemptRecord, TaskRecord
from airflow_gpu_placement.model.outcome import EndGrade
from airflow_gpu_placement.operators.sweep import sweep
from tests.integration.cluster_support import opener, pool_of, spec_of

if TYPE_CHECKING:
    from airflow_gpu_placement.launch.spec import LaunchSpec
    from lab import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]

SCRIPT = "trap 'exit 0' TERM; while true; do sleep 0.1; done"


async def launch(cluster: Cluster, spec: LaunchSpec) -> AttemptRecord:
    """Create a job and return what the operator remembers of it."""
    async with await opener(cluster)("", None) as client:
        created = await create(client, spec, expected_uid=cluster.uid)
    return AttemptRecord(
        attempt_id=spec.attempt.attempt_id,
        try_number=1,
        fence=spec.attempt.fence,
        move=spec.attempt.move,
        pool=spec.pool.name,
        kubernetes_conn_id=cluster.name,
        cluster_uid=cluster.uid,
        namespace=spec.pool.cluster.namespace,
        job_name=spec.attempt.job_name,
        job_uid=created.uid,
        phase=AttemptPhase.CREATED,
    )


def moved(spec: LaunchSpec, **changes: Any) -> LaunchSpec:
    """Return another launch of the same task."""
    return msgspec.structs.replace(spec, attempt=msgspec.structs.replace(spec.attempt, **changes))


async def test_every_launch_but_the_current_one_is_withdrawn(cluster: Cluster, namespace: str) -> None:
    """Also one of the same attempt, and one that only the cluster remembers; their fences are counted."""
    first = spec_of(pool_of(cluster, namespace), SCRIPT)
    known = await launch(cluster, first)
    await launch(cluster, moved(first, attempt_id="0196e7b2-8d1a-7c31-a5b4-0000000000aa", fence=7))
    current = moved(first, move=2, fence=0).attempt
    await launch(cluster, moved(first, move=2, fence=2))

    swept = await sweep(
        TaskRecord(attempts=(known,)),
        current,
        pools={},
        open_cluster=opener(cluster),
        timeout_seconds=60,
    )

    (left,) = swept.record.attempts
    assert (left.phase, left.grade) == (AttemptPhase.ENDED, EndGrade.CONFIRMED)
    assert (swept.largest_fence, swept.unproven) == (7, ())
    jobs = cluster.api.get(jobs_path(namespace))["items"]
    assert [job["metadata"]["name"] for job in jobs] == [current.job_name]


async def test_a_job_that_came_after_its_withdrawal_is_withdrawn(cluster: Cluster, namespace: str) -> None:
    """A create call without an answer may reach the cluster later than the look that found nothing."""
    first = spec_of(pool_of(cluster, namespace), SCRIPT)
    known = await launch(cluster, first)
    refused = msgspec.structs.replace(known, job_uid=None, phase=AttemptPhase.ENDED, grade=EndGrade.CONFIRMED)
    current = moved(first, move=1, fence=0).attempt

    swept = await sweep(
        TaskRecord(attempts=(refused,)), current, pools={}, open_cluster=opener(cluster), timeout_seconds=60
    )

    assert cluster.api.get(jobs_path(namespace))["items"] == []
    assert (swept.largest_fence, swept.unproven) == (first.attempt.fence, ())


async def test_a_job_that_has_ended_stays_to_be_looked_at(cluster: Cluster, namespace: str) -> None:
    """Its record names it by its uid."""
    first = spec_of(pool_of(cluster, namespace), "exit 1")
    ended = msgspec.structs.replace(
        await launch(cluster, first), phase=AttemptPhase.ENDED, grade=EndGrade.CONFIRMED
    )
    current = moved(first, move=1, fence=0).attempt

    await sweep(
        TaskRecord(attempts=(ended,)), current, pools={}, open_cluster=opener(cluster), timeout_seconds=60
    )

    (job,) = cluster.api.get(jobs_path(namespace))["items"]
    assert "deletionTimestamp" not in job["metadata"]


async def test_nothing_is_withdrawn_in_another_cluster(cluster: Cluster, namespace: str) -> None:
    """A connection that leads elsewhere by now may show another Airflow's job of the same task and run."""
    first = spec_of(pool_of(cluster, namespace), SCRIPT)
    known = await launch(cluster, first)
    elsewhere = msgspec.structs.replace(
        known,
        attempt_id="0196e7b2-8d1a-7c31-a5b4-0000000000aa",
        job_name="gp-earlier",
        job_uid=None,
        cluster_uid="of-another-cluster",
    )
    current = moved(first, attempt_id="0196e7b2-8d1a-7c31-a5b4-0000000000bb", fence=0).attempt

    swept = await sweep(
        TaskRecord(attempts=(elsewhere,)), current, pools={}, open_cluster=opener(cluster), timeout_seconds=60
    )

    (job,) = cluster.api.get(jobs_path(namespace))["items"]
    assert "deletionTimestamp" not in job["metadata"]
    assert [one.grade for one in swept.unproven] == [EndGrade.UNKNOWN]


@pytest.mark.parametrize("of", ["another task", "nobody of ours"])
async def test_an_edited_memory_deletes_no_job_of_others(cluster: Cluster, namespace: str, of: str) -> None:
    """Whoever may edit what Airflow remembers of a task could name any job there, attempt and all."""
    theirs = spec_of(pool_of(cluster, namespace), SCRIPT)
    known = msgspec.structs.replace(await launch(cluster, theirs), job_uid=None)
    task = msgspec.structs.replace(theirs.attempt.task, dag_id="of-the-editor")
    if of == "nobody of ours":
        known = msgspec.structs.replace(known, job_name="database")
        body = {
            "metadata": {"name": "database"},
            "spec": {
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
                }
            },
        }
        cluster.api.post(jobs_path(namespace), body)
    current = moved(theirs, task=task, attempt_id="0196e7b2-8d1a-7c31-a5b4-0000000000bb", fence=0).attempt

    await sweep(
        TaskRecord(attempts=(known,)), current, pools={}, open_cluster=opener(cluster), timeout_seconds=3
    )

    jobs = cluster.api.get(jobs_path(namespace))["items"]
    left = {job["metadata"]["name"] for job in jobs if "deletionTimestamp" not in job["metadata"]}
    assert left >= {known.job_name, theirs.attempt.job_name}
