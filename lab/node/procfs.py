"""Facts about processes, from /proc. The shim's too: standard library only."""

from __future__ import annotations

import os
import signal


def descendants(top: int) -> list[int]:
    """Process ids of everything below a process (orphans come back to a subreaper)."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as stream:
                    parent = int(stream.read().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, queue = [], [top]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def start_time(pid: int) -> str:
    """Start time of a process in clock ticks since boot; with the pid it names one process for good."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
        return stream.read().rpartition(")")[2].split()[19]


def handles_sigterm(pid: int) -> bool:
    """Whether a process has a handler for SIGTERM. The first process of a container ignores it otherwise."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as stream:
            caught = next(line for line in stream if line.startswith("SigCgt:"))
    except (OSError, StopIteration):
        return False
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
