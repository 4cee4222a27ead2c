"""Nodes that are lost and come back, as the control plane sees them and as they are."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from lab.node import faults
from tests.lab.node_support import (
    PodHistory,
    Workspace,
    condition,
    container,
    job_body,
    pod_spec,
    state,
    wait_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab import Cluster, Lab, Node

pytestmark = pytest.mark.lab

UNREACHABLE = "node.kubernetes.io/unreachable"
TRAINING = "echo up; while :; do sleep 0.2; done"


def _taints(node: Any) -> dict[tuple[str, str], Any]:
    return {(taint["key"], taint["effect"]): taint for taint in node["spec"].get("taints") or ()}


def _tolerant(node: str, script: str, seconds: int) -> dict[str, Any]:
    toleration = {
        "key": UNREACHABLE,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": seconds,
    }
    where = {"kubernetes.io/hostname": node}
    return pod_spec(container(script), nodeSelector=where, tolerations=[toleration])


def _running_pod(work: Workspace, job: str) -> str:
    def found() -> str | None:
        pods = [pod for pod in work.job_pods(job) if "running" in state(pod)]
        return pods[0]["metadata"]["name"] if pods else None

    name: str = wait_for(found, 20, f"a pod of Job {job} runs")
    work.wait_log(name, "up")
    return name


def test_power_off_kills_all(onprem: Cluster, spare_node: Callable[..., Node], tmp_path: Path) -> None:
    """A power cut ends the agent, the containers and grandchildren that had called setsid, at once."""
    node = spare_node(onprem)
    with Workspace.scoped(onprem, node.name) as work:
        beats = tmp_path / "beats"
        daemon = f"(setsid sh -c 'while :; do echo x >> {beats}; sleep 0.05; done' &); {TRAINING}"
        for number in range(2):
            work.wait_log(work.run(pod_spec(container(daemon)), f"p{number}"), "up")
        pids = node.pids()
        assert len(pids) >= 1 + 2 * 3, "the agent, two shims, two shells, two daemons"
        assert node.power_off() >= len(pids) - 4, "short-lived sleeps come and go"
        assert node.pids() == []
        size = beats.stat().st_size
        time.sleep(0.3)  # long enough for several beats
        assert beats.stat().st_size == size
        assert state(work.pod("p0")).get("running"), "the API server knows nothing of it yet"


@pytest.mark.timeout(240)
def test_lost_and_reclaimed_nodes(lab: Lab, onprem: Cluster, spare_node: Callable[..., Node]) -> None:
    """The whole story of a lost node that comes back, and of another whose object is deleted."""
    grace = lab.spec.node_monitor_grace_seconds
    lost, reclaimed = spare_node(onprem), spare_node(onprem)
    with Workspace.scoped(onprem, lost.name) as work:
        job = work.job(job_body("lost", _tolerant(lost.name, TRAINING, 2)))
        spot = work.job(job_body("spot", _tolerant(reclaimed.name, TRAINING, 600)))
        name, spot_name = _running_pod(work, "lost"), _running_pod(work, "spot")
        history = PodHistory(work, spot_name, seconds=140)
        reclaimed.power_off()
        reclaimed.delete_object()
        deleted_at = time.monotonic()
        lost.power_off()
        _watch_the_loss(work, name, grace)
        _watch_the_job(work, job, name)
        lost.start()
        work.wait_pod(name, lambda pod: pod is None, "is gone after its node's return", 30)
        failed = onprem.api.wait(job, lambda job: condition(job, "Failed"), 10, "Job lost is Failed")
        assert condition(failed, "Failed")["reason"] == "BackoffLimitExceeded"
        _watch_the_reclaim(history, deleted_at)
        onprem.api.wait(spot, lambda job: condition(job, "Failed"), 10, "Job spot is Failed")


def _watch_the_loss(work: Workspace, name: str, grace: float) -> None:
    """Ready turns Unknown after the grace, taints follow, and the pod is evicted after its toleration."""
    api, path, started = work.cluster.api, f"/api/v1/nodes/{work.node}", time.monotonic()
    node = api.wait(
        path, lambda node: condition(node, "Ready")["status"] == "Unknown", grace + 10, "is Unknown"
    )
    assert grace - 3 < time.monotonic() - started < grace + 8  # the last renewal was up to 2 s before
    assert condition(node, "Ready")["reason"] == "NodeStatusUnknown"
    tainted = api.wait(
        path, lambda node: (UNREACHABLE, "NoExecute") in _taints(node), 25, "is tainted NoExecute"
    )
    tainted_at = time.monotonic()
    assert (UNREACHABLE, "NoSchedule") in _taints(tainted)
    pod = work.wait_pod(name, lambda pod: "deletionTimestamp" in pod["metadata"], "is evicted", 20)
    assert 1 < time.monotonic() - tainted_at < 6, "after its toleration of 2 s"
    assert condition(pod, "DisruptionTarget")["reason"] == "DeletionByTaintManager"
    assert condition(pod, "Ready")["status"] == "False"
    assert pod["status"]["phase"] == "Running"


def _watch_the_job(work: Workspace, path: str, name: str) -> None:
    """See that the Job knows that it will fail, while its pod stays Terminating and it is not Failed."""
    job = work.cluster.api.wait(path, lambda job: condition(job, "FailureTarget"), 10, "FailureTarget")
    assert condition(job, "FailureTarget")["reason"] == "BackoffLimitExceeded"
    time.sleep(4)  # more than the pod's grace of 2 s: nothing may happen now
    job, pod = work.cluster.api.get(path), work.pod(name)
    assert not condition(job, "Failed")
    assert (job["status"]["failed"], job["status"]["terminating"]) == (1, 1)
    assert pod["status"]["phase"] == "Running"
    assert "running" in state(pod)


def _watch_the_reclaim(history: PodHistory, deleted_at: float) -> None:
    """PodGC fails and removes the pod of a node that does not exist, and leaves its containers running."""
    events = history.until_deleted()
    # It looks every 20 s, and gives a missing node 40 s from its first look.
    assert time.monotonic() - deleted_at > 35
    last = events[-1]["object"]
    assert last["status"]["phase"] == "Failed"
    assert condition(last, "DisruptionTarget")["reason"] == "DeletionByPodGC"
    assert condition(last, "DisruptionTarget")["message"] == "PodGC: node no longer exists"
    assert "running" in state(last), "nobody has seen the container's end"


def test_a_deleted_node_stays_away(onprem: Cluster, spare_node: Callable[..., Node]) -> None:
    """An agent whose Node object is deleted does not register again; the next agent does."""
    node = spare_node(onprem, renew_seconds=0.5)
    lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{node.name}"
    assert onprem.api.get(lease)["spec"]["leaseDurationSeconds"] == 2
    node.delete_object()
    onprem.api.wait(lease, lambda lease: lease is None, 10, "the node's Lease is collected")
    time.sleep(1.5)  # three renewals
    assert not onprem.api.get("/api/v1/nodes", fieldSelector=f"metadata.name={node.name}")["items"]
    assert len(faults.node_processes(node.root_dir)) == 1, "the agent lives"
    node.kill_agent()
    node.start()
    path = f"/api/v1/nodes/{node.name}"
    onprem.api.wait(path, lambda item: condition(item, "Ready").get("status") == "True", 10, "registers")


def test_heartbeats_are_no_transitions(onprem: Cluster) -> None:
    """Lease and Ready are renewed again and again while the transition time stays."""
    path = "/api/v1/nodes/l40s-1"
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/l40s-1"
    before, renewed = condition(onprem.api.get(path), "Ready"), onprem.api.get(lease)["spec"]["renewTime"]
    after = onprem.api.wait(
        path,
        lambda node: condition(node, "Ready")["lastHeartbeatTime"] != before["lastHeartbeatTime"],
        10,
        "has a new heart-beat",
    )
    assert condition(after, "Ready")["lastTransitionTime"] == before["lastTransitionTime"]
    onprem.api.wait(lease, lambda item: item["spec"]["renewTime"] > renewed, 10, "the Lease is renewed")
    assert len(renewed.partition(".")[2]) == len("123456Z"), "renewTime is in microseconds"


def test_an_agent_restart_is_no_loss(onprem: Cluster, spare_node: Callable[..., Node]) -> None:
    """A short absence of the agent leaves the pod, its start time and its GPUs as they were."""
    node = spare_node(onprem)
    with Workspace.scoped(onprem, node.name) as work:
        held = container("echo up; exec sleep 60", resources={"limits": {"nvidia.com/gpu": "6"}})
        name = work.run(pod_spec(held))
        work.wait_log(name, "up")
        before = work.pod(name)
        node.kill_agent()
        node.start()
        refused = work.finish(pod_spec(container("true", resources={"limits": {"nvidia.com/gpu": "3"}})))
        assert refused["status"]["reason"] == "UnexpectedAdmissionError"
        after = work.pod(name)
        assert state(after) == state(before)
        times = [condition(pod, "Ready")["lastTransitionTime"] for pod in (before, after)]
        assert times[0] == times[1]


def test_power_loss_ends_containers_for_good(onprem: Cluster, spare_node: Callable[..., Node]) -> None:
    """A node that comes back after a power cut reports its containers as ended, exit code 255."""
    node = spare_node(onprem)
    with Workspace.scoped(onprem, node.name) as work:
        name = work.run(pod_spec(container(TRAINING)))
        work.wait_log(name, "up")
        node.power_off()
        node.start()
        pod = work.ended(name, 20)
        assert pod["status"]["phase"] == "Failed"
        ended = state(pod)["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (255, "Unknown")
        assert work.log(name).startswith("up\n"), "the log is still on the node's disk"


def test_an_api_server_outage_stops_nothing(gke: Cluster, spare_node: Callable[..., Node]) -> None:
    """Containers run on and end while the API server is down; the node reports all of it afterwards."""
    node = spare_node(gke)
    with Workspace.scoped(gke, node.name) as work:
        name = work.run(pod_spec(container("echo up; sleep 3; echo done; exit 6")))
        dropped = work.run(pod_spec(container("echo up; exec sleep 60")))
        for pod_name in (name, dropped):
            work.wait_log(pod_name, "up")
        gke.api_server.kill()
        agent = len(node.pids())
        time.sleep(3.5)  # the first pod ends meanwhile
        assert 0 < len(node.pids()) < agent
        gke.api_server.start()
        pod = work.ended(name, 30)
        assert state(pod)["terminated"]["exitCode"] == 6
        assert work.log(name) == "up\ndone\n"
        assert "running" in state(work.pod(dropped))
        work.delete(dropped, gracePeriodSeconds=1)
        work.wait_pod(dropped, lambda pod: pod is None, "is gone: the node watches again")
