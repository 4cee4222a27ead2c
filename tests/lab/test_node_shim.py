"""The shim and the faults on real processes, without any server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from lab.node import faults
from lab.node.processes import Process, find_process, read_pid_file
from lab.node.procfs import start_time
from lab.node.sandbox import choose_sandbox, launch
from lab.node.shim import write_atomically
from tests.lab.node_support import namespaces, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Rig:
    """A node's folder with a lifeline, and containers without an agent."""

    def __init__(self, folder: Path) -> None:
        self.root_dir = folder
        self.lifeline = folder / "lifeline"
        os.mkfifo(self.lifeline)
        self._held: int | None = os.open(self.lifeline, os.O_RDWR)
        self.shims: list[subprocess.Popen[bytes]] = []

    def start(self, script: str, name: str = "main", sandbox: dict[str, bool] | None = None) -> Path:
        """Start a container and wait until its command runs, or could not be started."""
        folder = self.root_dir / "pods" / "uid" / "containers" / name
        spec: dict[str, Any] = {
            "argv": ["sh", "-c", script],
            "env": {"PATH": os.environ["PATH"]},
            "cwd": "/",
            "lifeline": str(self.lifeline),
            "sandbox": sandbox,
            "root": str(folder / "root"),
            "hostname": "rig",
            "mounts": [],
        }
        process, ready = launch(folder, spec)
        self.shims.append(process)
        with os.fdopen(ready, "rb") as stream:
            stream.read()
        return folder

    def drop_lifeline(self) -> None:
        """End the lab, as far as the shims can see."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def close(self) -> None:
        """End what still runs."""
        self.drop_lifeline()
        for process in self.shims:
            process.wait(timeout=10)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """Return an empty node folder; all its processes end with the test."""
    made = Rig(tmp_path)
    yield made
    made.close()


def _exit(folder: Path) -> dict[str, Any]:
    def record() -> str | None:
        path = folder / "exit.json"
        return path.read_text() if path.exists() else None

    found: dict[str, Any] = json.loads(wait_for(record, 10, f"the container in {folder} ends"))
    return found


def test_exit_code_and_output(rig: Rig) -> None:
    """The exit code and both kinds of output are kept in files."""
    folder = rig.start("echo out; echo err >&2; exit 4")
    assert _exit(folder)["exit_code"] == 4
    assert [line.split(" ", 2)[2] for line in (folder / "log").read_text().splitlines()] == ["out", "err"]


def test_a_crash_is_128_plus_the_signal(rig: Rig) -> None:
    """A first process that kills itself ends with 128 + the signal's number."""
    assert _exit(rig.start("kill -KILL $$"))["exit_code"] == 128 + signal.SIGKILL


def test_nothing_of_the_agent_is_inherited(rig: Rig) -> None:
    """A container has its own session, three open files and no environment but its own."""
    folder = rig.start("ls /proc/self/fd | wc -l; env | cut -d= -f1 | sort | tr '\\n' ' '")
    _exit(folder)
    lines = [line.split(" ", 2)[2] for line in (folder / "log").read_text().splitlines()]
    assert lines[0].strip() == "4", "ls has one for the folder that it reads"
    assert lines[1].split() == ["PATH", "PWD"]


def test_the_lab_s_end_is_the_container_s_end(rig: Rig) -> None:
    """When the lifeline breaks, the shim kills everything below it, daemons too."""
    rig.start("(setsid sleep 300 &); setsid sleep 301 & wait")
    alive = wait_for(lambda: len(found := faults.node_processes(rig.root_dir)) >= 4 and found, 5, "all run")
    rig.drop_lifeline()
    wait_for(lambda: not any(process.is_alive() for process in alive), 5, "all are dead")


def test_a_shim_does_not_start_without_a_lab(rig: Rig) -> None:
    """A shim that finds the lifeline's other end closed starts nothing."""
    rig.drop_lifeline()
    folder = rig.start("echo no")
    rig.shims[-1].wait(timeout=5)
    assert not (folder / "started.json").exists()
    assert "the lab has gone" in (folder / "shim.log").read_text()


