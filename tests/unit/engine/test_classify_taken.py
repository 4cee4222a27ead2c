"""Pods that were taken away, refused, replaced or stopped: whose doing it was, and when."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.engine.disruptions import stopped_early
from airflow_gpu_placement.model.kube import Pod
from airflow_gpu_placement.model.outcome import CompletionCheck, LossPolicy, Observation, OutcomeKind
from tests.unit.engine.remote_jobs import RUNNING, disrupted, ended, failed, job, node, pod, seen

POLICY = LossPolicy()
APPLICATION, INFRASTRUCTURE = OutcomeKind.APPLICATION, OutcomeKind.INFRASTRUCTURE
NOT_DONE = CompletionCheck(available=True, says_done=False)


def by_queue(reason: str) -> dict[str, str]:
    """Build the condition that Kueue puts on a pod before it deletes it."""
    return {**disrupted(reason), "type": "TerminationTarget"}


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("WorkloadEvictedDueToPreempted", "QueuePreempted"),
        ("WorkloadEvictedDueToPodsReadyTimeout", "QueueEvicted"),
        ("WorkloadEvicted", "QueueEvicted"),
        ("NoMatchingWorkload", "QueueEvicted"),
    ],
)
def test_a_queue_marks_the_pods_that_it_takes_away(reason: str, cause: str) -> None:
    """An exit by SIGKILL after that is the queue's doing."""
    outcome = classify(seen(failed(137, conditions=[by_queue(reason)])), POLICY)
    assert (outcome.kind, outcome.cause, outcome.ambiguous) == (INFRASTRUCTURE, cause, False)


@pytest.mark.parametrize(("at", "kind"), [("09:59:29", INFRASTRUCTURE), ("09:59:00", APPLICATION)])
def test_an_end_just_before_its_announcement_is_its_effect(at: str, kind: OutcomeKind) -> None:
    """A node and a scheduler have different clocks; half a minute is no matter of clocks."""
    taken = failed(137, at=at, conditions=[disrupted("PreemptionByScheduler", "09:59:30")])
    assert classify(seen(taken), POLICY).kind is kind


@pytest.mark.parametrize(
    ("pod_fields", "why"),
    [
        ({"conditions": [disrupted("TerminationByKubelet")]}, "TerminationByKubelet"),
        ({"conditions": [by_queue("WorkloadEvictedDueToPreempted")]}, "WorkloadEvictedDueToPreempted"),
        ({"reason": "Terminated"}, "Terminated"),
        ({"deleting": True}, "it was deleted"),
        ({}, ""),
    ],
)
def test_an_exit_0_of_a_pod_that_is_taken_away_is_doubted(pod_fields: dict[str, Any], why: str) -> None:
    """A program that answers SIGTERM with 0 looks complete: it is said aloud, and its own check decides."""
    done = pod(ended(0, "Completed"), phase="Succeeded", **pod_fields)
    assert stopped_early(done) == why
    observation = seen(done, of=job(("Complete", "CompletionsReached")))
    outcome = classify(observation, POLICY)
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert (f"({why})" in outcome.warning) is bool(why)
    doubted = classify(msgspec.structs.replace(observation, completion=NOT_DONE), POLICY)
    assert doubted.cause == ("EndedEarly" if why else "NotDone")


def test_a_cleaned_up_pod_had_ended_long_before() -> None:
    """What is deleted after it has ended was not ended by that; the pod's own grace counts."""
    done = pod(ended(0, "Completed", at="09:59:00"), phase="Succeeded", deleting=True)
    assert stopped_early(done) == ""
    metadata = msgspec.structs.replace(done.metadata, deletion_grace_period_seconds=120)
    assert stopped_early(msgspec.structs.replace(done, metadata=metadata)) == "it was deleted"


@pytest.mark.parametrize(
    "reason",
    [
        "AppArmor",
        "SysctlForbidden",
        "PodFeatureUnsupported",
        "PodLevelResourcesNotSupported",
        "SupplementalGroupsPolicyNotSupported",
        "VolumeAttachmentLimitExceeded",
        "TaintToleration",
        "UnknownReason",
    ],
)
def test_a_pod_that_a_node_cannot_admit_never_ran(reason: str) -> None:
    """It may be tried elsewhere at once."""
    outcome = classify(seen(pod(phase="Failed", reason=reason)), POLICY)
    assert (outcome.kind, outcome.cause, outcome.never_started) == (INFRASTRUCTURE, "RefusedByNode", True)


def test_a_node_under_pressure_refuses_at_its_door() -> None:
    """The reason is that of an eviction, but nothing ever ran."""
    message = "Pod The node had condition: [DiskPressure]. "
    outcome = classify(seen(pod(phase="Failed", reason="Evicted", message=message)), POLICY)
    assert (outcome.cause, outcome.never_started) == ("NodePressure", True)


def test_a_node_preempts_for_a_critical_pod() -> None:
    """The node's own condition does not hide that."""
    away = failed(137, reason="Preempting", conditions=[disrupted("TerminationByKubelet")])
    assert classify(seen(away), POLICY).cause == "Preempted"


