"""An API server whose answers a test writes: for what a real one does only on bad days."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from aiohttp import web

from airflow_gpu_placement.clusters.connect import client_from_kubeconfig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from airflow_gpu_placement.clusters.client import ClusterClient

    Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

NAMESPACE = "ml"


def refusal(status: int, text: str, **headers: str) -> Answer:
    """Return an answer in plain text."""

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(
            status=status, text=text, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    return answer


def status_of(code: int, reason: str) -> dict[str, Any]:
    """Return the body that the API has for an error."""
    return {"kind": "Status", "code": code, "reason": reason, "message": f"scripted: {reason}"}


class ScriptedApi:
    """Lists and watches of every kind, empty unless a test fills them.

    A kind is the last part of its path, such as ``pods``. Answers in ``script`` come before the usual ones,
    in their order: those of ``list pods`` for lists, those of ``watch pods`` for watches.
    """

    def __init__(self) -> None:
        self.url = ""
        self.version = 100
        self.items: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self.script: dict[str, deque[Answer]] = defaultdict(deque)
        self.calls: list[tuple[str, dict[str, str]]] = []  # what was asked for, with its query
        self.token = "good"
        self._open: dict[str, list[asyncio.Queue[bytes | None]]] = defaultdict(list)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[ScriptedApi]:
        """Serve on a free port of the loopback interface."""
        app = web.Application()
        app.router.add_get("/{path:.*}", self._serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def open_cluster(self, _: str, __: str | None) -> ClusterClient:
        """Open this cluster as an Airflow connection would be opened, with the token that is good now."""
        config = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "c", "user": {"token": self.token}}],
        }
        return await client_from_kubeconfig(config)

    def send(self, kind: str, type_: str, /, **item: Any) -> None:
        """Send an event on every open watch of a kind."""
        self.version += 1
        item.setdefault("metadata", {})["resourceVersion"] = str(self.version)
        self.send_raw(kind, json.dumps({"type": type_, "object": item}).encode() + b"\n")

    def send_raw(self, kind: str, line: bytes | None) -> None:
        """Send bytes on every open watch of a kind; ``None`` cuts the connection amid the answer."""
        for queue in self._open[kind]:
            queue.put_nowait(line)

    def asked(self, what: str) -> list[dict[str, str]]:
        """Return the queries of every call of a sort, such as ``list pods``."""
        return [query for call, query in self.calls if call == what]

    def is_watched(self, kind: str) -> bool:
        """Whether a watch of a kind is open."""
        return bool(self._open[kind])

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        kind = request.path.rsplit("/", 1)[-1]
        what = f"{'watch' if request.query.get('watch') else 'list'} {kind}"
        self.calls.append((what, dict(request.query)))
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response(status_of(401, "Unauthorized"), status=401)
        if self.script[what]:
            return await self.script[what].popleft()(request)
        if kind == "kube-system":
            return web.json_response({"metadata": {"uid": "scripted"}})
        if request.query.get("watch"):
            return await self._watch(request, kind)
        metadata = {"resourceVersion": str(self.version)}
        return web.json_response({"metadata": metadata, "items": self.items[kind]})

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._open[kind].append(queue)
        try:
            async with asyncio.timeout(float(request.query["timeoutSeconds"])):
                while (line := await queue.get()) is not None:
                    await response.write(line)
            if request.transport is not None:
                request.transport.abort()
        except TimeoutError:
            pass
        finally:
            self._open[kind].remove(queue)
        return response
