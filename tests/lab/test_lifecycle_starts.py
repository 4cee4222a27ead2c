"""What may stand in the way of a lab that starts."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lab import Lab, LabError, build, launch
from lab.paths import LabPaths
from lab.processes import ProcessId
from tests.lab import leftovers
from tests.lab.lifecycle_support import CHECKOUT, GONE_SECONDS, SMALL, run

if TYPE_CHECKING:
    from pathlib import Path

    pass


pytestmark = pytest.mark.lab


def test_folder_of_a_dead_lab_is_replaced(home: Path) -> None:
    """A new lab may take the name of one whose keeper was killed."""
    lines: list[str] = []
    dead = Lab.up(SMALL, name="x", home=home)
    keeper = launch.keeper_process(dead.paths)
    assert keeper is not None
    keeper.signal(signal.SIGKILL)
    leftovers.wait_until(lambda: not keeper.alive(), GONE_SECONDS, lambda: "the keeper is dead")

    with Lab.up(SMALL, name="x", home=home, progress=lines.append) as lab:
        assert f"removing what a dead lab left in {lab.paths.folder}" in lines
        assert lab.cluster("one").api.get("/readyz") == "ok"
    dead.down()


def test_recorded_pid_of_somebody_else_is_left_alone(home: Path) -> None:
    """Cleaning up after a dead lab spares a process that got a recorded pid later."""
    paths = LabPaths(home, "x")
    folder = paths.component("etcd")
    folder.mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as bystander:
        identity = ProcessId.of(bystander.pid)
        assert identity is not None
        ProcessId(identity.pid, identity.start_ticks - 1).write(folder / "pid")
        launch.clean(paths)
        alive = bystander.poll() is None
        bystander.kill()

    assert alive
    assert not paths.folder.exists()


def test_several_labs_at_once(home: Path) -> None:
    """Two labs run side by side; ending one leaves the other; a name that runs is refused."""
    with Lab.up(SMALL, name="first", home=home) as first, Lab.up(SMALL, name="second", home=home) as second:
        assert first.cluster("one").uid != second.cluster("one").uid
        with pytest.raises(LabError, match=r"lab 'first' already runs\. End it with .* down --name first'"):
            Lab.up(SMALL, name="first", home=home)
        status = run("status", home=home).stdout
        assert "first" in status
        assert "second" in status
        first.down()
        assert second.cluster("one").api.get("/readyz") == "ok"


def test_very_long_folder_is_no_problem(home: Path) -> None:
    """A folder longer than the 108 bytes of a socket's name works."""
    deep = home / ("d" * 100) / ("e" * 100)

    with Lab.up(SMALL, name="x", home=deep) as lab:
        assert lab.status()["ready"] is True


_PORTS_TAKEN = """
import runpy, sys, lab.cluster, lab.etcd, lab.ports
free_port, taken = lab.ports.free_port, {port}
for module in (lab.etcd, lab.cluster):
    firsts = [taken, taken]
    module.free_port = lambda firsts=firsts: firsts.pop() if firsts else free_port()
sys.argv = sys.argv[2:]
runpy.run_module("lab.keeper", run_name="__main__", alter_sys=True)
"""


def test_lost_race_for_a_port_is_run_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When another program takes a port first, etcd and the API servers are started on other ones."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        program = home / "keeper.py"
        program.write_text(_PORTS_TAKEN.format(port=port), encoding="utf-8")
        python = home / "python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n', encoding="utf-8")
        python.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(python))
        monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))

        with Lab.up(SMALL, name="x", home=home) as lab:
            assert lab.cluster("one").api.get("/readyz") == "ok"
            logs = [
                lab.paths.logs()[name].read_text(encoding="utf-8") for name in ("etcd", "one/kube-apiserver")
            ]

    assert [log.count("address already in use") > 0 for log in logs] == [True, True]


def test_server_that_fails_to_start_is_told_with_its_log(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that ends while starting is named with the end of its log, and nothing runs on."""
    broken = home / "kube-apiserver"
    broken.write_text("#!/bin/sh\necho 'the reason'; exit 3\n", encoding="utf-8")
    broken.chmod(0o755)
    programs = build.ensure_binaries(lambda _line: None)
    monkeypatch.setattr(build, "ensure_binaries", lambda _progress: {**programs, "kube-apiserver": broken})

    with pytest.raises(
        LabError, match=r"one/kube-apiserver ended while starting \(exit code 3\)[^$]*the reason"
    ):
        Lab.up(SMALL, name="x", home=home)
    assert leftovers.processes(home / "x") == {}
