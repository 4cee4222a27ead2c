"""A remote job that somebody suspends while it runs, as an administrator or a queue does, and lets go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.model.outcome import LossPolicy, OutcomeKind
from airflow_gpu_placement.watch.cluster import ClusterKey, shared_watch
from airflow_gpu_placement.watch.follow import follow
from tests.integration.cluster_support import opener, pool_of, spec_of, texts, until
from tests.integration.test_watch_follow import Told, launch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_gpu_placement.model.outcome import Outcome
    from lab import Cluster

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]


async def test_a_job_that_was_suspended_goes_on(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """The pods that its suspension took away say nothing about the ones that run afterwards."""
    done = tmp_path / "done"
    script = f"echo begun; until test -e {done}; do sleep 0.1; done; echo over"
    told = Told()
    ref = await launch(cluster, spec_of(pool_of(cluster, namespace), script))
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/{ref.name}"

    async def followed() -> Outcome:
        async with shared_watch(ClusterKey(cluster.name), opener(cluster)) as watch:
            return await follow(
                watch, ref, LossPolicy(), report=told.phases.append, report_log=texts(told.log)
            )

    following = asyncio.create_task(followed())

    async def told_or_over(what: str, condition: Callable[[], bool]) -> None:
        await until(lambda: condition() or following.done(), seconds=60, what=what)

    await told_or_over("it runs", lambda: told.log == ["begun"])
    await asyncio.to_thread(cluster.api.patch, path, {"spec": {"suspend": True}})
    await told_or_over("it is suspended", lambda: any("suspended" in line for line in told.phases))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    await asyncio.to_thread(cluster.api.wait, pods, lambda found: not found["items"], 60, "its pods are gone")
    await asyncio.to_thread(cluster.api.patch, path, {"spec": {"suspend": False}})
    await told_or_over("it runs again", lambda: told.log.count("begun") == 2)
    assert not following.done(), following.result()
    done.touch()
    outcome = await asyncio.wait_for(following, 60)
    assert outcome.kind is OutcomeKind.SUCCEEDED, outcome
    assert told.log == ["begun", "begun", "over"]
