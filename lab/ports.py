"""Free ports of the loopback interface for servers."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from pathlib import Path

from lab.errors import LabError

_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000
_TRIES = 200


def free_port() -> int:
    """Return a port that is free now, outside of the range from which the kernel serves outgoing connections.

    Inside of it, a client that retries against a stopped server can be given the server's own port as its
    source, connect to itself and so take the port away.
    """
    low, high = _ephemeral_range()
    candidates = [port for port in range(_LOWEST, 65_536) if not low <= port <= high]
    if len(candidates) < 1000:
        candidates = list(range(_LOWEST, 65_536))
    source = random.SystemRandom()
    for _ in range(_TRIES):
        port = source.choice(candidates)
        if is_free(port):
            return port
    raise LabError(f"no free port found on 127.0.0.1 in {_TRIES} tries; end other servers and start again")


def is_free(port: int) -> bool:
    """Say whether a server could listen on a port of 127.0.0.1 now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Go's servers do; without it a port with old connections in TIME_WAIT looks taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


async def wait_free(port: int, owner: str, timeout_seconds: float = 10.0) -> None:
    """Wait until a server that was there before has given its port up.

    :raises LabError: when it is taken for longer, so by another program.
    """
    deadline = time.monotonic() + timeout_seconds
    while not is_free(port):
        if time.monotonic() > deadline:
            raise LabError(f"another program took port {port} of {owner}; end it first")
        await asyncio.sleep(0.02)


def _ephemeral_range() -> tuple[int, int]:
    try:
        low, high = _RANGE_FILE.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return 32_768, 60_999
    return int(low), int(high)
