"""Operating-system processes: start them bound to their parent, name them safely, end them.

A process is named by its pid *and* its start time, because the kernel gives pids out again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PDEATH = Path(__file__).resolve().with_name("pdeath.py")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process, safe against a pid that was given out again.

    :param start_ticks: start time in clock ticks since boot.
    """

    pid: int
    start_ticks: int

    def alive(self) -> bool:
        """Say whether the process runs; a zombie does not."""
        state = _stat(self.pid)
        return state is not None and state[1] == self.start_ticks and state[0] not in "ZX"

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal if the process is alive; say whether it was sent."""
        if not self.alive():
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True

    def write(self, path: Path) -> None:
        """Write the record so that a reader never sees half of it."""
        scratch = path.with_name(f"{path.name}.{self.pid}")
        scratch.write_text(f"{self.pid} {self.start_ticks}\n", encoding="ascii")
        scratch.rename(path)

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        """Return the identity of a process that exists now."""
        state = _stat(pid)
        return None if state is None else cls(pid, state[1])

    @classmethod
    def read(cls, path: Path) -> ProcessId | None:
        """Read a record; ``None`` when there is none."""
        try:
            pid, start_ticks = path.read_text(encoding="ascii").split()
            return cls(int(pid), int(start_ticks))
        except (FileNotFoundError, ValueError):
            return None


def _stat(pid: int) -> tuple[str, int] | None:
    """Return state and start time of a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name is in parentheses and may itself hold spaces and parentheses.
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[19])


def bound_command(command: Sequence[str]) -> list[str]:
    """Return a command line that runs a command and dies with the calling process."""
    return [sys.executable, "-I", "-S", str(_PDEATH), str(os.getpid()), *command]


def spawn(
    command: Sequence[str],
    *,
    folder: Path,
    log: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child in its own session that dies with this process. Call it from the main thread.

    :param folder: gets the log file and the process record ``pid``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / log).open("ab") as output:
        child = subprocess.Popen(
            bound_command(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    identity = ProcessId.of(child.pid)
    if identity is not None:
        identity.write(folder / "pid")
    return child


def wait_gone(processes: Sequence[ProcessId], timeout_seconds: float) -> list[ProcessId]:
    """Wait until processes have ended; return those that have not."""
    deadline = time.monotonic() + timeout_seconds
    left = [process for process in processes if process.alive()]
    while left and time.monotonic() < deadline:
        time.sleep(0.02)
        left = [process for process in left if process.alive()]
    return left


def kill_recorded(folder: Path) -> int:
    """Kill every process that has a record (``*pid``) below a folder; return how many lived."""
    killed = []
    for path in folder.rglob("*pid"):
        process = ProcessId.read(path) if path.is_file() else None
        if process is not None and process.signal(signal.SIGKILL):
            killed.append(process)
    wait_gone(killed, timeout_seconds=5)
    return len(killed)
