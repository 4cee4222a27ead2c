"""Processes named by pid and start time, so that a recycled pid is never taken for them."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.node.procfs import start_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Process:
    """One process of this machine, for good: a pid alone may be used again."""

    pid: int
    start_ticks: str

    def is_alive(self) -> bool:
        """Whether it still runs (an ended process that nobody collected does not)."""
        return _state(self) not in (None, "Z", "X")

    def is_stopped(self) -> bool:
        """Whether it was halted by SIGSTOP."""
        return _state(self) == "T"

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to this process and to no other; False when it has ended."""
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.is_alive():
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True


def _state(process: Process) -> str | None:
    """State letter of a process, or None when it is gone or its pid belongs to another one."""
    try:
        with open(f"/proc/{process.pid}/stat", encoding="utf-8", errors="replace") as stream:
            fields = stream.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0] if fields[19] == process.start_ticks else None


def find_process(pid: int) -> Process | None:
    """Name the process that has this pid now."""
    try:
        return Process(pid, start_time(pid))
    except (FileNotFoundError, ProcessLookupError):
        return None


def read_pid_file(path: Path) -> Process | None:
    """Read a "pid start-time" file; None when there is none."""
    try:
        pid, start_ticks = path.read_text().split()
    except (FileNotFoundError, ValueError):
        return None
    return Process(int(pid), start_ticks)


def shims(root_dir: Path) -> Iterator[Process]:
    """Yield the shims that a node has started and that may still run."""
    for path in root_dir.glob("pods/*/containers/*/shim.pid"):
        process = read_pid_file(path)
        if process is not None:
            yield process
