"""Streams against a server on its bad days; real HTTP, scripted answers."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from airflow_gpu_placement.exceptions import Unreachable
from tests.integration.cluster_support import until
from tests.integration.scripted_api import ScriptedApi, refusal, status_of
from tests.integration.stream_support import PATIENCE_SECONDS, REF, node, phases, pod, watching

if TYPE_CHECKING:
    from airflow_gpu_placement.clusters.client import ClusterClient

pytestmark = pytest.mark.asyncio


async def test_a_busy_server_is_asked_again_when_it_says_so() -> None:
    """429 in plain text: the watch waits as long as it is told, and the cluster does not count as silent."""
    api = ScriptedApi()
    api.script["watch pods"].append(
        refusal(429, "Too many requests, please try again later.\n", Retry_After="3")
    )
    began = time.monotonic()
    async with watching(api) as watch:
        await until(lambda: len(api.asked("watch pods")) == 1, seconds=PATIENCE_SECONDS, what="it is refused")
        await until(lambda: api.is_watched("pods"), seconds=PATIENCE_SECONDS, what="the watch is open")
        assert 3 <= time.monotonic() - began < 8
        assert len(api.asked("list pods")) == 1
        assert watch.troubles() == frozenset()
        assert watch.unreachable_seconds() == 0


async def test_a_place_that_the_server_has_forgotten_is_left() -> None:
    """410, as an answer and inside of a watch, leads to a new list, from which the state is taken."""
    api = ScriptedApi()
    api.items["pods"] = [pod("p")]
    api.script["watch pods"].append(refusal(410, json.dumps(status_of(410, "Expired"))))
    async with watching(api) as watch:
        await until(lambda: api.is_watched("pods"), seconds=PATIENCE_SECONDS, what="the watch is open")
        assert len(api.asked("list pods")) == 2
        api.items["pods"] = [pod("p", "Succeeded")]
        api.send("pods", "ERROR", **status_of(410, "Gone"))
        await until(
            lambda: phases(watch) == {"p": "Succeeded"}, seconds=PATIENCE_SECONDS, what="the end is seen"
        )
        assert len(api.asked("list pods")) == 3


async def test_a_list_that_expires_between_two_pages_is_begun_again() -> None:
    """What the first page said is not mixed with what is read later."""
    api = ScriptedApi()

    async def first_page(_: web.Request) -> web.StreamResponse:
        return web.json_response(
            {"metadata": {"resourceVersion": "1", "continue": "more"}, "items": [pod("old")]}
        )

    api.script["list pods"] += [first_page, refusal(410, json.dumps(status_of(410, "Expired")))]
    api.items["pods"] = [pod("new")]
    async with watching(api) as watch:
        await until(lambda: "new" in phases(watch), seconds=PATIENCE_SECONDS, what="the list is read")
        assert phases(watch) == {"new": "Running"}
        assert [query.get("continue") for query in api.asked("list pods")] == [None, "more", None]


async def test_a_list_is_read_page_by_page() -> None:
    """Small pages, and what is on all of them is there."""
    api = ScriptedApi()

    async def first_page(_: web.Request) -> web.StreamResponse:
        return web.json_response(
            {"metadata": {"resourceVersion": "1", "continue": "more"}, "items": [pod("one")]}
        )

    api.script["list pods"].append(first_page)
    api.items["pods"] = [pod("other")]
    async with watching(api) as watch:
        await until(lambda: len(phases(watch)) == 2, seconds=PATIENCE_SECONDS, what="the list is read")
        assert phases(watch) == {"one": "Running", "other": "Running"}
        asked = [(query.get("limit"), query.get("continue")) for query in api.asked("list pods")]
        assert asked == [("100", None), ("100", "more")]


async def test_an_object_of_an_odd_shape_hides_no_other() -> None:
    """It is told as a trouble and its last known state stays, in a list and in an event."""
    api = ScriptedApi()
    odd = pod("odd", containerStatuses="none")
    api.items["pods"] = [odd, pod("p")]
    api.items["nodes"] = [node("n1", conditions="none")]
    async with watching(api) as watch:
        await until(
            lambda: phases(watch) == {"p": "Running"}, seconds=PATIENCE_SECONDS, what="the other is seen"
        )
        await until(
            lambda: len(watch.troubles()) == 2, seconds=PATIENCE_SECONDS, what="both troubles are told"
        )
        assert any("odd of pods in namespace ml has an unexpected shape" in text for text in watch.troubles())
        await until(lambda: api.is_watched("pods"), seconds=PATIENCE_SECONDS, what="the watch is open")
        api.send("pods", "MODIFIED", **pod("odd"))
        await until(lambda: "odd" in phases(watch), seconds=PATIENCE_SECONDS, what="it is readable")
        assert len(watch.troubles()) == 1
        api.send("pods", "MODIFIED", **odd)
        api.send("pods", "MODIFIED", **pod("p", "Succeeded"))
        await until(lambda: phases(watch)["p"] == "Succeeded", seconds=PATIENCE_SECONDS, what="news go on")
        assert phases(watch)["odd"] == "Running"
        assert watch.observe(REF).vanished == frozenset()
        # A node that nobody can read is no node that has gone.
        await asyncio.sleep(6)
        assert watch.observe(REF).nodes["n1"].exists
        api.items["pods"] = [pod("p", "Succeeded")]
        api.send("pods", "DELETED", **odd)
        await until(
            lambda: watch.observe(REF).vanished == {"uid-odd"},
            seconds=PATIENCE_SECONDS,
            what="it has vanished",
        )


async def test_a_place_that_stays_refused_is_left() -> None:
    """A cluster that was restored from a copy has older versions than ours: then everything is listed."""
    api = ScriptedApi()
    too_large = refusal(504, json.dumps(status_of(504, "Timeout: Too large resource version")))
    api.script["watch pods"] += [too_large] * 7
    async with watching(api):
        await until(lambda: api.is_watched("pods"), seconds=60, what="the watch is open")
        assert len(api.asked("list pods")) == 2


async def test_half_an_event_is_no_event() -> None:
    """A connection that breaks within a line goes on before it."""
    api = ScriptedApi()
    api.items["pods"] = [pod("p")]
    async with watching(api) as watch:
        await until(lambda: api.is_watched("pods"), seconds=PATIENCE_SECONDS, what="the watch is open")
        api.send("pods", "MODIFIED", **pod("p", "Failed"))
        reached = str(api.version)
        api.send_raw("pods", b'{"type": "MODIFIED", "object": {"metadata": {"resourceVersion": "999"')
        api.send_raw("pods", None)
        await until(lambda: len(api.asked("watch pods")) == 2, seconds=PATIENCE_SECONDS, what="it goes on")
        assert api.asked("watch pods")[-1]["resourceVersion"] == reached
        assert phases(watch) == {"p": "Failed"}
        assert len(api.asked("list pods")) == 1


async def test_a_right_that_is_missing_blinds_one_stream_alone() -> None:
    """403 on nodes is told; pods are watched all the same."""
    api = ScriptedApi()
    forbidden = refusal(403, json.dumps(status_of(403, "Forbidden")))
    api.script["list nodes"] += [forbidden] * 20
    api.items["pods"] = [pod("p")]
    async with watching(api) as watch:
        await until(
            lambda: phases(watch) == {"p": "Running"}, seconds=PATIENCE_SECONDS, what="the pod is seen"
        )
        await until(lambda: len(watch.troubles()) == 1, seconds=PATIENCE_SECONDS, what="the trouble is told")
        assert "403" in next(iter(watch.troubles()))
        assert watch.unreachable_seconds() == 0


async def test_whoever_reads_learns_that_the_client_was_closed() -> None:
    """A watch in the middle of its answer, and a call that nobody has answered, end at once with an error."""
    api = ScriptedApi()

    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(PATIENCE_SECONDS)
        raise AssertionError("nobody waited that long")

    async def reading(client: ClusterClient) -> None:
        query = {"timeoutSeconds": "60"}
        async for _ in client.watch("/api/v1/pods", query, idle_timeout_seconds=60):
            raise AssertionError("an event")

    api.script["list slow"].append(never)
    async with api.running():
        client = await api.open_cluster("", None)
        calls = [asyncio.create_task(reading(client)), asyncio.create_task(client.get("/api/v1/slow"))]
        await until(
            lambda: api.is_watched("pods") and bool(api.asked("list slow")),
            seconds=5,
            what="both are under way",
        )
        await client.close()
        done, _ = await asyncio.wait(calls, timeout=3)
        assert len(done) == 2
        assert [type(call.exception()) for call in calls] == [Unreachable, Unreachable]


async def test_a_watch_is_left_when_leases_cannot_be_read_any_more() -> None:
    """Streams that stay open and say nothing are opened anew over connections of their own."""
    api = ScriptedApi()
    api.items["pods"] = [pod("p")]
    api.items["nodes"] = [node("n1")]
    lease = {"metadata": {"name": "n1"}, "spec": {"leaseDurationSeconds": 4, "renewTime": "once"}}
    api.items["leases"] = [lease]

    async def first(_: web.Request) -> web.StreamResponse:
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [lease]})

    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(60)
        raise AssertionError("nobody waited that long")

    api.script["list leases"] += [first, *[never] * 3]
    async with watching(api) as watch:
        await until(lambda: len(api.asked("watch pods")) > 1, seconds=30, what="pods are watched anew")
        assert api.asked("list leases")[1]["fieldSelector"] == "metadata.name=n1"
        assert watch.observe(REF).nodes["n1"].silent_seconds < 4
