"""Nodes that exist in the API alone, beside process nodes. Skipped where their controller is not built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lab import LabError, build, toolchain
from tests.lab.node_support import Workspace, condition, container, job_body, pod_spec, state, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab import Cluster

pytestmark = pytest.mark.lab

SELECTOR = {"lab/node": "kwok"}


def _is_built() -> bool:
    module = build.EXTRAS["kwok"]
    chosen = toolchain.choose(toolchain.required_version(module.folder / "go.mod"), build.LOCK_FILE)
    folder = build.cache_folder() / f"{module.name}-{build.cache_key(module, chosen.version)}"
    return (folder / "kwok").is_file()


needs_kwok = pytest.mark.skipif(not _is_built(), reason="run 'python -m lab build kwok' first")


@pytest.fixture
def work(gke: Cluster) -> Iterator[Workspace]:
    """Return a namespace, and twenty KWOK nodes beside the process nodes, removed after the test."""
    names = gke.kwok.add_nodes(20, "gke-a100-80", prefix="sim")
    assert names == [f"sim-{number}" for number in range(20)] == sorted(gke.kwok.names(), key=_number)
    with Workspace.scoped(gke, "a100-1") as found:
        yield found
    gke.kwok.remove_nodes()
    gke.api.wait("/api/v1/nodes", lambda found: len(found["items"]) == 2, 30, "process nodes alone are left")


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _tolerant(**fields: Any) -> dict[str, Any]:
    limits = container("echo real", resources={"limits": {"nvidia.com/gpu": "8"}})
    return pod_spec(limits, tolerations=[{"operator": "Exists"}], **fields)


def _job(work: Workspace, name: str, pods: int, annotations: dict[str, str]) -> str:
    body = job_body(name, _tolerant(nodeSelector=SELECTOR), parallelism=pods, completions=pods)
    body["spec"]["template"]["metadata"] = {"annotations": annotations}
    return work.job(body)


def _wait_phases(work: Workspace, job: str, phases: list[str]) -> list[Any]:
    def found() -> list[Any] | None:
        pods = work.job_pods(job)
        return pods if [pod["status"].get("phase") for pod in pods] == phases else None

    pods: list[Any] = wait_for(found, 60, f"the pods of {job} are {phases}")
    return pods


@needs_kwok
def test_jobs_run_on_kwok_nodes_beside_process_nodes(work: Workspace) -> None:
    """Pods run and end as their annotations say, in time or at will, beside real ones on process nodes."""
    api = work.cluster.api
    timed = _job(work, "timed", 8, {"lab/complete-after": "2s"})
    failing = _job(work, "failing", 1, {"lab/fail-after": "1s", "lab/exit-code": "3", "lab/reason": "Crash"})
    at_will = _job(work, "at-will", 2, {})
    real = work.finish(pod_spec(container("echo real")))
    assert work.log(real["metadata"]["name"]) == "real\n"

    api.wait(timed, lambda job: condition(job, "Complete"), 60, "the Job is complete")
    failed = api.wait(failing, lambda job: condition(job, "Failed"), 60, "the Job is failed")
    assert condition(failed, "Failed")["reason"] == "BackoffLimitExceeded"
    (pod,) = _wait_phases(work, "failing", ["Failed"])
    ended = state(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (3, "Crash")

    pods = _wait_phases(work, "at-will", ["Running"] * 2)
    assert all(condition(pod, "Ready")["status"] == "True" for pod in pods)
    selector = "batch.kubernetes.io/job-name=at-will"
    assert work.cluster.kwok.finish_pods(work.namespace, selector) == 2
    api.wait(at_will, lambda job: condition(job, "Complete"), 60, "the Job is complete")


@needs_kwok
def test_deleted_pod_ends_as_on_a_node(work: Workspace) -> None:
    """The end of the containers is reported before the object goes, so a Job that waits for it goes on."""
    body = job_body("kept", _tolerant(nodeSelector=SELECTOR), podReplacementPolicy="Failed")
    body["spec"]["backoffLimit"] = 1
    job = work.job(body)
    (pod,) = _wait_phases(work, "kept", ["Running"])
    work.delete(pod["metadata"]["name"])
    work.wait_pod(pod["metadata"]["name"], lambda found: found is None, "is gone", 30)
    work.cluster.api.wait(job, lambda found: found["status"].get("failed") == 1, 30, "the end is counted")
    _wait_phases(work, "kept", ["Running"])


@needs_kwok
@pytest.mark.timeout(180)
def test_nodes_are_lost_with_the_controller_and_come_back(work: Workspace) -> None:
    """The controller renews the Leases: while it is frozen all KWOK nodes are lost, and no process node."""
    controller, api = work.cluster.kwok.controller, work.cluster.api

    def ready(status: str) -> set[str]:
        nodes = api.get("/api/v1/nodes")["items"]
        return {
            node["metadata"]["name"] for node in nodes if condition(node, "Ready").get("status") == status
        }

    names = {f"sim-{number}" for number in range(20)}
    controller.freeze()
    try:
        wait_for(lambda: ready("Unknown") == names, 60, "the KWOK nodes alone are lost")
    finally:
        controller.thaw()
    wait_for(lambda: names <= ready("True"), 60, "the KWOK nodes are back")


def test_unknown_profile_and_program_are_told(gke: Cluster) -> None:
    """A misspelt profile is refused before anything is built."""
    with pytest.raises(LabError, match=r"no profile 'gke-a100-8'\. Did you mean 'gke-a100-80'\?"):
        gke.kwok.add_nodes(1, "gke-a100-8")
    with pytest.raises(LabError, match=r"no program built on demand 'kwock'\. Did you mean 'kwok'\?"):
        build.ensure_extra("kwock", lambda _line: None)
