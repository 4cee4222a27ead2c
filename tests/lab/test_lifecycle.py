"""Whatever ends a lab, and whoever started it, no process, no open port and no folder is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab import ClusterSpec, Lab, LabError, LabSpec, launch
from lab.paths import LabPaths
from tests.lab import leftovers
from tests.lab.lifecycle_support import CHECKOUT, GONE_SECONDS, run, small_file, start, wait_half_started

pytestmark = pytest.mark.lab
WITH_NODE = LabSpec((ClusterSpec("one"),))
_HOLD = """
import sys, time
from pathlib import Path
from lab import ClusterSpec, Lab, LabSpec
lab = Lab.up(LabSpec((ClusterSpec("one"),)), name="held", home=Path(sys.argv[1]))
print(*[cluster.server for cluster in lab.clusters], flush=True)
time.sleep(600)
"""


def test_context_manager_leaves_nothing(home: Path) -> None:
    """After the block of ``with Lab.up(...)`` nothing is left; ending it again does nothing."""
    with Lab.up(WITH_NODE, name="x", home=home) as lab:
        servers = [cluster.server for cluster in lab.clusters]
        folder = lab.paths.folder
        assert leftovers.open_ports(servers) == servers
        assert len(leftovers.processes(folder)) >= 6  # keeper, etcd, three servers, one agent

    leftovers.wait_nothing_left(folder, servers, timeout_seconds=0.5)
    lab.down()


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name
)
def test_lab_ends_with_the_process_that_started_it(home: Path, number: signal.Signals) -> None:
    """A signal to the Python process that holds the lab ends the lab within seconds, SIGKILL too."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(home)], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        servers = holder.stdout.readline().split()
        assert leftovers.open_ports(servers) == servers
        holder.send_signal(number)

    leftovers.wait_nothing_left(home / "held", servers, GONE_SECONDS)


def test_child_that_the_holder_forked_does_not_keep_the_lab(home: Path) -> None:
    """A forked child inherits the pipe that the keeper watches; the lab ends with the holder all the same."""
    forking = _HOLD.replace(
        "time.sleep(600)", "import os\nif os.fork() == 0:\n    time.sleep(20)\n    os._exit(0)\n"
    )
    forking += "print('forked', flush=True)\ntime.sleep(600)\n"
    with subprocess.Popen(
        [sys.executable, "-c", forking, str(home)], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        servers = holder.stdout.readline().split()
        assert holder.stdout.readline() == "forked\n"
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text(encoding="ascii").split()
        forked = [pid for pid in children if b"lab.keeper" not in Path(f"/proc/{pid}/cmdline").read_bytes()]
        holder.kill()
        holder.wait()
        try:
            leftovers.wait_until(
                lambda: not leftovers.open_ports(servers), GONE_SECONDS, lambda: "the API server is gone"
            )
        finally:
            for pid in forked:
                os.kill(int(pid), signal.SIGKILL)

    leftovers.wait_nothing_left(home / "held", servers, GONE_SECONDS)


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda each: each.name
)
def test_command_broken_off_while_starting_leaves_nothing(home: Path, number: signal.Signals) -> None:
    """``up`` that is killed or interrupted before the lab is ready takes everything with it."""
    paths = LabPaths(home, "lab")
    with start("up", "--file", small_file(home), home=home) as up:
        wait_half_started(paths)
        up.send_signal(number)
        up.communicate(timeout=30)

    leftovers.wait_nothing_left(paths.folder, [], GONE_SECONDS)
    assert up.returncode == (-number if number == signal.SIGKILL else 128 + number)


def test_command_returns_and_the_lab_lives_until_down(home: Path) -> None:
    """``up`` returns when the lab is ready, the lab outlives it, ``down`` ends it, twice is no error."""
    up = run("up", "--file", small_file(home), home=home)
    lab = Lab.attach(home=home)
    servers = [cluster.server for cluster in lab.clusters]

    assert up.returncode == 0, up.stderr
    assert leftovers.open_ports(servers) == servers
    down = run("down", home=home)
    leftovers.wait_nothing_left(lab.paths.folder, servers, timeout_seconds=0.5)
    assert (down.returncode, down.stdout) == (0, "lab 'lab' is gone\n")
    again = run("down", home=home)
    assert (again.returncode, again.stdout) == (0, "there is no lab 'lab'; nothing to do\n")


def test_foreground_command_ends_the_lab_at_ctrl_c(home: Path) -> None:
    """``up --foreground`` stays, and ctrl-C ends the lab."""
    paths = LabPaths(home, "lab")
    with start("up", "--foreground", "--file", small_file(home), home=home) as up:
        leftovers.wait_until(paths.state_file.exists, 60, lambda: "the lab is ready")
        servers = [cluster.server for cluster in Lab.attach(home=home).clusters]
        assert up.poll() is None
        up.send_signal(signal.SIGINT)
        output, _ = up.communicate(timeout=30)

    leftovers.wait_nothing_left(paths.folder, servers, timeout_seconds=0.5)
    assert (up.returncode, output.splitlines()[-1]) == (130, "interrupted")


