"""What is not over, and what is a success."""

from __future__ import annotations

import msgspec
import pytest

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.model.kube import JobSpec, Pod
from airflow_gpu_placement.model.outcome import EndGrade, LossPolicy, Observation, OutcomeKind
from tests.unit.engine.remote_jobs import RUNNING, disrupted, ended, failed, job, pod, seen, waiting

POLICY = LossPolicy()

INFRASTRUCTURE = OutcomeKind.INFRASTRUCTURE


@pytest.mark.parametrize(
    ("observation", "cause"),
    [
        pytest.param(seen(pod(RUNNING)), "", id="it runs"),
        pytest.param(seen(), "", id="no pod yet"),
        pytest.param(seen(of=job(suspend=True)), "Suspended", id="suspended"),
        pytest.param(
            seen(failed(143, deleting=True), of=job(suspend=True)),
            "Suspended",
            id="suspended, which deletes the pods",
        ),
        pytest.param(seen(failed(1), of=job(backoff_limit=2)), "", id="the Job makes a new pod by itself"),
        pytest.param(
            seen(pod(waiting("ErrImagePull", "toomanyrequests: rate limit (429)"), phase="Pending")),
            "ErrImagePull",
            id="an image that will come",
        ),
        pytest.param(
            seen(pod(waiting("ImagePullBackOff", "Back-off pulling image"), phase="Pending")),
            "ImagePullBackOff",
            id="an image of which nothing is said",
        ),
        pytest.param(
            seen(pod(waiting("CreateContainerError", "context deadline exceeded"), phase="Pending")),
            "",
            id="a start that the node tries again",
        ),
        pytest.param(
            seen(
                pod(
                    node="",
                    phase="Pending",
                    conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
                )
            ),
            "Unschedulable",
            id="no node for it",
        ),
        pytest.param(
            seen(pod(RUNNING), of=job(("FailureTarget", "BackoffLimitExceeded"))),
            "AwaitingEvidence",
            id="the Job is about to fail",
        ),
        pytest.param(
            seen(pod(RUNNING), of=job(("Failed", "BackoffLimitExceeded"))),
            "AwaitingEvidence",
            id="the Job has failed and its pod has not said why yet",
        ),
        pytest.param(
            seen(of=job(("Failed", "BackoffLimitExceeded")), pods_listed=False),
            "AwaitingEvidence",
            id="the Job has failed and its pods are not read yet",
        ),
        pytest.param(
            seen(gone=True, pods_listed=False), "AwaitingEvidence", id="gone, its pods not read yet"
        ),
        pytest.param(
            seen(pod(RUNNING, conditions=[disrupted("PreemptionByScheduler")], deleting=True)),
            "",
            id="it is being taken away and has not ended",
        ),
    ],
)
def test_what_is_not_over_is_running(observation: Observation, cause: str) -> None:
    """Nothing is decided before it is certain."""
    outcome = classify(observation, POLICY)
    assert (outcome.kind, outcome.cause) == (OutcomeKind.RUNNING, cause)


@pytest.mark.parametrize("condition", ["Complete", "SuccessCriteriaMet"])
def test_success_returns_the_message_of_rank_0(condition: str) -> None:
    """The Job's word is enough; the result is what rank 0 left."""
    pods = (
        pod(ended(0, "Completed", message="rank 1"), index=1, phase="Succeeded"),
        pod(ended(0, "Completed", message='{"accuracy": 0.9}'), index=0, phase="Succeeded"),
    )
    outcome = classify(seen(*pods, of=job((condition, "CompletionsReached"))), POLICY)
    assert (outcome.kind, outcome.result) == (OutcomeKind.SUCCEEDED, '{"accuracy": 0.9}')
    assert outcome.grade is EndGrade.CONFIRMED


def test_a_condition_that_is_false_says_nothing() -> None:
    """Presence alone is no evidence."""
    from airflow_gpu_placement.model.kube import Condition, Job, JobStatus

    silent = Job(status=JobStatus(conditions=(Condition(type="Complete", status="False"),)))
    assert classify(seen(pod(RUNNING), of=silent), POLICY).kind is OutcomeKind.RUNNING


def test_a_success_is_remembered_when_the_job_was_cleaned_up() -> None:
    """Every pod was seen to succeed; a missing rank would not be enough."""
    done = pod(ended(0, "Completed", message="r"), phase="Succeeded")
    assert classify(seen(done, gone=True), POLICY).kind is OutcomeKind.SUCCEEDED
    only_rank_1 = pod(ended(0, "Completed"), index=1, phase="Succeeded")
    assert classify(seen(only_rank_1, gone=True), POLICY).kind is OutcomeKind.UNKNOWN