@pytest.mark.parametrize(
    ("memory", "pressure", "cause"),
    [
        (None, ("MemoryPressure",), "NodePressure"),
        ("64Gi", ("MemoryPressure",), "Killed"),
        (None, ("DiskPressure",), "Killed"),
    ],
)
def test_a_bare_kill_on_a_node_without_memory(
    memory: str | None, pressure: tuple[str, ...], cause: str
) -> None:
    """A pod with no limit of its own was killed for the node's sake, perhaps; the node is not avoided."""
    observation = seen(failed(137, memory=memory), nodes=[node(pressure=pressure)])
    outcome = classify(observation, POLICY)
    assert (outcome.cause, outcome.ambiguous, outcome.nodes) == (cause, True, ())


def test_a_rule_of_the_job_tells_that_its_pod_was_taken_away() -> None:
    """The pod is gone; the Job's controller has written which rule it matched."""
    said = "Pod train/w-0 has condition DisruptionTarget matching FailJob rule at index 0"
    outcome = classify(seen(of=job(("Failed", "PodFailurePolicy", said))), POLICY)
    assert (outcome.kind, outcome.cause, outcome.ambiguous) == (INFRASTRUCTURE, "Disrupted", False)


@pytest.mark.parametrize(
    ("at", "culprit"),
    [pytest.param("10:06:00", "w-1", id="six minutes"), pytest.param("10:30:00", "w-0", id="half an hour")],
)
def test_a_node_is_given_up_minutes_after_its_peers_have_noticed(at: str, culprit: str) -> None:
    """A cluster waits for a silent node; a collective breaks at once."""
    lost = pod(
        ended(137, "ContainerStatusUnknown", at=None),
        phase="Failed",
        index=1,
        conditions=[disrupted("DeletionByTaintManager", at)],
    )
    outcome = classify(seen(failed(1, at="10:00:20"), lost), POLICY)
    assert outcome.pod == culprit


def stuck_and_replaced(backoff_limit: int) -> Observation:
    """Observe a pod that is stuck on a dead node, and the one that the Job has made for it."""
    stuck = pod(RUNNING, node="dead", deleting=True, conditions=[disrupted("DeletionByTaintManager")])
    fresh = pod(RUNNING, node="n2")
    fresh = msgspec.structs.replace(
        fresh, metadata=msgspec.structs.replace(fresh.metadata, name="w-0-again", uid="uid-again")
    )
    nodes = [node("dead", ready="Unknown", ready_seconds=900.0), node("n2")]
    return seen(stuck, fresh, of=job(backoff_limit=backoff_limit), nodes=nodes)


def test_a_pod_that_its_job_has_replaced_decides_nothing() -> None:
    """A Job that makes new pods goes on; one that makes none has lost it."""
    assert classify(stuck_and_replaced(2), POLICY).kind is OutcomeKind.RUNNING
    assert classify(stuck_and_replaced(0), POLICY).cause == "NodeLost"


@pytest.mark.parametrize(
    "observation",
    [
        pytest.param(seen(failed(143, conditions=[disrupted("PreemptionByScheduler")])), id="preempted"),
        pytest.param(seen(pod(RUNNING), nodes=[node(exists=False)]), id="its node is gone"),
        pytest.param(
            seen(pod({"waiting": {"reason": "ErrImageNeverPull", "message": ""}}, phase="Pending")),
            id="its image is missing",
        ),
    ],
)
def test_a_loss_of_what_airflow_wants_to_end_is_that_end(observation: Observation) -> None:
    """Nothing is placed again for it."""
    outcome = classify(msgspec.structs.replace(observation, cancelled=True), POLICY)
    assert (outcome.kind, outcome.cause) == (OutcomeKind.CANCELLED, "CancelledByAirflow")


def two_containers(main: dict[str, Any], beside: dict[str, Any], phase: str = "Running") -> Pod:
    """Build a pod of somebody else's: its names say nothing, and one of its containers asks for GPUs."""
    gpus = {"limits": {"nvidia.com/gpu": "8"}}
    return msgspec.convert(
        {
            "metadata": {"name": "w-0", "uid": "uid-0"},
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "trainer", "resources": gpus}, {"name": "proxy"}],
            },
            "status": {
                "phase": phase,
                "containerStatuses": [{"name": "proxy", "state": beside}, {"name": "trainer", "state": main}],
            },
        },
        Pod,
    )


def test_the_container_with_the_gpus_is_the_one_that_trains() -> None:
    """Where no container has the name of one that trains, others decide nothing all the same."""
    assert classify(seen(two_containers(RUNNING, ended(1))), POLICY).kind is OutcomeKind.RUNNING
    outcome = classify(seen(two_containers(ended(137, "OOMKilled"), RUNNING)), POLICY)
    assert (outcome.cause, "trainer" in outcome.message) == ("OOMKilled", True)