def test_down_ends_a_half_started_lab(home: Path) -> None:
    """``down`` while another process is still starting the lab leaves nothing, and that one says why."""
    paths = LabPaths(home, "lab")
    with start("up", "--file", small_file(home), home=home) as up:
        wait_half_started(paths)
        assert launch.down(paths)
        leftovers.wait_nothing_left(paths.folder, [], timeout_seconds=0.5)
        output, _ = up.communicate(timeout=30)

    assert up.returncode == 1
    assert "error: lab 'lab' was ended while it was starting" in output


def test_keeper_killed_takes_all_processes_with_it(home: Path) -> None:
    """When the keeper itself is killed, servers and nodes die at once; ``down`` and ``up`` clear the rest."""
    with Lab.up(WITH_NODE, name="x", home=home) as lab:
        servers = [cluster.server for cluster in lab.clusters]
        keeper = launch.keeper_process(lab.paths)
        assert keeper is not None
        keeper.signal(signal.SIGKILL)
        leftovers.wait_until(
            lambda: not leftovers.processes(lab.paths.folder),
            GONE_SECONDS,
            lambda: f"no process: {leftovers.processes(lab.paths.folder)}",
        )
        assert lab.paths.folder.exists()
        with pytest.raises(LabError, match="lab 'x' does not run"):
            Lab.attach("x", home)
        assert launch.down(lab.paths)

    leftovers.wait_nothing_left(lab.paths.folder, servers, timeout_seconds=0.5)


def test_containers_end_with_the_lab(home: Path) -> None:
    """When the keeper is killed, containers die too, and daemons that they started in another session."""
    mark = f"{random.SystemRandom().randint(10**8, 10**9)}"
    spec = {
        "nodeName": "one-cpu",
        "restartPolicy": "Never",
        "containers": [
            {"name": "c", "image": "x", "command": ["sh", "-c", f"setsid sleep {mark} & exec sleep {mark}"]}
        ],
    }
    with Lab.up(WITH_NODE, name="x", home=home) as lab:
        api = lab.cluster("one").api
        api.post("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
        leftovers.wait_until(
            lambda: len(_sleepers(mark)) == 2, 30, lambda: f"two sleepers: {_sleepers(mark)}"
        )
        keeper = launch.keeper_process(lab.paths)
        assert keeper is not None
        keeper.signal(signal.SIGKILL)
        leftovers.wait_until(
            lambda: not _sleepers(mark), GONE_SECONDS, lambda: f"no sleeper: {_sleepers(mark)}"
        )


def test_harmed_lab_leaves_nothing(home: Path) -> None:
    """Frozen nodes and servers, a proxy, and an API server that is still ending go with the killed keeper."""
    mark = f"{random.SystemRandom().randint(10**8, 10**9)}"
    container = {"name": "c", "image": "x", "command": ["sh", "-c", f"sleep {mark} & exec sleep {mark}"]}
    spec = {"nodeName": "one-cpu", "restartPolicy": "Never", "containers": [container]}
    with Lab.up(WITH_NODE, name="x", home=home) as lab:
        cluster = lab.cluster("one")
        proxy = cluster.proxy()
        cluster.api.post("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
        leftovers.wait_until(
            lambda: len(_sleepers(mark)) == 2, 30, lambda: f"two sleepers: {_sleepers(mark)}"
        )
        proxy.hold()
        cluster.node("one-cpu").freeze()
        cluster.api_server.terminate()
        cluster.api_server.start()
        cluster.scheduler.freeze()
        lab.etcd.freeze()
        keeper = launch.keeper_process(lab.paths)
        assert keeper is not None
        keeper.signal(signal.SIGKILL)
        leftovers.wait_until(
            lambda: not _sleepers(mark) and not leftovers.processes(lab.paths.folder),
            GONE_SECONDS,
            lambda: f"nothing: {_sleepers(mark)} {leftovers.processes(lab.paths.folder)}",
        )

    leftovers.wait_nothing_left(lab.paths.folder, [cluster.server, proxy.server], timeout_seconds=0.5)


def _sleepers(mark: str) -> list[str]:
    """Return pid and kernel's status line of each ``sleep`` with a mark."""
    wanted = f"sleep\0{mark}\0".encode()
    every = Path("/proc").glob("[0-9]*")
    return [
        leftovers.read(entry / "stat").decode()
        for entry in every
        if leftovers.read(entry / "cmdline") == wanted
    ]
