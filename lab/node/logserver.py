"""Serves container logs to the API server, as a kubelet does."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import TYPE_CHECKING

from aiohttp import web

from lab.node.logs import BadLogRequest, LogReader, LogRequest, parse_log_request
from lab.node.status import Waiting

if TYPE_CHECKING:
    from pathlib import Path

    from lab.node.config import NodeConfig
    from lab.node.container import Container
    from lab.node.link import Link
    from lab.node.podloop import PodLoop

LOG = logging.getLogger(__name__)
POLL_SECONDS = 0.2
WAITING_WORDS = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class Door:
    """Listens while the network is whole. While it is cut callers are put through to nobody.

    The kernel goes on accepting then, and nobody answers the TLS handshake: the caller runs into its
    time-out, as with a machine that is cut off. Closing the port would refuse it at once.
    """

    def __init__(self, runner: web.AppRunner, tls: ssl.SSLContext, link: Link) -> None:
        self._runner = runner
        self._tls = tls
        self._link = link
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._site: web.SockSite | None = None
        self._lock = asyncio.Lock()
        self._turns: set[asyncio.Task[None]] = set()
        link.on_change.append(self._turn_soon)

    async def turn(self) -> None:
        """Open or close, as the link is."""
        async with self._lock:
            if self._link.is_cut and self._site is not None:
                await self._site.stop()
                self._site = None
            elif not self._link.is_cut and self._site is None:
                self._site = web.SockSite(self._runner, self._listener.dup(), ssl_context=self._tls)
                await self._site.start()

    def close(self) -> None:
        """Give the port up."""
        self._listener.close()

    def _turn_soon(self) -> None:
        task = asyncio.create_task(self.turn())
        self._turns.add(task)
        task.add_done_callback(self._turns.discard)


class LogServer:
    """The node's HTTPS endpoint; only the API server's client certificate gets in."""

    def __init__(self, config: NodeConfig, pods: PodLoop, link: Link) -> None:
        self._config = config
        self._pods = pods
        self._link = link
        self._runner: web.AppRunner | None = None
        self._door: Door | None = None

    async def start(self) -> int:
        """Listen on a free port of the loopback address and return it."""
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self._config.kubelet_cert_file, self._config.kubelet_key_file)
        tls.load_verify_locations(self._config.kubelet_client_ca_file)
        tls.verify_mode = ssl.CERT_REQUIRED
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        self._door = Door(self._runner, tls, self._link)
        await self._door.turn()
        return self._door.port

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()
        if self._door is not None:
            self._door.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        await self._link.until_whole()  # the caller has a connection from before the cut
        names = request.match_info
        worker = self._pods.find(names["namespace"], names["pod"])
        container = worker.container(names["container"]) if worker else None
        if container is None:
            return web.Response(status=404, text=f"pod {names['pod']!r} has no such container on this node")
        try:
            wanted = parse_log_request(request.query)
        except BadLogRequest as error:
            return web.Response(status=400, text=str(error))
        title = f'container "{names["container"]}" in pod "{names["pod"]}"'
        if wanted.previous:
            path = container.previous_log_path
            if path is None:
                return web.Response(status=400, text=f"previous terminated {title} not found")
            return await self._stream(request, container, wanted, path)
        if isinstance(container.state, Waiting) and not container.can_show_log:
            reason = WAITING_WORDS.get(container.state.reason, container.state.reason)
            return web.Response(status=400, text=f"{title} is waiting to start: {reason}")
        return await self._stream(request, container, wanted, container.log_path)

    async def _stream(
        self, request: web.Request, container: Container, wanted: LogRequest, path: Path
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        await response.prepare(request)
        try:
            reader = LogReader(path, wanted)
        except FileNotFoundError:
            return response
        try:
            while True:
                last = not wanted.follow or not container.alive or path != container.log_path
                while block := reader.read():
                    await self._link.until_whole()
                    await response.write(block)
                if last or reader.exhausted:
                    break
                await asyncio.sleep(POLL_SECONDS)
                if request.transport is None or request.transport.is_closing():
                    break
            await response.write_eof()
        except ConnectionError:
            LOG.debug("the reader of %s has gone", container.name)
        finally:
            reader.close()
        return response
