"""Faults of a node and their heal, as the control plane sees them and as they are."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from lab import LabApiError, LabError, LabTimeoutError
from lab.node.processes import read_pid_file
from tests.lab.node_support import PodHistory, Workspace, condition, container, pod_spec, state, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lab import Cluster, Node

pytestmark = pytest.mark.lab

LOST_SECONDS = 30.0
BACK_SECONDS = 30.0


@pytest.fixture
def work(onprem: Cluster, spare_node: Callable[..., Node]) -> Iterator[Workspace]:
    """Return a namespace, and a node that the test may harm."""
    node = spare_node(onprem)
    with Workspace.scoped(onprem, node.name) as found:
        yield found
        node.heal()
        node.thaw()


class Beats:
    """A container that writes a byte to a file every 50 ms."""

    def __init__(self, work: Workspace, path: Path) -> None:
        self.path = path
        script = f"echo up; while :; do printf x >> {path}; sleep 0.05; done"
        self.pod = work.run(pod_spec(container(script)))
        work.wait_log(self.pod, "up")

    def count(self) -> int:
        """Count the bytes written so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def wait_more(self) -> None:
        """Wait until three more have been written."""
        before = self.count()
        wait_for(lambda: self.count() >= before + 3, 15, "the container writes on")

    def have_ended(self, node: Node) -> bool:
        """Whether the container's processes are gone: the agent alone is left."""
        return len(node.pids()) == 1


def _node(work: Workspace) -> Node:
    return work.cluster.node(work.node)


def _wait_ready(work: Workspace, status: str, seconds: float) -> dict[str, Any]:
    found = work.cluster.api.wait(
        f"/api/v1/nodes/{work.node}",
        lambda node: condition(node, "Ready").get("status") == status,
        seconds,
        f"node {work.node} is Ready={status}",
    )
    return condition(found, "Ready")


def test_partition_lets_containers_run_and_heal_ends_what_was_deleted(
    work: Workspace, tmp_path: Path
) -> None:
    """A node that is cut off is lost, its container writes on and outlives its pod's deletion until the heal.

    A new agent does not bring the network back, and the return is a transition of Ready.
    """
    node, beats = _node(work), Beats(work, tmp_path / "beats")
    before = _wait_ready(work, "True", 5)
    node.partition()
    work.delete(beats.pod, gracePeriodSeconds=0)
    work.wait_pod(beats.pod, lambda pod: pod is None, "is gone by force", 10)
    _wait_ready(work, "Unknown", LOST_SECONDS)
    node.kill_agent()
    node.start()
    wait_for(lambda: read_pid_file(node.root_dir / "agent.pid"), 10, "a new agent")
    beats.wait_more()
    assert condition(work.cluster.api.get(f"/api/v1/nodes/{node.name}"), "Ready")["status"] == "Unknown"

    node.heal()
    after = _wait_ready(work, "True", BACK_SECONDS)
    wait_for(lambda: beats.have_ended(node), 15, "what was deleted has ended")
    assert after["lastTransitionTime"] > before["lastTransitionTime"]


def test_partition_cuts_the_logs_off_and_heal_brings_them_back(work: Workspace, tmp_path: Path) -> None:
    """While a node is cut off nobody gets a log from it; what was followed before goes on after the heal."""
    node, beats = _node(work), Beats(work, tmp_path / "beats")
    talker = work.run(pod_spec(container("echo up; n=0; while :; do n=$((n+1)); echo $n; sleep 0.1; done")))
    work.wait_log(talker, "2\n")
    lines = work.follow(talker)
    next(lines)
    node.partition()
    beats.wait_more()
    # The connections that the API server has to the node are kept, so a request on one is not answered.
    quick = dataclasses.replace(work.cluster.api, timeout_seconds=2)
    with pytest.raises((TimeoutError, LabApiError)):
        quick.get(work.path("pods", talker) + "/log")
    node.heal()
    assert next(lines)
    assert "9\n" in work.wait_log(talker, "9\n")