def test_all_pods_of_a_job_that_says_how_many_it_has_are_enough() -> None:
    """The Job's condition only follows; one rank of two is not all."""
    done = pod(ended(0, "Completed", message="r"), phase="Succeeded")
    whole = msgspec.structs.replace(job(), spec=JobSpec(completions=1))
    assert classify(seen(done, of=whole), POLICY).kind is OutcomeKind.SUCCEEDED
    half = msgspec.structs.replace(job(), spec=JobSpec(completions=2))
    assert classify(seen(done, of=half), POLICY).kind is OutcomeKind.RUNNING


def test_a_job_that_was_complete_when_it_was_deleted_succeeded() -> None:
    """Its last state is the evidence."""
    complete = job(("Complete", "CompletionsReached"))
    assert classify(seen(gone=True, deleted_job=complete), POLICY).kind is OutcomeKind.SUCCEEDED


def test_a_pod_that_vanished_proves_nothing_yet() -> None:
    """Its Job will say more; until then the end is not known."""
    running = pod(RUNNING)
    outcome = classify(seen(running, vanished=frozenset({"uid-0"})), POLICY)
    assert (outcome.kind, outcome.cause, outcome.final) == (OutcomeKind.UNKNOWN, "PodGone", False)


@pytest.mark.parametrize(
    ("waited_seconds", "kind"),
    [(599.0, OutcomeKind.RUNNING), (601.0, INFRASTRUCTURE), (None, OutcomeKind.RUNNING)],
)
def test_a_start_has_a_deadline(waited_seconds: float | None, kind: OutcomeKind) -> None:
    """What never started can be placed elsewhere; what runs has no such deadline."""
    idle = pod(
        node="",
        phase="Pending",
        conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
    )
    outcome = classify(seen(idle, waited_seconds=waited_seconds), POLICY)
    assert outcome.kind is kind
    assert outcome.never_started is (kind is INFRASTRUCTURE)
    runs = seen(pod(RUNNING), waited_seconds=waited_seconds)
    assert classify(runs, POLICY).kind is OutcomeKind.RUNNING


def nowhere(index: int = 0) -> Pod:
    """Build a pod that the scheduler finds no node for."""
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    return pod(index=index, node="", phase="Pending", conditions=[said])


def test_part_of_a_gang_has_not_started() -> None:
    """It holds GPUs and trains nothing; that a rank has run for a moment is enough."""
    gang = msgspec.structs.replace(job(), spec=JobSpec(completions=2))
    half = classify(seen(pod(RUNNING), nowhere(1), of=gang, waited_seconds=601.0), POLICY)
    assert (half.kind, half.cause, half.never_started) == (INFRASTRUCTURE, "StartTimeout", True)
    assert "not every pod of the job has started after 601 s" in half.message
    assert "pod w-1 finds no node (0/3 nodes)" in half.message
    whole = seen(pod(RUNNING), pod(RUNNING, index=1), of=gang, waited_seconds=601.0)
    assert classify(whole, POLICY).kind is OutcomeKind.RUNNING


@pytest.mark.parametrize(
    ("seconds", "limit", "kind"),
    [
        pytest.param(59.0, 60.0, OutcomeKind.RUNNING, id="not long enough"),
        pytest.param(61.0, 60.0, INFRASTRUCTURE, id="too long"),
        pytest.param(61.0, None, OutcomeKind.RUNNING, id="a pool that grows"),
    ],
)
def test_what_finds_no_node_is_not_waited_for_as_long(
    seconds: float, limit: float | None, kind: OutcomeKind
) -> None:
    """Where no node can be added, the scheduler's word is believed sooner."""
    policy = LossPolicy(unschedulable_timeout_seconds=limit)
    observation = seen(nowhere(), waited_seconds=seconds + 1, unschedulable_seconds=seconds)
    outcome = classify(observation, policy)
    assert outcome.kind is kind
    assert ("has found no node for 61 s" in outcome.message) is (kind is INFRASTRUCTURE)


def test_a_pod_that_cannot_be_created_is_told_and_not_waited_for_ever() -> None:
    """The text is that of the cluster's own event."""
    why = "pods is forbidden: exceeded quota"
    waits = classify(seen(waited_seconds=20.0, create_refusal=why), POLICY)
    assert (waits.kind, waits.cause) == (OutcomeKind.RUNNING, "FailedCreate")
    assert waits.message == f"the cluster creates no pod of the Job: {why}"
    late = classify(seen(waited_seconds=601.0, create_refusal=why), POLICY)
    assert late.cause == "StartTimeout"
    assert why in late.message
    assert classify(seen(pod(RUNNING), create_refusal=why), POLICY).message == ""


def test_an_odd_success_is_told() -> None:
    """Memory ran out and yet the exit code was 0."""
    odd = pod(ended(0, "OOMKilled"), phase="Succeeded")
    outcome = classify(seen(odd, of=job(("Complete", ""))), POLICY)
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert outcome.warning == "pod w-0 succeeded, but a process of main ran out of memory"