def test_a_killed_shim_takes_its_command_along(rig: Rig) -> None:
    """A command does not outlive its shim."""
    folder = rig.start("exec sleep 300")
    command = find_process(json.loads((folder / "started.json").read_text())["pid"])
    assert command is not None
    rig.shims[-1].kill()
    wait_for(lambda: not command.is_alive(), 5, "the command is dead")


def test_power_off_counts_the_dead(rig: Rig) -> None:
    """All containers of a node die at once, and the number of processes is told."""
    for name in ("a", "b"):
        rig.start("setsid sleep 300 & exec sleep 301", name)
    wait_for(lambda: len(faults.node_processes(rig.root_dir)) == 6, 5, "six processes run")
    assert faults.power_off(rig.root_dir) == 6
    assert faults.node_processes(rig.root_dir) == set()
    assert faults.power_off(rig.root_dir) == 0, "a second power cut finds nothing"


def test_kill_agent_spares_the_containers(rig: Rig) -> None:
    """Only the process in agent.pid dies."""
    rig.start("exec sleep 300")
    agent = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(300)"])
    write_atomically(str(rig.root_dir / "agent.pid"), f"{agent.pid} {start_time(agent.pid)}")
    faults.kill_agent(rig.root_dir)
    assert agent.wait(timeout=5) == -signal.SIGKILL
    assert len(faults.node_processes(rig.root_dir)) == 2
    faults.kill_agent(rig.root_dir)


def test_a_recycled_pid_is_never_hit(rig: Rig) -> None:
    """A record whose start time does not match the process with its pid means another, dead process."""
    other = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(300)"])
    try:
        old = Process(other.pid, str(int(start_time(other.pid)) - 1))
        assert not old.is_alive()
        assert not old.send(signal.SIGKILL)
        write_atomically(str(rig.root_dir / "agent.pid"), f"{old.pid} {old.start_ticks}")
        faults.kill_agent(rig.root_dir)
        assert faults.power_off(rig.root_dir) == 0
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_pid_files_that_say_nothing(tmp_path: Path) -> None:
    """A missing or an unfinished pid file means no process."""
    assert read_pid_file(tmp_path / "none") is None
    (tmp_path / "empty").touch()
    assert read_pid_file(tmp_path / "empty") is None
    assert find_process(2**22 + 1) is None


def test_plain_mode_is_chosen_when_asked_for(rig: Rig) -> None:
    """Plain mode needs no probe; namespaces that are demanded and not allowed are an error with advice."""
    probe, lifeline = rig.root_dir / "probe", str(rig.lifeline)
    assert asyncio.run(choose_sandbox("plain", probe, lifeline)) is None
    if namespaces():
        assert asyncio.run(choose_sandbox("namespace", probe, lifeline)) == namespaces()
    else:
        with pytest.raises(RuntimeError, match="write sandbox: plain, or allow user namespaces"):
            asyncio.run(choose_sandbox("namespace", probe, lifeline))
    assert not probe.exists()


def test_a_mount_path_is_not_created_on_the_host(rig: Rig) -> None:
    """Mount points that are missing exist in the container only; what is beside them is still seen."""
    sandbox = namespaces()
    if sandbox is None:  # then there are no mount points: plain mode rewrites paths instead
        return
    folder = rig.root_dir / "pods" / "uid" / "containers" / "main"
    source = rig.root_dir / "source"
    source.mkdir()
    (source / "file").write_text("content")
    beside = rig.root_dir / "beside"
    beside.write_text("seen")
    target = rig.root_dir / "missing" / "below"
    process, ready = launch(
        folder,
        {
            "argv": ["sh", "-c", f"cat {target}/file {beside}; echo x > {target}/file"],
            "env": {"PATH": os.environ["PATH"]},
            "cwd": "/",
            "lifeline": str(rig.lifeline),
            "sandbox": sandbox,
            "root": str(folder / "root"),
            "hostname": "rig",
            "mounts": [{"source": str(source), "target": str(target), "read_only": True}],
        },
    )
    rig.shims.append(process)
    os.close(ready)
    record = _exit(folder)
    assert record["exit_code"] == 2, "the volume is read-only"
    assert "contentseen" in (folder / "log").read_text()
    assert (source / "file").read_text() == "content"
    assert not target.parent.exists()
