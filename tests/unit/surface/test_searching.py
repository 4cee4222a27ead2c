"""Whose a remote job is of which nothing is remembered, and how long a silent cluster is waited for."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.exceptions import Unreachable
from airflow_gpu_placement.launch.find import RemoteJob
from airflow_gpu_placement.model.attempt import Attempt, LogicalTask, TaskRecord
from airflow_gpu_placement.operators import searching
from airflow_gpu_placement.operators.searching import Ours, settle_earlier
from airflow_gpu_placement.operators.sweep import Swept
from tests.unit.engine.builders import pool

if TYPE_CHECKING:
    from airflow_gpu_placement.clusters.client import ClusterClient

BEGAN = datetime(2026, 1, 5, 10, tzinfo=UTC)
CURRENT = Attempt(task=LogicalTask(dag_id="d", run_id="r", task_id="t"), attempt_id="id-1", try_number=1)
BEFORE, AFTER = "2026-01-05T09:59:59Z", "2026-01-05T10:00:01Z"


@pytest.mark.parametrize(
    ("ours", "name", "created_at", "want"),
    [
        pytest.param("prod", "prod", AFTER, True, id="our name"),
        pytest.param("prod", "staging", BEFORE, False, id="another name"),
        pytest.param(None, "staging", BEFORE, False, id="a name, and we have none"),
        pytest.param(None, None, BEFORE, True, id="older than the run"),
        pytest.param("prod", None, BEFORE, True, id="of before we had a name"),
        pytest.param(None, None, AFTER, False, id="perhaps another Airflow's of the same schedule"),
        pytest.param(None, None, None, False, id="nobody knows when"),
    ],
)
def test_only_what_is_certainly_ours_is_withdrawn(
    ours: str | None, name: str | None, created_at: str | None, *, want: bool
) -> None:
    """Two Airflows without a name may run the same DAG on one cluster."""
    found = RemoteJob(
        namespace="n", name="j", uid="u", attempt_id="a", fence=1, installation=name, created_at=created_at
    )
    assert Ours(ours, BEGAN).has(found) is want
    assert not Ours(None, None).has(found) or name is not None


def test_a_silent_cluster_delays_a_first_launch_by_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are asked at once, each once however many pools it has."""
    monkeypatch.setattr(searching, "SEARCH_SECONDS", 0.2)
    asked: list[str] = []

    async def open_cluster(connection: str, _: str | None) -> ClusterClient:
        asked.append(connection)
        if connection == "down":
            raise Unreachable("no")
        await asyncio.sleep(60)
        raise AssertionError("nobody waits that long")

    pools = [pool(name, conn=conn) for name, conn in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "down"))]
    began = time.monotonic()
    swept = asyncio.run(
        settle_earlier(
            TaskRecord(),
            CURRENT,
            pools={one.name: one for one in pools},
            ours=Ours(None, BEGAN),
            open_cluster=open_cluster,
            timeout_seconds=9.0,
        )
    )
    assert time.monotonic() - began < 5
    assert swept == Swept(TaskRecord(), 0, ())
    assert sorted(asked) == ["down", "x", "y"]
