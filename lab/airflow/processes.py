"""The owner's side of the warden: start, signal and look at processes that end when this process ends."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self, cast

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence

WARDEN_SCRIPT = Path(__file__).with_name("warden.py")


class WardenError(Exception):
    """The warden refused a request or is gone; the message says which."""


class ProcessStatus(NamedTuple):
    """Pid of a process and, once it has ended, its exit code (negative: the signal that ended it)."""

    pid: int
    exit_code: int | None


class WardedProcesses:
    """Named processes under one warden: they and all their descendants die with this process.

    ``environment`` is the whole environment of everything started here. ``remove_at_end`` are folders
    that the warden removes when all is dead, also after a SIGKILL of this process.
    """

    def __init__(
        self, environment: Mapping[str, str], *, cwd: Path, log: Path, remove_at_end: Sequence[Path] = ()
    ) -> None:
        folders = [str(folder) for folder in remove_at_end]
        with log.open("ab") as log_file:
            self._warden = subprocess.Popen(
                [sys.executable, "-I", str(WARDEN_SCRIPT), *folders],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log_file,
                env=dict(environment),
                cwd=cwd,
                start_new_session=True,  # ctrl-C is for the owner; the warden follows by the lifeline
            )
        # Both are pipes because that is how the warden was started.
        self._requests = cast("IO[bytes]", self._warden.stdin)
        self._answers = cast("IO[bytes]", self._warden.stdout)
        self._log = log
        # One request and its answer at a time: tests ask from several threads.
        self._lock = threading.Lock()

    @property
    def warden_pid(self) -> int:
        """The pid of the warden itself."""
        return self._warden.pid

    def _ask(self, **request: Any) -> Any:
        try:
            with self._lock:
                self._requests.write(json.dumps(request).encode() + b"\n")
                self._requests.flush()
                answer = self._answers.readline()
        except (BrokenPipeError, ValueError) as error:
            raise WardenError(f"the warden of these processes is gone (its log: {self._log})") from error
        if not answer:
            raise WardenError(f"the warden of these processes ended early (its log: {self._log})")
        decoded = json.loads(answer)
        if "error" in decoded:
            raise WardenError(decoded["error"])
        return decoded["result"]

    def start(self, name: str, argv: Sequence[str], *, out: Path, err: Path) -> int:
        """Start ``argv`` under ``name`` with its output appended to the two files; return the pid."""
        pid: int = self._ask(op="start", name=name, argv=list(argv), out=str(out), err=str(err))["pid"]
        return pid

    def kill(self, name: str, number: signal.Signals) -> list[int]:
        """Signal a process and return who got it.

        SIGKILL, SIGSTOP and SIGCONT go to the process and all its descendants (after SIGKILL they are gone
        when this returns); other signals go to the process alone.
        """
        pids: list[int] = self._ask(op="kill", name=name, number=int(number))["pids"]
        return pids

    def members(self, name: str) -> list[int]:
        """Return the pids of a process and all its living descendants."""
        pids: list[int] = self._ask(op="members", name=name)["pids"]
        return pids

    def status(self) -> dict[str, ProcessStatus]:
        """Return pid and exit code of every process ever started here, by name."""
        return {name: ProcessStatus(*entry) for name, entry in self._ask(op="status").items()}

    def wait(self, name: str, timeout_seconds: float) -> int:
        """Wait for a process to end by itself; return its exit code."""
        deadline = time.monotonic() + timeout_seconds
        while (code := self.status()[name].exit_code) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} has not ended within {timeout_seconds:g} s")
            time.sleep(0.05)
        return code

    def close(self) -> None:
        """Kill everything and remove the folder; may be called twice."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        self._warden.wait(timeout=30)
        self._answers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
