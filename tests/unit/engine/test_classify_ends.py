"""How a remote job ended, by what its pods and the Job say."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.model.outcome import LossPolicy, Observation, OutcomeKind
from tests.unit.engine.remote_jobs import RUNNING, disrupted, ended, failed, job, pod, seen, waiting

POLICY = LossPolicy()

APPLICATION, INFRASTRUCTURE = OutcomeKind.APPLICATION, OutcomeKind.INFRASTRUCTURE
CONFIGURATION, CANCELLED = OutcomeKind.CONFIGURATION, OutcomeKind.CANCELLED
UNKNOWN = OutcomeKind.UNKNOWN


@pytest.mark.parametrize(
    ("observation", "kind", "cause"),
    [
        pytest.param(seen(failed(1)), APPLICATION, "Error", id="an exit code"),
        pytest.param(seen(failed(139)), APPLICATION, "Error", id="a crash"),
        pytest.param(seen(failed(137, "OOMKilled")), APPLICATION, "OOMKilled", id="its own memory limit"),
        pytest.param(seen(failed(137)), APPLICATION, "Killed", id="killed and nothing says by what"),
        pytest.param(seen(failed(143)), APPLICATION, "Terminated", id="stopped and nothing says by what"),
        pytest.param(
            seen(failed(137, conditions=[disrupted("PreemptionByScheduler")])),
            INFRASTRUCTURE,
            "Preempted",
            id="preempted",
        ),
        pytest.param(
            seen(failed(143, conditions=[disrupted("EvictionByEvictionAPI")])),
            INFRASTRUCTURE,
            "Evicted",
            id="drained",
        ),
        pytest.param(
            seen(failed(1, conditions=[disrupted("EvictionByEvictionAPI")])),
            INFRASTRUCTURE,
            "Evicted",
            id="drained, and it answered the signal with 1",
        ),
        pytest.param(
            seen(failed(1, at="09:00:00", conditions=[disrupted("DeletionByTaintManager")])),
            APPLICATION,
            "Error",
            id="it had failed before the disruption",
        ),
        pytest.param(
            seen(failed(1, conditions=[{**disrupted("PreemptionByScheduler"), "status": "False"}])),
            APPLICATION,
            "Error",
            id="a disruption that did not take place",
        ),
        pytest.param(
            seen(
                failed(
                    143,
                    reason="Terminated",
                    message="Pod was terminated in response to imminent node shutdown.",
                    conditions=[disrupted("TerminationByKubelet")],
                )
            ),
            INFRASTRUCTURE,
            "NodeShutdown",
            id="its node shut down",
        ),
        pytest.param(
            seen(pod(phase="Failed", reason="Shutdown")),
            INFRASTRUCTURE,
            "NodeShutdown",
            id="shut down, older wording",
        ),
        pytest.param(
            seen(failed(137, reason="Evicted", message="The node was low on resource: memory.")),
            INFRASTRUCTURE,
            "NodePressure",
            id="evicted by pressure on its node",
        ),
        pytest.param(
            seen(
                failed(
                    137,
                    "ContainerStatusUnknown",
                    at=None,
                    reason="Evicted",
                    message="Pod ephemeral local storage usage exceeds the total limit of containers 2Gi. ",
                    conditions=[disrupted("TerminationByKubelet")],
                )
            ),
            APPLICATION,
            "EphemeralStorageLimit",
            id="evicted for its own disk limit, in spite of the disruption",
        ),
        pytest.param(
            seen(
                failed(
                    137, reason="Evicted", message='Usage of EmptyDir volume "x" exceeds the limit "1Gi". '
                )
            ),
            APPLICATION,
            "EphemeralStorageLimit",
            id="evicted for its own volume's limit",
        ),
        pytest.param(
            seen(pod(phase="Failed", reason="OutOfnvidia.com/gpu")),
            INFRASTRUCTURE,
            "RefusedByNode",
            id="no room there",
        ),
        pytest.param(
            seen(pod(phase="Failed", reason="UnexpectedAdmissionError")),
            INFRASTRUCTURE,
            "DeviceFault",
            id="no devices",
        ),
        pytest.param(
            seen(pod(phase="Failed", reason="Preempting")), INFRASTRUCTURE, "Preempted", id="preempted there"
        ),
        pytest.param(
            seen(failed(143, reason="DeadlineExceeded")),
            APPLICATION,
            "DeadlineExceeded",
            id="its own time limit",
        ),
        pytest.param(
            seen(failed(143, deleting=True), of=job(("FailureTarget", "DeadlineExceeded"))),
            APPLICATION,
            "DeadlineExceeded",
            id="the Job's time limit",
        ),
        pytest.param(
            seen(failed(137, "ContainerStatusUnknown", at=None)),
            INFRASTRUCTURE,
            "ContainerStatusUnknown",
            id="rebooted",
        ),
        pytest.param(
            seen(failed(255, "Unknown")), INFRASTRUCTURE, "ContainerStatusUnknown", id="rebooted, other words"
        ),
        pytest.param(
            seen(failed(128, "StartError", at=None)),
            INFRASTRUCTURE,
            "StartError",
            id="it could not be started",
        ),
        pytest.param(
            seen(
                pod(
                    ended(128, "StartError", message='exec: "trian": executable file not found in $PATH'),
                    phase="Failed",
                )
            ),
            APPLICATION,
            "StartError",
            id="a command that is not there",
        ),
        pytest.param(
            seen(
                pod(
                    ended(128, "StartError", message="exec /usr/bin/python3: exec format error"),
                    phase="Failed",
                )
            ),
            CONFIGURATION,
            "WrongArchitecture",
            id="an image for another processor",
        ),
        pytest.param(
            seen(
                pod(
                    ended(128, "StartError", message="nvidia-container-cli: nvml error: driver not loaded"),
                    phase="Failed",
                )
            ),
            INFRASTRUCTURE,
            "DeviceFault",
            id="no driver on its node",
        ),
        pytest.param(
            seen(failed(143, deleting=True)), INFRASTRUCTURE, "PodDeleted", id="somebody deleted the pod"
        ),
        pytest.param(seen(pod(phase="Failed")), INFRASTRUCTURE, "NoEvidence", id="failed without a word"),
        pytest.param(
            seen(pod(waiting("PodInitializing"), init=[ended(3)], phase="Failed")),
            APPLICATION,
            "Error",
            id="an init container failed",
        ),
        pytest.param(
            seen(pod(waiting("ImagePullBackOff", "unexpected status 401 Unauthorized"), phase="Pending")),
            CONFIGURATION,
            "ImagePullDenied",
            id="no access to the image",
        ),
        pytest.param(
            seen(pod(waiting("ErrImagePull", "manifest unknown: tag v99 not found"), phase="Pending")),
            CONFIGURATION,
            "ImageNotFound",
            id="no such image",
        ),
        pytest.param(
            seen(pod(waiting("InvalidImageName"), phase="Pending")),
            CONFIGURATION,
            "InvalidImageName",
            id="no image name",
        ),
        pytest.param(
            seen(pod(waiting("ErrImageNeverPull"), phase="Pending")),
            CONFIGURATION,
            "ErrImageNeverPull",
            id="never pulled",
        ),
        pytest.param(
            seen(pod(waiting("CreateContainerConfigError", 'secret "s3" not found'), phase="Pending")),
            CONFIGURATION,
            "SecretMissing",
            id="a secret is missing",
        ),
        pytest.param(
            seen(pod(waiting("CreateContainerConfigError", 'configmap "x" not found'), phase="Pending")),
            CONFIGURATION,
            "ConfigMapMissing",
            id="a config map is missing",
        ),
        pytest.param(
            seen(pod(waiting("CreateContainerConfigError", "container has runAsNonRoot"), phase="Pending")),
            CONFIGURATION,
            "CreateContainerConfigError",
            id="its own set-up is wrong",
        ),
        pytest.param(
            seen(pod(waiting("RunContainerError", "failed to inject CDI devices"), phase="Pending")),
            INFRASTRUCTURE,
            "DeviceFault",
            id="its devices cannot be handed over",
        ),
        pytest.param(seen(gone=True), UNKNOWN, "JobGone", id="nothing is there"),
        pytest.param(
            seen(pod(RUNNING), gone=True), UNKNOWN, "JobGone", id="it ran, and nobody saw what became of it"
        ),
        pytest.param(
            seen(pod(RUNNING), gone=True, deleted_job=job()),
            CANCELLED,
            "JobDeleted",
            id="somebody was seen to delete the Job",
        ),
        pytest.param(
            seen(pod(RUNNING), gone=True, cancelled=True),
            CANCELLED,
            "CancelledByAirflow",
            id="Airflow asked for the end",
        ),
        pytest.param(
            seen(failed(143, deleting=True), cancelled=True),
            CANCELLED,
            "CancelledByAirflow",
            id="Airflow asked for the end, and the pod ended first",
        ),
        pytest.param(
            seen(failed(1), cancelled=True), APPLICATION, "Error", id="it had failed before Airflow asked"
        ),
        pytest.param(
            seen(gone=True, deleted_job=job(("Failed", "BackoffLimitExceeded"))),
            INFRASTRUCTURE,
            "NoEvidence",
            id="it had failed when it was deleted, and its pods vanished",
        ),
        pytest.param(
            seen(failed(143, deleting=True), of=job(deleting=True)),
            CANCELLED,
            "JobDeleted",
            id="and its pods went with it",
        ),
        pytest.param(
            seen(failed(1), gone=True), APPLICATION, "Error", id="it had failed before it was deleted"
        ),
        pytest.param(
            seen(of=job(("Failed", "BackoffLimitExceeded"))),
            INFRASTRUCTURE,
            "NoEvidence",
            id="the pods vanished",
        ),
        pytest.param(
            seen(
                of=job(
                    (
                        "Failed",
                        "PodFailurePolicy",
                        "Container main for pod a/b failed with exit code 42 matching",
                    )
                )
            ),
            APPLICATION,
            "Error",
            id="the pods vanished, but the Job knows the exit code",
        ),
    ],
)
def test_each_end_has_its_kind_and_cause(observation: Observation, kind: OutcomeKind, cause: str) -> None:
    """The kind decides what follows, the cause is told."""
    outcome = classify(observation, POLICY)
    assert (outcome.kind, outcome.cause) == (kind, cause)
    assert outcome.message
