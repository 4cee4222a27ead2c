"""One run of a container's command: its shim, its state, its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from lab.node.faults import kill_tree
from lab.node.logs import log_tail
from lab.node.processes import Process, find_process, read_pid_file
from lab.node.sandbox import launch, until_closed
from lab.node.status import EPOCH, Running, State, Terminated, Waiting, moment, now

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping
    from pathlib import Path

MESSAGE_BYTES = 4096
FALLBACK_BYTES, FALLBACK_LINES = 2048, 80
UNKNOWN_EXIT = 255  # what a container runtime says of a container that was running when the machine went down
START_SECONDS = 5.0
KILLED_EXIT = 137
OOM_MARKER = "oom-killed"  # file in the home of a container that ends with 137: as if it used up its memory


class Run:
    """One run of a container; a container that is started again has another, in a folder of its own."""

    def __init__(self, spec: Mapping[str, Any], folder: Path, changed: Callable[[], None]) -> None:
        self.spec = spec
        self.folder = folder
        self.state: State = Waiting()
        self._changed = changed
        self._shim: Process | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._killed = False

    @property
    def log_path(self) -> Path:
        """Where the container's output is."""
        return self.folder / "log"

    @property
    def termination_path(self) -> Path:
        """The file that the container sees at its terminationMessagePath."""
        return self.folder / "termination-log"

    @property
    def alive(self) -> bool:
        """Whether the container has been started and has not ended."""
        return isinstance(self.state, Running)

    def set_state(self, state: State) -> None:
        """Change what is known about the container."""
        if state != self.state:
            self.state = state
            self._changed()

    async def start(self, spec: dict[str, Any]) -> None:
        """Start the container's command."""
        self._child, ready = launch(self.folder, spec)
        await until_closed(ready)
        self._shim = find_process(self._child.pid)
        self._look()

    async def adopt(self) -> bool:
        """Take over what an earlier agent has started; False when it had not started this container."""
        if not (self.folder / "shim.pid").exists():
            return False
        self._shim = read_pid_file(self.folder / "shim.pid")
        deadline = time.monotonic() + START_SECONDS
        while self._shim and self._shim.is_alive() and not (self.folder / "started.json").exists():
            if time.monotonic() > deadline:
                await asyncio.to_thread(kill_tree, self._shim)
            await asyncio.sleep(0.02)
        self._look()
        return True

    def lose(self) -> None:
        """Say that a run which has been seen is not on this machine any more."""
        text = "The container could not be located when the pod was terminated"
        self.set_state(Terminated(137, "ContainerStatusUnknown", EPOCH, now(), text))

    def terminate(self) -> None:
        """Ask the container's first process to end."""
        if self._shim is not None:
            self._shim.send(signal.SIGTERM)

    async def kill(self) -> None:
        """Kill everything in the container; the second call does without the shim's help."""
        if self._shim is None:
            return
        if self._killed:
            await asyncio.to_thread(kill_tree, self._shim)
        self._killed = True
        self._shim.send(signal.SIGUSR1)

    async def close(self) -> None:
        """Stop watching the container, which lives on."""
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher

    def _look(self) -> None:
        """Find out the state from the shim's files and process."""
        if self._shim is not None and self._shim.is_alive() and not (self.folder / "exit.json").exists():
            self.set_state(Running(self._started_at()))
            self._watcher = asyncio.create_task(self._watch(self._shim))
        else:
            self._ended()

    async def _watch(self, shim: Process) -> None:
        """Wait for the shim's end, without any polling."""
        try:
            handle = os.pidfd_open(shim.pid)
        except ProcessLookupError:
            self._ended()
            return
        if shim.is_alive():
            await until_closed(handle)  # a process handle becomes readable when its process ends
        else:
            os.close(handle)
        self._ended()

    def _ended(self) -> None:
        if self._child is not None:
            self._child.wait()  # it has ended: this only collects it
        self.set_state(self.result())

    def _started_at(self) -> str:
        record = _read(self.folder / "started.json")
        return moment(record["started_ns"]) if record else now()

    def result(self) -> Terminated:
        """Return how the run ended, from what its shim has left."""
        record = _read(self.folder / "exit.json")
        started = _read(self.folder / "started.json")
        if record is None and started is None:
            text = (self.folder / "shim.log").read_text(errors="replace")[-1000:]
            return Terminated(128, "StartError", EPOCH, now(), f"the container's shim did not start: {text}")
        if record is None:
            code, reason = (137, "Error") if self._killed else (UNKNOWN_EXIT, "Unknown")
            return Terminated(code, reason, self._started_at(), now())
        finished_at, code = moment(record["finished_ns"]), record["exit_code"]
        if record["start_error"]:
            return Terminated(128, "StartError", EPOCH, finished_at, record["start_error"])
        reason = "Error" if code else "Completed"
        if code == KILLED_EXIT and (self.folder / "home" / OOM_MARKER).exists():
            reason = "OOMKilled"
        return Terminated(code, reason, self._started_at(), finished_at, self._message(code))

    def _message(self, code: int) -> str:
        """Return the termination message: the file's content, or the log's end where the pod asks for it."""
        try:
            with self.termination_path.open("rb") as stream:
                text = stream.read(MESSAGE_BYTES).decode(errors="replace")
        except OSError:
            text = ""
        if not text and code and self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            return log_tail(self.log_path, FALLBACK_LINES, FALLBACK_BYTES)
        return text


def _read(path: Path) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return record
