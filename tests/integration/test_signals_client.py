"""The client against a server that does what servers do on bad days; real HTTP, scripted answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from airflow_gpu_placement.clusters.connect import client_from_kubeconfig
from airflow_gpu_placement.clusters.errors import Expired
from airflow_gpu_placement.exceptions import ClusterError, Unreachable
from airflow_gpu_placement.model.kube import Node, Pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from airflow_gpu_placement.clusters.client import ClusterClient, WatchEvent

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

pytestmark = pytest.mark.asyncio


@contextlib.asynccontextmanager
async def talking_to(handler: Handler) -> AsyncIterator[ClusterClient]:
    """Run a server with one handler for everything, and a client of it."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server = f"http://127.0.0.1:{runner.addresses[0][1]}"
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
    }
    try:
        async with await client_from_kubeconfig(config) as client:
            yield client
    finally:
        await runner.cleanup()


async def collected(client: ClusterClient, idle_timeout_seconds: float = 5.0) -> list[WatchEvent]:
    """Return the events of one watch."""
    events = client.watch("/api/v1/pods", {}, idle_timeout_seconds=idle_timeout_seconds)
    return [event async for event in events]


def streaming(*parts: bytes, then: float = 0.0) -> Handler:
    """Return a handler that sends parts with a pause after each, and waits at the end."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in parts:
            await response.write(part)
            await asyncio.sleep(0.01)
        await asyncio.sleep(then)
        return response

    return handle


def event(type_: str, **fields: Any) -> bytes:
    """Return a line of a watch."""
    return json.dumps({"type": type_, "object": fields}).encode() + b"\n"


async def test_a_busy_server_is_asked_again_when_it_says_so() -> None:
    """A read obeys Retry-After a few times."""
    asked: list[float] = []

    async def handle(_: web.Request) -> web.StreamResponse:
        asked.append(time.monotonic())
        if len(asked) < 3:
            return web.Response(status=429, headers={"Retry-After": "1"}, text="Too many requests")
        return web.json_response({"metadata": {"name": "n"}})

    async with talking_to(handle) as client:
        node = await client.get_as("/api/v1/nodes/n", Node)
    assert node.metadata.name == "n"
    assert [round(later - earlier) for earlier, later in pairwise(asked)] == [1, 1]


async def test_a_server_that_stays_busy_is_given_up() -> None:
    """The number of repetitions is bounded, and the error says when to come back."""
    asked = 0

    async def handle(_: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return web.Response(status=429, headers={"Retry-After": "0.1"}, text="Too many requests")

    async with talking_to(handle) as client:
        with pytest.raises(ClusterError, match="Too many requests") as caught:
            await client.get("/api/v1/nodes")
    assert caught.value.retry_after_seconds == 0.1
    assert asked == 3


async def test_a_write_is_never_repeated() -> None:
    """Only the caller knows whether that is harmless."""
    asked = 0

    async def handle(_: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return web.Response(status=429, headers={"Retry-After": "0"}, text="Too many requests")

    async with talking_to(handle) as client:
        with pytest.raises(ClusterError):
            await client.create("/api/v1/namespaces/x/services", {"kind": "Service"})
        with pytest.raises(ClusterError):
            await client.delete("/api/v1/namespaces/x/services/y")
    assert asked == 2


async def test_a_list_that_grows_too_old_is_begun_again() -> None:
    """A continue token that has expired costs a restart, and no item comes twice."""
    tokens: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        token = request.query.get("continue", "")
        tokens.append(token)
        if token == "second" and len(tokens) == 2:
            return web.json_response({"code": 410, "message": "too old"}, status=410)
        more = {} if token else {"continue": "second"}
        name = "b" if token else "a"
        return web.json_response(
            {"metadata": {"resourceVersion": "7", **more}, "items": [{"metadata": {"name": name}}]}
        )

    async with talking_to(handle) as client:
        items, version = await client.list_all("/api/v1/pods", Pod)
    assert [one.metadata.name for one in items] == ["a", "b"]
    assert version == "7"
    assert tokens == ["", "second", "", "second"]


async def test_an_event_of_megabytes_in_small_pieces_is_one_event() -> None:
    """Whatever the network cuts it into."""
    line = event("ADDED", metadata={"name": "big", "annotations": {"x": "y" * 3_000_000}})
    parts = [line[at : at + 100_000] for at in range(0, len(line), 100_000)]
    async with talking_to(streaming(*parts, event("DELETED", metadata={"name": "big"}))) as client:
        events = await collected(client)
    assert [one.type for one in events] == ["ADDED", "DELETED"]
    assert len(events[0].object) > 3_000_000


async def test_an_expired_version_inside_a_watch_is_told_apart() -> None:
    """It comes with HTTP status 200."""
    error = event("ERROR", kind="Status", code=410, reason="Expired", message="too old resource version")
    async with talking_to(streaming(event("ADDED", metadata={}), error)) as client:
        with pytest.raises(Expired):
            await collected(client)


async def test_a_silent_watch_is_a_dead_one() -> None:
    """The client does not wait for a server that has gone without a word."""
    async with talking_to(streaming(event("ADDED", metadata={}), then=30)) as client:
        began = time.monotonic()
        with pytest.raises(Unreachable, match="no answer in time"):
            await collected(client, idle_timeout_seconds=0.5)
    assert time.monotonic() - began < 3


async def test_a_line_that_is_no_event_is_an_error() -> None:
    """Never passed on as nothing."""
    async with talking_to(streaming(b"<html>\n")) as client:
        with pytest.raises(ClusterError, match="not an event"):
            await collected(client)


async def test_an_answer_of_another_shape_is_an_error() -> None:
    """A proxy's login page is not an empty cluster."""

    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>please log in</html>")

    async with talking_to(handle) as client:
        with pytest.raises(ClusterError, match="unexpected shape"):
            await client.list_all("/api/v1/pods", Pod)


async def test_a_closed_client_says_so() -> None:
    """A stream that was not told finds out by a typed error."""

    async def handle(_: web.Request) -> web.StreamResponse:
        return web.json_response({})

    async with talking_to(handle) as client:
        await client.close()
        with pytest.raises(Unreachable, match="closed"):
            await client.get("/api/v1/nodes")


async def test_a_log_comes_by_lines_and_a_cut_line_only_where_wanted() -> None:
    """A followed log may have been cut in the middle of a line."""
    async with talking_to(streaming(b"one\ntw", b"o\nthr")) as client:
        whole = [line async for line in client.log("ns", "p", "training")]
        followed = [line async for line in client.log("ns", "p", "training", unfinished=False)]
    assert whole == [b"one", b"two", b"thr"]
    assert followed == [b"one", b"two"]
