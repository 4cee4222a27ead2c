"""Starts a keeper and waits until its lab is ready; finds, ends and cleans up labs from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab import control, specfile
from lab.errors import LabError
from lab.keeper import RELEASE, remove_folder
from lab.locks import exclusive
from lab.node import faults
from lab.paths import LabPaths, tail
from lab.pki import write_private
from lab.processes import ProcessId, kill_recorded, wait_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lab.spec import LabSpec

_CHECKOUT = Path(__file__).resolve().parent.parent
_END_TIMEOUT_SECONDS = 30.0


@dataclass(slots=True, eq=False)
class KeeperHandle:
    """A keeper started by this process; it ends with this process unless released.

    :param parent_fd: write end of the pipe that the keeper watches.
    """

    paths: LabPaths
    process: subprocess.Popen[bytes]
    parent_fd: int

    def release(self) -> None:
        """Let the lab outlive this process."""
        os.write(self.parent_fd, RELEASE)
        os.close(self.parent_fd)

    def end(self) -> None:
        """End the lab by letting the pipe go, and wait until it is gone."""
        with contextlib.suppress(OSError):  # already closed
            os.close(self.parent_fd)
        try:
            self.process.wait(timeout=_END_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start(
    paths: LabPaths, spec: LabSpec, programs: Mapping[str, Path], progress: Callable[[str], None]
) -> KeeperHandle:
    """Start a lab and wait until it is ready.

    :raises LabError: when one of that name runs, or when the start fails. Any exception leaves no process.
    """
    handle, report = _start_keeper(paths, spec, programs, progress)
    try:
        with report:
            _follow(report, paths, progress)
    except BaseException as error:
        handle.end()
        # The folder of a start that failed is kept for its logs; one that was broken off is of no use.
        if not isinstance(error, LabError):
            clean(paths)
        raise
    return handle


def _start_keeper(
    paths: LabPaths, spec: LabSpec, programs: Mapping[str, Path], progress: Callable[[str], None]
) -> tuple[KeeperHandle, Any]:
    with exclusive(paths.up_lock):
        if is_running(paths):
            raise LabError(
                f"lab {paths.name!r} already runs. End it with 'python -m lab down --name {paths.name}', "
                "or give the new one another --name"
            )
        if paths.folder.exists():
            progress(f"removing what a dead lab left in {paths.folder}")
            clean(paths)
        paths.folder.mkdir(mode=0o700, parents=True)
        content = {
            "spec": specfile.dump(spec),
            "programs": {name: str(path) for name, path in programs.items()},
        }
        write_private(paths.spec_file, json.dumps(content, indent=1).encode())
        watched, parent_fd = os.pipe()
        report_fd, reported = os.pipe()
        command = [sys.executable, "-m", "lab.keeper", f"--folder={paths.folder}"]
        command += [f"--parent-pid={os.getpid()}", f"--parent-fd={watched}", f"--report-fd={reported}"]
        try:
            with paths.keeper_log.open("ab") as output:
                # Its own session: a ctrl-C in the terminal must not reach it before its children are told.
                process = subprocess.Popen(
                    command,
                    cwd=_CHECKOUT,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    pass_fds=(watched, reported),
                    start_new_session=True,
                )
        finally:
            os.close(watched)
            os.close(reported)
        identity = ProcessId.of(process.pid)
        if identity is not None:
            identity.write(paths.keeper_pid)
    return KeeperHandle(paths, process, parent_fd), os.fdopen(report_fd, "rb")


def _follow(report: Any, paths: LabPaths, progress: Callable[[str], None]) -> None:
    """Pass the keeper's progress on until the lab is ready."""
    for line in report:
        content = json.loads(line)
        if "progress" in content:
            progress(content["progress"])
        elif "failed" in content:
            raise LabError(f"lab {paths.name!r} did not start: {content['failed']}")
        elif "ended" in content:
            raise LabError(f"lab {paths.name!r} was ended while it was starting")
        else:
            return
    end = "\n".join(tail(paths.keeper_log, 15))
    raise LabError(
        f"lab {paths.name!r} did not start: its keeper ended. The end of {paths.keeper_log}:\n{end}"
    )


def keeper_process(paths: LabPaths) -> ProcessId | None:
    """Return the keeper of a lab if it is alive."""
    process = ProcessId.read(paths.keeper_pid)
    return process if process is not None and process.alive() else None


def is_running(paths: LabPaths) -> bool:
    """Say whether the lab has a living keeper, ready or not."""
    return keeper_process(paths) is not None


def down(paths: LabPaths) -> bool:
    """End a lab, half-started, running or dead, and remove its folder; say whether there was one."""
    existed = paths.folder.exists()
    process = keeper_process(paths)
    if process is not None:
        with contextlib.suppress(
            LabError
        ):  # too young to answer, or just ending: the signal below says the same
            control.request(paths, "down", timeout_seconds=5)
        process.signal(signal.SIGTERM)
        for left in wait_gone([process], _END_TIMEOUT_SECONDS):
            left.signal(signal.SIGKILL)
            wait_gone([left], _END_TIMEOUT_SECONDS)
    if paths.home.exists():
        with exclusive(paths.up_lock):
            if not is_running(paths):
                clean(paths)
    return existed


def clean(paths: LabPaths) -> None:
    """Kill what a dead lab's records still name and remove its folder."""
    for folder in paths.folder.glob("*/node/*"):
        faults.power_off(folder)
    kill_recorded(paths.folder)
    if paths.folder.exists():
        remove_folder(paths.folder)


def every_lab(home: Path) -> Iterator[LabPaths]:
    """Yield each lab that has a folder, by name."""
    if home.is_dir():
        for folder in sorted(home.iterdir()):
            if (folder / "spec.json").is_file():
                yield LabPaths(home, folder.name)
