"""Serves container logs to the API server, as a kubelet does."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING

from aiohttp import web

from lab.node.logs import BadLogRequest, LogReader, LogRequest, parse_log_request
from lab.node.status import Waiting

if TYPE_CHECKING:
    from lab.node.config import NodeConfig
    from lab.node.container import Container
    from lab.node.podloop import PodLoop

LOG = logging.getLogger(__name__)
POLL_SECONDS = 0.2


class LogServer:
    """The node's HTTPS endpoint; only the API server's client certificate gets in."""

    def __init__(self, config: NodeConfig, pods: PodLoop) -> None:
        self._config = config
        self._pods = pods
        self._runner: web.AppRunner | None = None

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
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
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
            return web.Response(status=400, text=f"previous terminated {title} not found")
        if isinstance(container.state, Waiting):
            return web.Response(status=400, text=f"{title} is waiting to start: {container.state.reason}")
        return await self._stream(request, container, wanted)

    async def _stream(
        self, request: web.Request, container: Container, wanted: LogRequest
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        await response.prepare(request)
        reader = LogReader(container.log_path, wanted) if container.log_path.exists() else None
        if reader is None:
            return response
        try:
            while True:
                last = not wanted.follow or not container.alive
                while block := reader.read():
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
