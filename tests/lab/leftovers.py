"""What is left of a lab on this machine: processes that were told its folder, and ports that still answer."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

POLL_SECONDS = 0.05


def processes(folder: Path) -> dict[int, str]:
    """Return pid and command line of each process that has a lab's folder in its command, environment or cwd.

    The lab hands its folder to all that it starts, so this finds them whatever their parents are now.
    """
    mark = re.compile(re.escape(str(folder).encode()) + rb"[/\0]")
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and mark.search(_traces(entry)):
            found[int(entry.name)] = read(entry / "cmdline").replace(b"\0", b" ").decode(errors="replace")
    return found


def _traces(entry: Path) -> bytes:
    try:
        folder = str((entry / "cwd").readlink()).encode()
    except OSError:
        folder = b""
    return b"\0".join((read(entry / "cmdline"), read(entry / "environ"), folder, b""))


def read(path: Path) -> bytes:
    """Return a file of /proc; nothing for a process that has ended or belongs to somebody else."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def open_ports(servers: Iterable[str]) -> list[str]:
    """Return the addresses that still accept connections."""
    found = []
    for server in servers:
        address = urlsplit(server)
        with socket.socket() as probe:
            if probe.connect_ex((address.hostname, address.port)) == 0:
                found.append(server)
    return found


def wait_until(condition: Callable[[], object], timeout_seconds: float, what: Callable[[], str]) -> None:
    """Poll until a condition holds; fail with ``what()`` if it does not in time."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_seconds:g} s: {what()}"
        time.sleep(POLL_SECONDS)


def wait_nothing_left(folder: Path, servers: Iterable[str], timeout_seconds: float) -> None:
    """Wait until no process of a lab runs, no server answers and its folder is gone."""
    servers = list(servers)

    def left() -> list[object]:
        return [*processes(folder).items(), *open_ports(servers), *([folder] if folder.exists() else [])]

    wait_until(lambda: not left(), timeout_seconds, lambda: f"gone: {left()}")
