"""Containers that are started again as the pod's restartPolicy says, and init containers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.model.kube import Job, Pod
from airflow_gpu_placement.model.outcome import LossPolicy, Observation, OutcomeKind
from lab import NodeSpec
from lab.errors import LabApiError
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
    from lab import Lab

pytestmark = pytest.mark.lab

COUNT = "n=$(cat /keep/n 2>/dev/null || echo 0); echo $((n+1)) > /keep/n; echo run $n"
KEEP: dict[str, Any] = {"volumeMounts": [{"name": "keep", "mountPath": "/keep"}]}
VOLUMES: list[dict[str, Any]] = [{"name": "keep", "emptyDir": {}}]
BACKOFF_SECONDS = 1.0


@pytest.fixture(scope="module")
def node_name(lab: Lab) -> str:
    """Return a node whose delays are short."""
    spec = NodeSpec("restarts-1", "onprem-l40s", renew_seconds=2.0, backoff_seconds=BACKOFF_SECONDS)
    lab.cluster("onprem").add_node(spec)
    return spec.name


def _status(pod: dict[str, Any], index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = pod["status"]["containerStatuses"][index]
    return found


def _loops(pod: dict[str, Any], restarts: int = 0) -> bool:
    if not pod["status"].get("containerStatuses"):
        return False
    looping: bool = state(pod).get("waiting", {}).get("reason") == "CrashLoopBackOff"
    return looping and _status(pod)["restartCount"] >= restarts


def test_a_crash_loop_is_a_kubelet_s(work: Workspace) -> None:
    """The first restart comes at once, the next ones wait, longer each time; the product sees the end."""
    spec = pod_spec(container(f"{COUNT}; exit 3", **KEEP), volumes=VOLUMES, restartPolicy="OnFailure")
    name = work.run(spec)
    work.wait_pod(name, state, "is seen")
    history = PodHistory(work, name)
    pod = work.wait_pod(name, lambda pod: _loops(pod, 2), "waits for its third restart")
    status, uid = _status(pod), pod["metadata"]["uid"]
    assert state(pod)["waiting"]["message"] == (
        f"back-off 2s restarting failed container=main pod={name}_{work.namespace}({uid})"
    )
    assert (status["restartCount"], status["ready"], status["started"]) == (2, False, False)
    assert status["lastState"]["terminated"]["exitCode"] == 3
    assert pod["status"]["phase"] == "Running"
    assert condition(pod, "Ready")["reason"] == "ContainersNotReady"
    found = classify(Observation(job=Job(), pods=(msgspec.convert(pod, Pod),)), LossPolicy())
    assert (found.kind, found.exit_code) == (OutcomeKind.APPLICATION, 3)
    assert "2 times" in found.message
    counts = [_status(event["object"])["restartCount"] for event in history.events if _has_status(event)]
    assert counts == sorted(counts)
    work.delete(name)
    last = history.until_deleted()[-1]["object"]
    assert state(last)["terminated"]["exitCode"] == 3, "the wait ends as the end that it followed"


def test_a_restarted_container_can_still_succeed(work: Workspace) -> None:
    """OnFailure starts a command again until it succeeds; each run has a new home and the same volumes."""
    script = f"{COUNT}; ls; touch trace; test $n = 1"
    pod = work.finish(
        pod_spec(container(script, **KEEP), volumes=VOLUMES, restartPolicy="OnFailure"), "retried"
    )
    status = _status(pod)
    assert (pod["status"]["phase"], status["restartCount"]) == ("Succeeded", 1)
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert status["state"]["terminated"]["exitCode"] == 0
    assert status["lastState"]["terminated"]["containerID"] != status["containerID"]
    assert work.log("retried") == "run 1\n", "nothing of the first run lies in the home of the second"


def test_the_log_of_the_run_before(work: Workspace) -> None:
    """The parameter previous reads the log of the last ended run; there is none before the first restart."""
    script = f"{COUNT}; test $n = 1 && exec sleep 60; exit 4"
    name = work.run(pod_spec(container(script, **KEEP), volumes=VOLUMES, restartPolicy="OnFailure"))
    pod = work.wait_pod(name, lambda pod: "running" in state(pod) and _status(pod)["restartCount"], "again")
    assert _status(pod)["lastState"]["terminated"]["exitCode"] == 4
    work.wait_log(name, "run 1\n")
    assert work.log(name) == "run 1\n"
    assert work.log(name, previous=True) == "run 0\n"
    fresh = work.run(pod_spec(container("sleep 60")))
    work.running(fresh)
    with pytest.raises(LabApiError, match=f'previous terminated container "main" in pod "{fresh}" not found'):
        work.log(fresh, previous=True)


def test_a_waiting_container_shows_the_log_of_its_last_run(work: Workspace) -> None:
    """While it waits for a restart, both requests read the run that has ended."""
    name = work.run(
        pod_spec(container(f"{COUNT}; exit 1", **KEEP), volumes=VOLUMES, restartPolicy="OnFailure")
    )
    work.wait_pod(name, lambda pod: _loops(pod, 2), "waits for its third restart")
    assert work.log(name) == work.log(name, previous=True) == "run 2\n"


def test_always_starts_again_what_succeeded(work: Workspace) -> None:
    """RestartPolicy Always restarts a container that ended well; the pod is never over."""
    name = work.run(pod_spec(container("true"), restartPolicy="Always"))
    pod = work.wait_pod(name, lambda pod: _loops(pod, 1), "loops")
    assert _status(pod)["lastState"]["terminated"]["exitCode"] == 0
    assert pod["status"]["phase"] == "Running"


def test_a_sidecar_is_restarted_alone(work: Workspace) -> None:
    """A container that crashes beside a running one is started again; the other keeps its first run."""
    main = container("until [ -f /keep/stop ]; do sleep 0.05; done; echo done", **KEEP)
    side = container(f"{COUNT}; test $n = 2 && touch /keep/stop; exit $((2-n))", name="side", **KEEP)
    pod = work.finish(pod_spec(main, side, volumes=VOLUMES, restartPolicy="OnFailure"))
    assert pod["status"]["phase"] == "Succeeded"
    assert [_status(pod, index)["restartCount"] for index in (0, 1)] == [0, 2]
    assert work.log(pod["metadata"]["name"], container="side") == "run 2\n"


def test_a_job_counts_the_restarts(work: Workspace) -> None:
    """A real Job with OnFailure ends the pod when its container was restarted too often."""
    spec = pod_spec(
        container("exit 2"), restartPolicy="OnFailure", nodeSelector={"kubernetes.io/hostname": work.node}
    )
    path = work.job(job_body("loops", spec, backoffLimit=1))
    job = work.cluster.api.wait(path, lambda job: condition(job, "Failed"), 30, "Job loops fails")
    assert condition(job, "Failed")["reason"] == "BackoffLimitExceeded"
    assert job["status"]["failed"] == 1
    wait_for(lambda: not work.job_pods("loops"), 15, "its pod is gone")


def test_a_restart_survives_the_agent(work: Workspace) -> None:
    """An agent that starts anew takes the running run over, with its count and the log of the run before."""
    script = f"{COUNT}; test $n = 1 || exit 9; until [ -f /keep/go ]; do sleep 0.05; done"
    name = work.run(pod_spec(container(script, **KEEP), volumes=VOLUMES, restartPolicy="OnFailure"))
    pod = work.wait_pod(name, lambda pod: "running" in state(pod) and _status(pod)["restartCount"], "again")
    node = work.cluster.node(work.node)
    node.kill_agent()
    (node.root_dir / "pods" / pod["metadata"]["uid"] / "volumes" / "keep" / "go").touch()
    node.start()
    pod = work.ended(name, 30)
    assert (pod["status"]["phase"], _status(pod)["restartCount"]) == ("Succeeded", 1)
    assert _status(pod)["lastState"]["terminated"]["exitCode"] == 9
    assert work.log(name, previous=True) == "run 0\n"


def test_init_containers_run_before_all_others(work: Workspace) -> None:
    """They run one after the other, are tried again where the policy says so, and have logs."""
    first = container(f"{COUNT}; echo first >> /keep/order; test $n = 1", name="first", **KEEP)
    second = container("echo second >> /keep/order", name="second", **KEEP)
    main = container("cat /keep/order", **KEEP)
    spec = pod_spec(main, initContainers=[first, second], volumes=VOLUMES, restartPolicy="OnFailure")
    name = work.run(spec)
    pod = work.ended(name)
    assert work.log(name) == "first\nfirst\nsecond\n"
    assert work.log(name, container="first") == "run 1\n"
    inits = pod["status"]["initContainerStatuses"]
    assert [each["state"]["terminated"]["exitCode"] for each in inits] == [0, 0]
    assert [each["restartCount"] for each in inits] == [1, 0]
    assert pod["status"]["phase"] == "Succeeded"


def test_a_failed_init_container_is_the_end(work: Workspace) -> None:
    """With restartPolicy Never the pod fails, and its containers never start."""
    init = container("exit 5", name="init")
    pod = work.finish(pod_spec(container("true"), initContainers=[init]))
    assert pod["status"]["phase"] == "Failed"
    assert state(pod) == {"waiting": {"reason": "PodInitializing"}}
    assert pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
    assert condition(pod, "Initialized")["message"] == "containers with incomplete status: [init]"
    found = classify(Observation(job=Job(), pods=(msgspec.convert(pod, Pod),)), LossPolicy())
    assert (found.kind, found.exit_code) == (OutcomeKind.APPLICATION, 5)


def test_a_deletion_ends_init_containers_too(work: Workspace) -> None:
    """A pod that is deleted while it initialises ends within its grace."""
    init = container("sleep 60", name="init")
    name = work.run(pod_spec(container("true"), initContainers=[init]))
    work.wait_pod(name, lambda pod: "running" in _init_state(pod), "the init container runs")
    work.delete(name, gracePeriodSeconds=1)
    work.wait_pod(name, lambda pod: pod is None, "is gone", 10)


def test_delays_grow(work: Workspace) -> None:
    """The waits between the runs of a crash loop double, by the times that the pod shows."""
    name = work.run(pod_spec(container("exit 1"), restartPolicy="OnFailure"))
    work.wait_pod(name, state, "is seen")
    history = PodHistory(work, name)
    wait_for(lambda: len(_messages(history)) >= 3, 15, "three waits")
    assert [text.split()[1] for text in _messages(history)[:3]] == ["1s", "2s", "4s"]
    work.delete(name)
    history.until_deleted()


def _init_state(pod: dict[str, Any]) -> dict[str, Any]:
    statuses = pod["status"].get("initContainerStatuses") or [{"state": {}}]
    found: dict[str, Any] = statuses[0]["state"]
    return found


def _has_status(event: dict[str, Any]) -> bool:
    return event["type"] != "BOOKMARK" and bool(event["object"]["status"].get("containerStatuses"))


def _messages(history: PodHistory) -> list[str]:
    states = [state(event["object"]) for event in history.events if _has_status(event)]
    found = [each["waiting"]["message"] for each in states if each.get("waiting", {}).get("message")]
    return [text for text, _ in itertools.groupby(found)]
