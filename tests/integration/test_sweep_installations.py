"""Two Airflows that run the same DAG at the same hours on one cluster leave each other's jobs alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from airflow_gpu_placement.launch.job import create
from airflow_gpu_placement.model.attempt import AttemptRecord, TaskRecord
from airflow_gpu_placement.operators.sweep import sweep
from tests.integration.cluster_support import opener, pool_of, spec_of

if TYPE_CHECKING:
    from lab import Cluster

pytestmark = pytest.mark.lab


def test_a_sweep_takes_what_was_forgotten_and_not_what_is_anothers(cluster: Cluster, namespace: str) -> None:
    """Same DAG, same run, same task: the label of the installation tells whose a job is."""
    pool = pool_of(cluster, namespace)
    first = spec_of(pool, "sleep 600")
    attempt = msgspec.structs.replace(first.attempt, installation="prod", attempt_id="0-11111111")
    forgotten = msgspec.structs.replace(first, attempt=attempt)
    foreign = msgspec.structs.replace(
        first, attempt=msgspec.structs.replace(attempt, installation="staging", attempt_id="0-22222222")
    )
    current = msgspec.structs.replace(attempt, attempt_id="0-33333333", try_number=2)
    known = AttemptRecord(
        attempt_id="0-00000000",
        try_number=1,
        fence=1,
        pool=pool.name,
        kubernetes_conn_id="gpu",
        cluster_uid=cluster.uid,
        namespace=namespace,
        job_name="gp-long-gone",
    )

    async def swept() -> None:
        async with await opener(cluster)("gpu", None) as client:
            for spec in (forgotten, foreign):
                await create(client, spec, expected_uid=cluster.uid)
        await sweep(
            TaskRecord(attempts=(known,)),
            current,
            pools={},
            open_cluster=opener(cluster),
            timeout_seconds=1.0,
        )

    asyncio.run(swept())
    jobs = cluster.api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
    left = {job["metadata"]["name"] for job in jobs if "deletionTimestamp" not in job["metadata"]}
    assert left == {foreign.attempt.job_name}
