"""A small process that owns every server of a test session and lets none of them outlive it.

Runs as a script with the standard library only (``python -I warden.py``). It is the subreaper of all that
it starts, so that a daemonised grandchild stays its descendant. Its standard input is the lifeline: one JSON
request a line while the owner lives, and end-of-file when the owner is gone, however it went. Then the warden
kills every descendant, removes the folder it was told to remove, and ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import shutil
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PR_SET_CHILD_SUBREAPER = 36
KILL_DEADLINE_SECONDS = 15.0
#: Signals that are only meaningful for a whole component: its children must not go on without it.
TREE_SIGNALS = frozenset({signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT})


def process_table() -> dict[int, tuple[int, int, str]]:
    """Return pid -> (parent pid, session id, state) of all processes that can be seen."""
    table: dict[int, tuple[int, int, str]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as stat_file:
                # The command name may hold spaces and brackets: all fields of interest follow the last ")".
                fields = stat_file.read().rpartition(b")")[2].split()
        except OSError:  # ended while the folder was being read
            continue
        table[int(entry)] = (int(fields[1]), int(fields[3]), fields[0].decode())
    return table


def descendants(root: int, table: dict[int, tuple[int, int, str]]) -> set[int]:
    """Return every living process below ``root``, without ``root``; zombies do not count."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _session, _state) in table.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    pending = list(children.get(root, []))
    while pending:
        pid = pending.pop()
        if pid not in found:
            found.add(pid)
            pending.extend(children.get(pid, []))
    return {pid for pid in found if table[pid][2] not in "ZX"}


def send(pid: int, number: int) -> None:
    """Send a signal to a process that may already be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Warden:
    """The children, their exit codes, and the requests of the owner."""

    def __init__(self) -> None:
        self.pids: dict[str, int] = {}
        self.exit_codes: dict[int, int] = {}

    def reap(self) -> None:
        """Collect every child that has ended, adopted orphans included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self.pids.values():
                self.exit_codes[pid] = os.waitstatus_to_exitcode(status)

    def component(self, name: str) -> set[int]:
        """Return the living processes of one component: its tree, and its session below this warden."""
        root = self.pids[name]
        table = process_table()
        ours = descendants(os.getpid(), table)
        return ({root} & ours) | descendants(root, table) | {pid for pid in ours if table[pid][1] == root}

    def start(self, name: str, argv: list[str], out: str, err: str) -> dict[str, Any]:
        """Start a component in a session of its own."""
        if name in self.pids and self.pids[name] not in self.exit_codes:
            raise ValueError(f"{name} is already running as pid {self.pids[name]}; kill it first")
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self.pids[name] = os.posix_spawn(
            argv[0],
            argv,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, out, append, 0o600),
                (os.POSIX_SPAWN_OPEN, 2, err, append, 0o600),
            ],
            setsid=True,
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT],
        )
        return {"pid": self.pids[name]}

    def kill(self, name: str, number: int) -> dict[str, Any]:
        """Signal a component: the whole tree for KILL, STOP and CONT, else its main process."""
        if self.pids[name] in self.exit_codes:
            raise ValueError(f"{name} has already ended with exit code {self.exit_codes[self.pids[name]]}")
        if number not in TREE_SIGNALS:
            send(self.pids[name], number)
            return {"pids": [self.pids[name]]}
        if number == signal.SIGKILL:
            killed = self.kill_all(lambda: self.component(name))
            self.await_exit(self.pids[name])
            return {"pids": sorted(killed)}
        members = self.component(name)
        for pid in members:
            send(pid, number)
        return {"pids": sorted(members)}

    def await_exit(self, pid: int) -> None:
        """Wait for the exit code of a killed child: it can be collected once its last thread has ended."""
        deadline = time.monotonic() + KILL_DEADLINE_SECONDS
        while pid not in self.exit_codes and time.monotonic() < deadline:
            self.reap()
            time.sleep(0.005)

    def kill_all(self, members: Callable[[], set[int]]) -> set[int]:
        """Stop, then kill what ``members()`` returns, until it returns nothing."""
        killed: set[int] = set()
        deadline = time.monotonic() + KILL_DEADLINE_SECONDS
        while time.monotonic() < deadline:
            # Stopped first: a process that cannot run cannot fork while its relatives die.
            stopped: set[int] = set()
            while fresh := members() - stopped:
                for pid in fresh:
                    send(pid, signal.SIGSTOP)
                stopped |= fresh
            if not stopped:
                return killed
            for pid in stopped:
                send(pid, signal.SIGKILL)
            killed |= stopped
            while (members() & stopped) and time.monotonic() < deadline:
                self.reap()
                time.sleep(0.005)
        raise TimeoutError(f"processes {sorted(members())} survived SIGKILL for {KILL_DEADLINE_SECONDS} s")

    def status(self) -> dict[str, Any]:
        """Return the pid and, when it has ended, the exit code of each component."""
        self.reap()
        return {name: [pid, self.exit_codes.get(pid)] for name, pid in self.pids.items()}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Carry out one request; what goes wrong becomes the answer."""
        operations: dict[str, Callable[..., dict[str, Any]]] = {
            "start": self.start,
            "kill": self.kill,
            "members": lambda name: {"pids": sorted(self.component(name))},
            "status": self.status,
        }
        try:
            result = operations[request.pop("op")](**request)
        except (OSError, ValueError, KeyError, TimeoutError) as problem:
            return {"error": f"{type(problem).__name__}: {problem}"}
        self.reap()
        return {"result": result}


def serve(warden: Warden, wakeup_fd: int) -> None:
    """Answer requests until the lifeline ends or a terminating signal arrives."""
    buffered = b""
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(wakeup_fd, selectors.EVENT_READ)
        while True:
            for key, _events in selector.select():
                if key.fd == wakeup_fd:
                    received = os.read(wakeup_fd, 4096)
                    if signal.SIGTERM in received or signal.SIGINT in received:
                        return
                    warden.reap()
                    continue
                chunk = os.read(0, 65536)
                if not chunk:
                    return
                *lines, buffered = (buffered + chunk).split(b"\n")
                for line in lines:
                    os.write(1, json.dumps(warden.answer(json.loads(line))).encode() + b"\n")


def main() -> None:
    """Become a subreaper, serve the owner, and leave nothing behind."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    signal.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    warden = Warden()
    try:
        serve(warden, read_fd)
    except BrokenPipeError:  # the owner died between its request and our answer
        pass
    finally:
        warden.kill_all(lambda: descendants(os.getpid(), process_table()))
        for folder in sys.argv[1:]:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