def test_frozen_agent_loses_the_node_and_no_container(work: Workspace, tmp_path: Path) -> None:
    """A hanging agent makes its node Unknown while the container runs on; afterwards all is as it was."""
    node, beats = _node(work), Beats(work, tmp_path / "beats")
    before = state(work.pod(beats.pod))
    node.freeze_agent()
    _wait_ready(work, "Unknown", LOST_SECONDS)
    beats.wait_more()
    assert condition(work.pod(beats.pod), "Ready")["status"] == "False"
    node.thaw()
    _wait_ready(work, "True", BACK_SECONDS)
    work.wait_pod(beats.pod, lambda pod: condition(pod, "Ready")["status"] == "True", "is Ready again")
    assert state(work.pod(beats.pod)) == before


def test_frozen_node_stands_still_and_goes_on(work: Workspace, tmp_path: Path) -> None:
    """A machine that hangs loses its containers' time, not the containers."""
    node, beats = _node(work), Beats(work, tmp_path / "beats")
    beats.wait_more()
    assert node.freeze() >= 2, "the agent and the container"
    count = beats.count()
    _wait_ready(work, "Unknown", LOST_SECONDS)
    assert beats.count() == count
    node.thaw()
    beats.wait_more()
    _wait_ready(work, "True", BACK_SECONDS)
    assert "running" in state(work.pod(beats.pod))


def test_frozen_node_can_lose_its_power(work: Workspace, tmp_path: Path) -> None:
    """What hangs can be killed."""
    node, beats = _node(work), Beats(work, tmp_path / "beats")
    node.freeze()
    assert node.power_off() >= 2
    assert (node.pids(), beats.path.exists()) == ([], True)


def test_drain_evicts_and_respects_a_disruption_budget(work: Workspace) -> None:
    """A drain cordons the node, evicts its pods with the API's own reason, and obeys a disruption budget."""
    node, api = _node(work), work.cluster.api
    script = "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"
    guarded = work.run(pod_spec(container(script)), labels={"app": "guarded"})
    work.wait_log(guarded, "up")
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}
    path = work.path("poddisruptionbudgets", group="policy/v1")
    api.post(path, {"metadata": {"name": "guard"}, "spec": budget})
    api.wait(f"{path}/guard", lambda item: "disruptionsAllowed" in item.get("status", {}), 15, "is counted")

    with pytest.raises(LabTimeoutError, match=f"pod {work.namespace}/{guarded} may not be evicted: 429"):
        node.drain(timeout_seconds=1)
    assert "running" in state(work.pod(guarded))
    api.delete(f"{path}/guard")
    history = PodHistory(work, guarded, seconds=60)
    assert node.drain(timeout_seconds=30, wait=False) == [f"{work.namespace}/{guarded}"]
    *_, last = history.until_deleted()
    assert condition(last["object"], "DisruptionTarget")["reason"] == "EvictionByEvictionAPI"
    assert api.get(f"/api/v1/nodes/{node.name}")["spec"]["unschedulable"] is True
    node.uncordon()
    assert "unschedulable" not in api.get(f"/api/v1/nodes/{node.name}")["spec"]


def test_notice_is_the_taint_of_a_cloud(work: Workspace) -> None:
    """A notice is written beside other taints, once, and can be taken back."""
    node, api = _node(work), work.cluster.api

    def keys() -> set[str]:
        return {taint["key"] for taint in api.get(f"/api/v1/nodes/{node.name}")["spec"].get("taints") or ()}

    for style in ("gke", "karpenter", "gke"):
        node.notice(style)
    assert keys() == {"cloud.google.com/impending-node-termination", "karpenter.sh/disrupted"}
    node.withdraw_notice()
    assert keys() == set()
    with pytest.raises(LabError, match=r"no notice 'gkee'\. Did you mean 'gke'\? Known: "):
        node.notice("gkee")
