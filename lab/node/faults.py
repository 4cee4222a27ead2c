"""Faults of a node, played on its operating-system processes and never on API objects."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from lab.node.config import BOOT_ID_FILE
from lab.node.link import CUT, CUT_FLAG, SEEN_FILE, WHOLE
from lab.node.processes import Process, find_process, read_pid_file, shims
from lab.node.procfs import descendants

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEATH_SECONDS = 10.0
NOTICE_SECONDS = 10.0


def node_processes(root_dir: Path) -> set[Process]:
    """Everything that runs on a node now: its agent, the shims, and all that containers have started."""
    agent = read_pid_file(root_dir / "agent.pid")
    tops = {process for process in (agent, *shims(root_dir)) if process is not None and process.is_alive()}
    return _with_descendants(tops)


def power_off(root_dir: Path) -> int:
    """Cut a node's power: agent and containers die at once, daemonised grandchildren too.

    All are stopped first, so that nobody sees another one die or starts anything new. The node's next boot is
    another one. Returns how many processes died.
    """
    died = _stop_and_kill(lambda: node_processes(root_dir))
    (root_dir / BOOT_ID_FILE).unlink(missing_ok=True)
    return died


def kill_agent(root_dir: Path) -> None:
    """Kill the agent alone, as a crashed kubelet: containers live on."""
    agent = read_pid_file(root_dir / "agent.pid")
    if agent is not None:
        _kill({agent})


def partition(root_dir: Path) -> None:
    """Cut a node off: its agent neither reaches nor hears the API server; agent and containers live on."""
    (root_dir / CUT_FLAG).touch()
    _tell_agent(root_dir, CUT)


def heal(root_dir: Path) -> None:
    """Give a node its network back."""
    (root_dir / CUT_FLAG).unlink(missing_ok=True)
    _tell_agent(root_dir, WHOLE)


def _tell_agent(root_dir: Path, wanted: str) -> None:
    """Wait until the agent acts on the flag; one that is dead or stopped does when it runs again."""
    agent = read_pid_file(root_dir / "agent.pid")
    if agent is None or not agent.send(signal.SIGUSR1):
        return
    seen = root_dir / SEEN_FILE
    deadline = time.monotonic() + NOTICE_SECONDS
    while agent.is_alive() and not agent.is_stopped():
        if seen.exists() and seen.read_text(encoding="utf-8") == wanted:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"the agent (pid {agent.pid}) did not take note within {NOTICE_SECONDS:g} s that its network "
                f"is {wanted}; see {root_dir / 'agent.log'}"
            )
        time.sleep(0.01)


def freeze_agent(root_dir: Path) -> None:
    """Stop a node's agent (SIGSTOP), as a kubelet that hangs: containers live on."""
    agent = read_pid_file(root_dir / "agent.pid")
    if agent is not None:
        agent.send(signal.SIGSTOP)


def freeze(root_dir: Path) -> int:
    """Stop everything that runs on a node (SIGSTOP), as a machine that hangs; return how many processes.

    The shims of containers go on: they do nothing while those are stopped, and end them with the lab.
    """
    stopped = _stop(lambda: node_processes(root_dir))
    for path in root_dir.glob("pods/*/containers/*/shim.pid"):
        shim = read_pid_file(path)
        if shim is not None and path.with_name("started.json").exists():
            shim.send(signal.SIGCONT)
    return len(stopped)


def thaw(root_dir: Path) -> None:
    """Let everything on a node go on, whichever freeze has stopped it."""
    for process in node_processes(root_dir):
        process.send(signal.SIGCONT)


def kill_tree(top: Process) -> int:
    """Kill one process and everything below it; return how many died."""
    return _stop_and_kill(lambda: _with_descendants({top} if top.is_alive() else set()))


def end_containers(pod_dir: Path, grace_seconds: float) -> None:
    """End the containers of one pod: SIGTERM, a grace, then the kill of what is left."""
    found = [read_pid_file(path) for path in pod_dir.glob("containers/*/shim.pid")]
    alive = [shim for shim in found if shim is not None and shim.send(signal.SIGTERM)]
    deadline = time.monotonic() + grace_seconds
    while any(shim.is_alive() for shim in alive) and time.monotonic() < deadline:
        time.sleep(0.02)
    for shim in alive:
        kill_tree(shim)


def _with_descendants(tops: set[Process]) -> set[Process]:
    found = set(tops)
    for top in tops:
        below = (find_process(pid) for pid in descendants(top.pid))
        found |= {process for process in below if process is not None and process.is_alive()}
    return found


def _stop_and_kill(find: Callable[[], set[Process]]) -> int:
    """Stop processes until no new ones are found, then kill them all; return how many there were."""
    victims = _stop(find)
    _kill(victims)
    return len(victims)


def _stop(find: Callable[[], set[Process]]) -> set[Process]:
    """Stop processes until no new ones are found, and return them."""
    stopped: set[Process] = set()
    while fresh := {process for process in find() - stopped if process.send(signal.SIGSTOP)}:
        stopped |= fresh
    return stopped


def _kill(victims: set[Process]) -> None:
    """SIGKILL processes and wait until they are gone."""
    for process in victims:
        process.send(signal.SIGKILL)
    deadline = time.monotonic() + DEATH_SECONDS
    while alive := [process for process in victims if process.is_alive()]:
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"still alive {DEATH_SECONDS:.0f} s after SIGKILL: {alive}; look at their state in /proc"
            )
        time.sleep(0.01)
