"""Credentials, connections and addresses of a cluster that change while it is watched; scripted answers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.exceptions import ConnectionMissing
from airflow_gpu_placement.watch import cluster as cluster_module
from airflow_gpu_placement.watch.cluster import ClusterKey, shared_watch
from tests.integration.cluster_support import until
from tests.integration.scripted_api import ScriptedApi
from tests.integration.stream_support import PATIENCE_SECONDS, REF, phases, pod, watching

if TYPE_CHECKING:
    from airflow_gpu_placement.clusters.client import ClusterClient

pytestmark = pytest.mark.asyncio


async def test_a_token_that_expires_is_read_again_once_for_all_streams() -> None:
    """The new one is used by all; a second refusal right after it does not read it at once again."""
    api = ScriptedApi()
    opened: list[str] = []

    async def open_cluster(conn_id: str, context: str | None) -> ClusterClient:
        opened.append(api.token)
        return await api.open_cluster(conn_id, context)

    async with watching(api, open_cluster) as watch:
        await until(lambda: api.is_watched("pods"), seconds=PATIENCE_SECONDS, what="the watches are open")
        assert opened == ["good"]
        await asyncio.sleep(5)  # a client is used for some time before it is given up
        api.token = "better"
        for kind in ("pods", "jobs", "nodes", "leases"):
            api.send_raw(kind, None)
        await until(lambda: len(opened) > 1, seconds=PATIENCE_SECONDS, what="the token is read again")
        await until(
            lambda: all(map(api.is_watched, ("pods", "jobs", "nodes", "leases"))),
            seconds=PATIENCE_SECONDS,
            what="all watches are open again",
        )
        assert opened == ["good", "better"]
        assert watch.troubles() == frozenset()


async def test_refused_credentials_are_read_at_a_bounded_rate() -> None:
    """However many streams are refused, it is a few times in some seconds; and the job is not gone."""
    api = ScriptedApi()
    opened: list[float] = []

    async def open_cluster(conn_id: str, context: str | None) -> ClusterClient:
        opened.append(time.monotonic())
        client = await api.open_cluster(conn_id, context)
        api.token = f"changed {len(opened)} times"
        return client

    async with watching(api, open_cluster) as watch:
        await asyncio.sleep(10)
        assert 2 <= len(opened) <= 7
        assert any("401" in text for text in watch.troubles())
        assert watch.observe(REF).job is not None
        assert watch.unreachable_seconds() > 5


async def test_a_connection_that_is_missing_for_a_moment_is_waited_for() -> None:
    """A secrets backend may be away as well: whatever it raises, the watch begins when it is back."""
    api = ScriptedApi()
    failures: list[Exception] = [ConnectionMissing("no connection 'x'"), RuntimeError("vault is sealed")]

    async def open_cluster(conn_id: str, context: str | None) -> ClusterClient:
        if failures:
            raise failures.pop(0)
        return await api.open_cluster(conn_id, context)

    async with watching(api, open_cluster) as watch:
        await until(
            lambda: any("no connection" in text for text in watch.troubles()),
            seconds=PATIENCE_SECONDS,
            what="it is told",
        )
        await until(lambda: api.is_watched("pods"), seconds=PATIENCE_SECONDS, what="the watch is open")
        await until(lambda: not watch.troubles(), seconds=PATIENCE_SECONDS, what="the trouble is over")


async def test_a_cluster_that_has_moved_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """While nobody answers, its connection is read again; one that leads nowhere either changes nothing."""
    monkeypatch.setattr(cluster_module, "_READ_AGAIN_SECONDS", 3.0)
    old, new = ScriptedApi(), ScriptedApi()
    current, opened = [old], []

    async def open_cluster(conn_id: str, context: str | None) -> ClusterClient:
        opened.append(current[0])
        return await current[0].open_cluster(conn_id, context)

    async with new.running(), contextlib.AsyncExitStack() as stack:
        serving = await stack.enter_async_context(contextlib.AsyncExitStack())
        await serving.enter_async_context(old.running())
        watch = await stack.enter_async_context(shared_watch(ClusterKey("scripted"), open_cluster))
        stack.enter_context(watch.track(REF))
        await until(lambda: old.is_watched("pods"), seconds=PATIENCE_SECONDS, what="the watch is open")
        await serving.aclose()
        await until(lambda: len(opened) > 1, seconds=PATIENCE_SECONDS, what="the connection is read again")
        assert watch.unreachable_seconds() > 2.5
        current[0] = new
        await until(lambda: new.is_watched("pods"), seconds=PATIENCE_SECONDS, what="it is watched again")
        new.send("pods", "ADDED", **pod("p", "Succeeded"))
        await until(
            lambda: phases(watch) == {"p": "Succeeded"}, seconds=PATIENCE_SECONDS, what="the pod is seen"
        )
        assert watch.unreachable_seconds() == 0.0
