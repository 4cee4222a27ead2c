"""Infrastructure or application: one row of the decision table after the other, top to bottom.

A row may have several lines where it names several things. The last row is about what follows.
"""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.engine.next_step import Prospects, next_step
from airflow_gpu_placement.model.attempt import AttemptRecord
from airflow_gpu_placement.model.kube import Condition
from airflow_gpu_placement.model.kueue import Workload, WorkloadStatus
from airflow_gpu_placement.model.outcome import LossPolicy, NextAction, Observation, Outcome, OutcomeKind
from tests.unit.engine.remote_jobs import RUNNING, disrupted, ended, failed, job, node, pod, seen, waiting

APPLICATION, INFRASTRUCTURE = OutcomeKind.APPLICATION, OutcomeKind.INFRASTRUCTURE
CONFIGURATION, RUN = OutcomeKind.CONFIGURATION, OutcomeKind.RUNNING
QUEUE, UNKNOWN = OutcomeKind.QUEUE, OutcomeKind.UNKNOWN

DISRUPTIONS = (
    "PreemptionByScheduler",
    "DeletionByTaintManager",
    "EvictionByEvictionAPI",
    "DeletionByPodGC",
    "TerminationByKubelet",
    "DeletionByDeviceTaintManager",
    "AReasonOfTomorrow",
)
REFUSALS = (
    "UnexpectedAdmissionError",
    "OutOfnvidia.com/gpu",
    "OutOfcpu",
    "OutOfpods",
    "NodeAffinity",
    "Preempting",
    "InvalidNodeInfo",
    "TopologyAffinityError",
    "PodOSNotSupported",
)


def row(number: int, observation: Observation, kind: OutcomeKind, cause: str, **flags: Any) -> Any:
    """Build one line of the table."""
    return pytest.param(observation, kind, cause, flags, id=f"row {number}: {cause}")


def evicted(reason: str) -> Workload:
    """Build a workload that its queue evicted."""
    return Workload(
        status=WorkloadStatus(conditions=(Condition(type="Evicted", status="True", reason=reason),))
    )


