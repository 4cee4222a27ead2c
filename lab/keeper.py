"""The keeper: the one process that is parent of all others of a lab (``python -m lab.keeper``).

What keeps the machine clean, whatever dies first:

- every direct child gets SIGKILL from the kernel when the keeper dies (``lab.pdeath``);
- what a node runs reads the *lifeline*, a FIFO whose write end the keeper holds, and ends at its end of file;
- the keeper itself ends when the process that started it dies, unless that process released it;
- orphans of a dead node agent are given to the keeper, which kills and collects them at its end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import json
import logging
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab import specfile
from lab.control import LINE_LIMIT, short_socket_path
from lab.errors import LabError
from lab.fleet import Fleet
from lab.paths import LabPaths

if TYPE_CHECKING:
    from collections.abc import Sequence

RELEASE = b"r"
_PR_SET_CHILD_SUBREAPER = 36
_REMOVE_TRIES = 50

log = logging.getLogger("lab.keeper")


class Keeper:
    """Runs one lab until it is told to end, or until the process that started it is gone.

    :param parent_fd: read end of a pipe that only the starting process holds.
    :param report_fd: write end of a pipe that gets progress, and at last ``ready``, ``failed`` or ``ended``.
    """

    def __init__(self, paths: LabPaths, parent_pid: int, parent_fd: int, report_fd: int) -> None:
        content = json.loads(paths.spec_file.read_text(encoding="utf-8"))
        spec = specfile.parse(content["spec"], str(paths.spec_file))
        programs = {name: Path(program) for name, program in content["programs"].items()}
        self._paths = paths
        self._parent_pid = parent_pid
        self._parent_fd = parent_fd
        self._report_fd = report_fd
        self._end = asyncio.Event()
        self._keep_folder = False
        self._parent_handle: int | None = None
        os.mkfifo(paths.lifeline, 0o600)
        # Opened for both directions, because opening for writing alone waits for a reader.
        self._lifeline = os.open(paths.lifeline, os.O_RDWR)
        self._fleet = Fleet(paths, spec, programs, lambda line: self._report(progress=line))

    async def run(self) -> int:
        """Run the lab; return the exit code."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._fleet.reap)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._end.set)
        self._watch_parent(loop)
        with short_socket_path(self._paths.socket) as name:
            server = await asyncio.start_unix_server(self._serve, name, limit=LINE_LIMIT)
        starting = asyncio.create_task(self._start())
        ending = asyncio.create_task(self._end.wait())
        await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done() and starting.result():
            await ending
        elif not starting.done():
            self._report(ended=True)
        starting.cancel()
        await asyncio.wait({starting})
        await self._fleet.end()
        server.close()
        if not self._keep_folder:
            await asyncio.to_thread(remove_folder, self._paths.folder)
        return 1 if self._keep_folder else 0

    async def _start(self) -> bool:
        """Start the fleet, report how that went and say whether it did."""
        failures: list[str] = []
        try:
            await self._fleet.start()
        except* LabError as errors:
            # With several clusters the first failure cancels the others; all that failed are told.
            failures = [str(error) for error in _flat(errors)]
        except* Exception as errors:  # the edge of the process: told to the starter, and in the log
            log.exception("start failed")
            failures = [f"internal error of the keeper: {error!r}" for error in errors.exceptions]
        if failures:
            self._keep_folder = True
            self._report(failed="\n".join(failures))
        else:
            self._report(ready=True)
        return not failures

    def _report(self, **content: Any) -> None:
        log.info("%s", content)
        with contextlib.suppress(BrokenPipeError):  # the reader is gone; the parent watch acts on that
            os.write(self._report_fd, json.dumps(content).encode() + b"\n")

    # -- the process that started the lab --

    def _watch_parent(self, loop: asyncio.AbstractEventLoop) -> None:
        """End with the parent. Its pipe may live on in children it forked, so the process is watched too."""
        loop.add_reader(self._parent_fd, self._on_parent_pipe)
        try:
            self._parent_handle = os.pidfd_open(self._parent_pid)
        except ProcessLookupError:
            self._end.set()
        except OSError:
            log.info("this kernel has no pidfd; only the pipe tells when the parent dies")
        else:
            loop.add_reader(self._parent_handle, self._end.set)
        if os.getppid() != self._parent_pid:
            self._end.set()

    def _on_parent_pipe(self) -> None:
        if os.read(self._parent_fd, 1) != RELEASE:
            self._end.set()
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._parent_fd)
        if self._parent_handle is not None:
            loop.remove_reader(self._parent_handle)

    # -- orders --

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one order."""
        try:
            line = await reader.readline()
            if line:
                writer.write(json.dumps(await self._answer(line)).encode() + b"\n")
                await writer.drain()
        except ConnectionError:
            log.info("a client left before it had its answer")
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            order = json.loads(line)
            operation = order.pop("operation")
            log.info("order %s %s", operation, order)
            if operation == "down":
                self._end.set()
                return {"result": None}
            return {"result": await self._fleet.handle(operation, order)}
        except LabError as error:
            return {"error": str(error)}
        except Exception as error:  # the edge of the process: an order must not end the lab
            log.exception("order failed")
            return {"error": f"internal error of the keeper: {error!r}; see {self._paths.keeper_log}"}


def remove_folder(folder: Path) -> None:
    """Remove a lab's folder; processes that are just ending may still write into it."""
    for _ in range(_REMOVE_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
    shutil.rmtree(folder)


def _flat(group: BaseExceptionGroup[LabError]) -> list[LabError]:
    found: list[LabError] = []
    for error in group.exceptions:
        found += _flat(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def main(arguments: Sequence[str]) -> int:
    """Run the keeper of the lab whose folder was prepared by the starting process."""
    parser = argparse.ArgumentParser(prog="python -m lab.keeper", description="Started by the lab itself.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--parent-pid", type=int, required=True)
    parser.add_argument("--parent-fd", type=int, required=True)
    parser.add_argument("--report-fd", type=int, required=True)
    found = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        log.warning("orphans of dead node agents will not be collected: %s", os.strerror(ctypes.get_errno()))

    async def run() -> int:
        keeper = Keeper(
            LabPaths(found.folder.parent, found.folder.name),
            found.parent_pid,
            found.parent_fd,
            found.report_fd,
        )
        return await keeper.run()

    return asyncio.run(run())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
