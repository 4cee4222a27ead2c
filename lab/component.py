"""One server or node agent as the keeper sees it: a command line, a folder, at most one process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from lab.errors import LabError
from lab.paths import tail
from lab.processes import spawn

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

T = TypeVar("T")

START_TIMEOUT_SECONDS = 120.0
_POLL_SECONDS = 0.05
_LOG_LINES = 15
_PORT_TRIES = 5


class PortTakenError(LabError):
    """A server ended because another process took its port first."""


async def on_free_port(start: Callable[[], Awaitable[T]]) -> T:
    """Start a server that looks for free ports itself; again when another program was quicker to take one."""
    for _ in range(_PORT_TRIES - 1):
        with contextlib.suppress(PortTakenError):
            return await start()
    return await start()


@dataclass(slots=True, eq=False)
class Component:
    """A process of the lab. It is started by order only, never by itself.

    :param name: as in ``logs``: ``etcd``, ``onprem/kube-apiserver``, ``onprem/node/onprem-l40s-1``.
    :param folder: gets its log and its process record.
    :param again: starts it once more as it was; ``None`` where an order of its own does that.
    :param retired: predecessors that were asked to end and may still be at it.
    """

    name: str
    folder: Path
    log: str = "log"
    cwd: Path | None = None
    child: subprocess.Popen[bytes] | None = None
    again: Callable[[], Awaitable[None]] | None = None
    retired: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def log_file(self) -> Path:
        """File with its output."""
        return self.folder / self.log

    @property
    def pid(self) -> int | None:
        """Its pid while it runs."""
        return self.child.pid if self.child is not None and self.child.poll() is None else None

    def start(self, command: Sequence[str]) -> None:
        """Start the process. Only from the main thread, see ``lab.pdeath``."""
        if self.pid is not None:
            raise LabError(f"{self.name} already runs (pid {self.pid})")
        self.child = spawn(command, folder=self.folder, log=self.log, cwd=self.cwd)

    @property
    def children(self) -> list[subprocess.Popen[bytes]]:
        """Every process of it, predecessors that are still ending included."""
        return [*self.retired, *([self.child] if self.child is not None else [])]

    def kill(self) -> None:
        """Send SIGKILL if it runs, to predecessors too."""
        for child in self.children:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it.

        :raises LabError: when it does not run.
        """
        if self.child is None or self.pid is None:
            raise LabError(f"{self.name} does not run; start it first")
        self.child.send_signal(number)

    def retire(self) -> None:
        """Ask it to end (SIGTERM) and let it take its time; a successor may be started meanwhile."""
        self.send(signal.SIGTERM)
        if self.child is not None:
            self.retired = [child for child in self.retired if child.poll() is None] + [self.child]
            self.child = None

    async def gone(self, timeout_seconds: float = 10.0) -> None:
        """Wait until the process has ended, and its predecessors."""
        deadline = time.monotonic() + timeout_seconds
        while left := [child.pid for child in self.children if child.poll() is None]:
            if time.monotonic() > deadline:
                raise LabError(f"{self.name} (pid {left[-1]}) did not end within {timeout_seconds:g} s")
            await asyncio.sleep(_POLL_SECONDS)

    async def until(self, ready: Callable[[], bool]) -> None:
        """Wait until a check, run in a thread, says that the server is ready.

        :raises PortTakenError: when it ended because its port was taken.
        :raises LabError: when it ended otherwise or is not ready in time; with the end of its log.
        """
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while True:
            check = asyncio.create_task(asyncio.to_thread(ready))
            # A check can hang on the program that took the port; the end of the server is seen all the same.
            while not (await asyncio.wait({check}, timeout=_POLL_SECONDS))[0]:
                self._check_running()
            self._check_running()
            if check.result():
                return
            if time.monotonic() > deadline:
                raise LabError(
                    f"{self.name} is not ready after {START_TIMEOUT_SECONDS:g} s. {self._log_end()}"
                )
            await asyncio.sleep(_POLL_SECONDS)

    def _check_running(self) -> None:
        """Raise if the process has ended, as :meth:`until` does."""
        if self.pid is not None:
            return
        code = self.child.returncode if self.child is not None else None
        text = f"{self.name} ended while starting (exit code {code}). {self._log_end()}"
        if "address already in use" in text:
            raise PortTakenError(text)
        raise LabError(text)

    def _log_end(self) -> str:
        return "\n".join([f"The end of {self.log_file}:", *tail(self.log_file, _LOG_LINES)])