def unscheduled(reason: str) -> Observation:
    """Observe a pod without a node."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    return seen(pod(node="", phase="Pending", conditions=[condition]))


def pulling(reason: str, message: str) -> Observation:
    """Observe a pod that waits for its image."""
    return seen(pod(waiting(reason, message), phase="Pending"))


def unhealthy(code: int) -> Observation:
    """Observe a pod that failed with a device that its node calls unhealthy."""
    return seen(failed(code, devices=[{"resourceID": "GPU-7", "health": "Unhealthy"}]))


ROWS = [
    *(
        row(1, seen(failed(137, conditions=[disrupted(reason)])), INFRASTRUCTURE, cause)
        for reason, cause in zip(
            DISRUPTIONS,
            (
                "Preempted",
                "NodeTainted",
                "Evicted",
                "NodeGone",
                "NodePressure",
                "DeviceFault",
                "AReasonOfTomorrow",
            ),
            strict=True,
        )
    ),
    row(2, seen(failed(137), nodes=[node(exists=False)]), INFRASTRUCTURE, "NodeGone", ambiguous=False),
    row(2, seen(failed(1), nodes=[node(ready="Unknown")]), INFRASTRUCTURE, "NodeNotReady", ambiguous=True),
    row(2, seen(failed(143), nodes=[node(ready="False")]), INFRASTRUCTURE, "NodeNotReady", ambiguous=False),
    row(2, seen(failed(137), nodes=[node(out_of_service=True)]), INFRASTRUCTURE, "NodeLost"),
    row(
        2, seen(failed(137), nodes=[node(leaving="its cloud takes it back")]), INFRASTRUCTURE, "NodeShutdown"
    ),
    *(
        row(3, seen(failed(143, reason=reason)), INFRASTRUCTURE, "NodeShutdown")
        for reason in ("Terminated", "NodeShutdown", "Shutdown")
    ),
    *(
        row(4, seen(pod(phase="Failed", reason=reason)), INFRASTRUCTURE, cause, never_started=True)
        for reason, cause in zip(
            REFUSALS,
            ("DeviceFault", *["RefusedByNode"] * 4, "Preempted", *["RefusedByNode"] * 3),
            strict=True,
        )
    ),
    row(5, seen(of=job(suspend=True), workload=evicted("Preempted")), QUEUE, "QueuePreempted", final=False),
    row(6, seen(failed(137, "OOMKilled", memory="64Gi")), APPLICATION, "OOMKilled", ambiguous=False),
    row(
        6,
        seen(failed(137, "OOMKilled"), nodes=[node(pressure=("MemoryPressure",))]),
        INFRASTRUCTURE,
        "NodePressure",
        ambiguous=True,
    ),
    row(7, seen(failed(137), nodes=[node()]), APPLICATION, "Killed", ambiguous=True),
    row(
        8,
        seen(
            failed(137, reason="Evicted", message="Pod ephemeral local storage usage exceeds the total limit")
        ),
        APPLICATION,
        "EphemeralStorageLimit",
    ),
    row(
        8,
        seen(failed(137, reason="Evicted", message="The node was low on resource: memory.")),
        INFRASTRUCTURE,
        "NodePressure",
        ambiguous=False,
    ),
    row(
        8,
        seen(
            failed(
                137,
                reason="Evicted",
                message=(
                    "The node was low on resource: memory. Container main was using 60Gi, request is 8Gi, "
                    "has larger consumption of memory."
                ),
            )
        ),
        INFRASTRUCTURE,
        "NodePressure",
        ambiguous=True,
    ),
    row(9, seen(failed(143, deleting=True)), INFRASTRUCTURE, "PodDeleted"),
    row(9, seen(failed(143, at="09:59:00", index=0), failed(7, index=1)), APPLICATION, "Error", pod="w-1"),
    row(10, seen(failed(137, "ContainerStatusUnknown", at=None)), INFRASTRUCTURE, "ContainerStatusUnknown"),
    row(11, seen(pod(RUNNING), vanished=frozenset({"uid-0"})), UNKNOWN, "PodGone", final=False),
    row(11, seen(pod(RUNNING), gone=True), UNKNOWN, "JobGone", final=True),
    row(
        11,
        seen(pod(RUNNING), vanished=frozenset({"uid-0"}), nodes=[node(exists=False)]),
        INFRASTRUCTURE,
        "NodeGone",
    ),
    row(12, seen(failed(143, reason="DeadlineExceeded")), APPLICATION, "DeadlineExceeded"),
    row(12, seen(failed(143), of=job(("Failed", "DeadlineExceeded"))), APPLICATION, "DeadlineExceeded"),
    row(13, pulling("ErrImagePull", "manifest unknown"), CONFIGURATION, "ImageNotFound"),
    row(13, pulling("ImagePullBackOff", "401 Unauthorized"), CONFIGURATION, "ImagePullDenied"),
    row(13, pulling("InvalidImageName", ""), CONFIGURATION, "InvalidImageName"),
    row(13, pulling("ErrImageNeverPull", ""), CONFIGURATION, "ErrImageNeverPull"),
    row(13, pulling("ErrImagePull", "429 toomanyrequests"), RUN, "ErrImagePull"),
    row(13, pulling("ErrImagePull", "net/http: TLS handshake timeout"), RUN, "ErrImagePull"),
    row(13, pulling("ErrImagePull", "received unexpected HTTP status: 503"), RUN, "ErrImagePull"),
    row(14, pulling("CreateContainerConfigError", 'secret "s" not found'), CONFIGURATION, "SecretMissing"),
    row(15, pulling("RunContainerError", "nvidia-container-cli: nvml error"), INFRASTRUCTURE, "DeviceFault"),
    row(15, pulling("CreateContainerError", "executable file not found"), APPLICATION, "StartError"),
    row(15, seen(failed(128, "StartError")), INFRASTRUCTURE, "StartError", ambiguous=True),
    row(16, pulling("ContainerCreating", ""), RUN, ""),
    row(17, unscheduled("Unschedulable"), RUN, "Unschedulable"),
    row(17, unscheduled("SchedulingGated"), RUN, "SchedulingGated"),
    row(17, unscheduled("SchedulerError"), RUN, "SchedulerError"),
    row(
        18,
        seen(*(failed(1, index=index) for index in range(4)), nodes=[node()]),
        APPLICATION,
        "Error",
        ambiguous=False,
    ),
    row(
        19, seen(failed(1), nodes=[node(faults=("XIDErrors",))]), INFRASTRUCTURE, "DeviceFault", nodes=("n1",)
    ),
    row(19, unhealthy(1), INFRASTRUCTURE, "DeviceFault", nodes=("n1",), ambiguous=True),
    row(
        20,
        seen(
            *(failed(134, index=index, at="10:00:10") for index in range(3)),
            failed(137, index=3, at="10:00:20", conditions=[disrupted("EvictionByEvictionAPI", "10:00:00")]),
        ),
        INFRASTRUCTURE,
        "Evicted",
        pod="w-3",
    ),
    row(
        20,
        seen(
            *(failed(134, index=index) for index in range(4)),
            log_tail=("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)",),
        ),
        APPLICATION,
        "Error",
        ambiguous=True,
    ),
    *(
        row(21, seen(failed(code), nodes=[node()]), APPLICATION, "Error", ambiguous=True)
        for code in (139, 135, 132, 136)
    ),
]


@pytest.mark.parametrize(("observation", "kind", "cause", "flags"), ROWS)
def test_a_row_of_the_decision_table(
    observation: Observation, kind: OutcomeKind, cause: str, flags: dict[str, Any]
) -> None:
    """The kind, the cause, and what else the row says."""
    outcome = classify(observation, LossPolicy())
    assert (outcome.kind, outcome.cause) == (kind, cause)
    assert {name: getattr(outcome, name) for name in flags} == flags


def test_row_16_a_pod_that_hangs_before_its_start_has_a_deadline() -> None:
    """A sandbox or a mount that fails is told by events only: the time tells."""
    observation = seen(pod(waiting("ContainerCreating"), phase="Pending"), waited_seconds=700.0)
    outcome = classify(observation, LossPolicy())
    assert (outcome.kind, outcome.cause) == (INFRASTRUCTURE, "StartTimeout")


def test_row_22_the_same_end_in_two_pools_is_the_jobs_own() -> None:
    """It stops moving."""
    first = AttemptRecord(
        attempt_id="1",
        try_number=1,
        fence=1,
        pool="a",
        kubernetes_conn_id="c",
        namespace="n",
        job_name="j",
        outcome=INFRASTRUCTURE,
        cause="ContainerStatusUnknown",
    )
    again = Outcome(kind=INFRASTRUCTURE, cause="ContainerStatusUnknown")
    step = next_step(again, tries_left=5, prospects=Prospects(pool="b", earlier=(first,)))
    assert step.action is NextAction.FAIL


def test_a_message_tells_a_crash_from_an_exit() -> None:
    """The number alone means little to people."""
    assert (
        "SIGBUS, often of a /dev/shm that is too small" in classify(seen(failed(135)), LossPolicy()).message
    )
    assert classify(seen(pod(ended(3), phase="Failed")), LossPolicy()).message == (
        "pod w-0 on node n1 exited with code 3 (container main)"
    )
