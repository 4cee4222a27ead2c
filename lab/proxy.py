"""A TCP proxy before an API server, for faults of a network: ``python -m lab.proxy PORT UPSTREAM SOCKET``.

It knows nothing of what it carries. Its mode is changed over a unix socket, see ``lab.proxies``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.control import short_socket_path

if TYPE_CHECKING:
    from collections.abc import Sequence

_BLOCK_BYTES = 65_536
# Closing with this option sends a reset in place of an orderly end.
_RESET = struct.pack("ii", 1, 0)

log = logging.getLogger("lab.proxy")


class Wire:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.dead = False
        self._proxy = proxy
        self._reader = reader
        self._writers = [writer]

    async def run(self) -> None:
        """Carry both directions to their ends."""
        try:
            await self._proxy.passage(self)
            if self.dead:
                await self._swallow(self._reader)
                return
            reader, writer = await asyncio.open_connection("127.0.0.1", self._proxy.upstream)
            self._writers.append(writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(self._reader, writer))
                group.create_task(self._carry(reader, self._writers[0]))
        except* OSError as errors:
            log.info("a connection has broken: %s", errors.exceptions)
        finally:
            self.reset()

    def reset(self) -> None:
        """Break both connections off."""
        for writer in self._writers:
            connection = writer.get_extra_info("socket")
            if connection is not None and not writer.transport.is_closing():
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            data = await reader.read(_BLOCK_BYTES)
            await self._proxy.passage(self)
            if self.dead:
                # The client must not learn of the server's end either.
                await (self._swallow(reader) if reader is self._reader else asyncio.Event().wait())
                raise ConnectionError("its client has left a swallowed connection")
            if not data:
                writer.write_eof()
                return
            writer.write(data)
            await writer.drain()

    async def _swallow(self, reader: asyncio.StreamReader) -> None:
        while await reader.read(_BLOCK_BYTES):
            pass


class Proxy:
    """Listens on one port and carries to another one, as its mode says.

    ``pass`` carries everything; ``refuse`` refuses new connections; ``hold`` keeps everything back until the
    mode is another one; ``blackhole`` swallows everything, and connections of that time stay silent for good.
    """

    def __init__(self, port: int, upstream: int) -> None:
        self.upstream = upstream
        self._port = port
        self._mode = "pass"
        self._delay_seconds = 0.0
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._wires: set[Wire] = set()
        self._server: asyncio.Server | None = None

    async def run(self, control_socket: Path) -> None:
        """Carry until this process is killed."""
        await self._listen()
        with short_socket_path(control_socket) as name:
            control = await asyncio.start_unix_server(self._serve_control, name)
        async with control:
            await control.serve_forever()

    async def passage(self, wire: Wire) -> None:
        """Wait until what has come may go on. The wire may be dead after it."""
        await self._flowing.wait()
        if self._delay_seconds:
            await asyncio.sleep(self._delay_seconds)
            await self._flowing.wait()
        wire.dead = wire.dead or self._mode == "blackhole"

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(self, reader, writer)
        self._wires.add(wire)
        try:
            await wire.run()
        finally:
            self._wires.discard(wire)

    async def _serve_control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry out one order and answer with what is so now."""
        try:
            line = await reader.readline()
            if line:
                answer = await self._change(json.loads(line))
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except ConnectionError:
            log.info("a client left before it had its answer")
        finally:
            writer.close()

    async def _change(self, order: dict[str, Any]) -> dict[str, Any]:
        if "mode" in order:
            await self._set_mode(order["mode"])
        self._delay_seconds = order.get("delay_seconds", self._delay_seconds)
        if order.get("reset"):
            for wire in list(self._wires):
                wire.reset()
        return {"mode": self._mode, "delay_seconds": self._delay_seconds, "connections": len(self._wires)}

    async def _set_mode(self, mode: str) -> None:
        self._mode = mode
        if mode == "blackhole":
            for wire in self._wires:
                wire.dead = True
        if mode == "hold":
            self._flowing.clear()
        else:
            self._flowing.set()
        if mode != "refuse":
            await self._listen()
        elif self._server is not None:
            self._server.close()
            self._server = None


def main(arguments: Sequence[str]) -> None:
    """Run one proxy; the lab starts it."""
    port, upstream, control_socket = arguments
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")

    async def run() -> None:
        await Proxy(int(port), int(upstream)).run(Path(control_socket))

    asyncio.run(run())


if __name__ == "__main__":
    main(sys.argv[1:])
