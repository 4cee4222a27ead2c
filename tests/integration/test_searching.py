"""Remote jobs of which nothing is remembered, on a real cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec
import pytest

from airflow_gpu_placement.launch.job import create, jobs_path
from airflow_gpu_placement.model.attempt import TaskRecord
from airflow_gpu_placement.operators.searching import Ours, settle_earlier
from tests.integration.cluster_support import opener, pool_of, spec_of

if TYPE_CHECKING:
    from lab import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]


async def test_a_job_of_a_run_that_was_deleted_is_withdrawn(cluster: Cluster, namespace: str) -> None:
    """The run is triggered again under its name; a job that is younger may be another Airflow's."""
    pool = pool_of(cluster, namespace)
    old = spec_of(pool, "sleep 600")
    async with await opener(cluster)("", None) as client:
        created = await create(client, old, expected_uid=cluster.uid)
    current = msgspec.structs.replace(old.attempt, attempt_id="0-33333333", fence=0)

    async def search(run_began: datetime) -> tuple[int, int]:
        swept = await settle_earlier(
            TaskRecord(),
            current,
            pools={"a": pool, "b": msgspec.structs.replace(pool, name="b")},
            ours=Ours(None, run_began),
            open_cluster=opener(cluster),
            timeout_seconds=60,
        )
        return swept.largest_fence, len(swept.unproven)

    now = datetime.now(UTC)
    assert await search(now - timedelta(hours=1)) == (0, 0)
    assert cluster.api.get(jobs_path(namespace, old.attempt.job_name))["metadata"]["uid"] == created.uid
    assert await search(now + timedelta(hours=1)) == (old.attempt.fence, 0)
    assert cluster.api.get(jobs_path(namespace))["items"] == []
