"""What a queue says of a remote job: waiting, admitted, evicted, or over."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from airflow_gpu_placement.model.outcome import EndGrade, Outcome, OutcomeKind

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kueue import Workload
    from airflow_gpu_placement.model.outcome import Observation

_EVICTIONS = {
    "Preempted": ("QueuePreempted", "its quota was taken for another workload"),
    "PodsReadyTimeout": ("QueuePodsNotReady", "its pods were not ready in time"),
    "AdmissionCheck": ("QueueAdmissionCheck", "an admission check was withdrawn"),
    "ClusterQueueStopped": ("QueueStopped", "its ClusterQueue was stopped"),
    "LocalQueueStopped": ("QueueStopped", "its LocalQueue was stopped"),
    "NodeFailures": ("QueueNodeFailures", "its nodes failed"),
    "FlavorMigration": ("QueueFlavorMigration", "it moves to another flavour"),
    "EvictedOnManagerCluster": ("QueueEvicted", "the managing cluster took it back"),
}
_TIME_LIMIT = "MaximumExecutionTimeExceeded"
_LOST_COPY = frozenset({"OutOfSync", "OwnerNotFound"})
_NO_END = frozenset({"WorkloadSliceReplaced"})


class QueueState(StrEnum):
    """How far a queue has got with a workload."""

    QUEUED = "queued"
    ADMITTED = "admitted"
    RUNNING = "running"
    EVICTED = "evicted"
    INACTIVE = "inactive"
    FINISHED = "finished"


def queue_state(workload: Workload, *, suspended: bool) -> QueueState:
    """Say how far a queue has got. A reservation is not an admission, and an admission is not a start.

    :param suspended: the job itself is still held.
    """
    if workload.is_true("Finished") and not _replaced(workload):
        return QueueState.FINISHED
    if workload.spec.active is False:
        return QueueState.INACTIVE
    # A new reservation makes this False again, while the admission that it ends is withdrawn a moment later.
    if workload.is_true("Evicted"):
        return QueueState.EVICTED
    if workload.is_true("Admitted"):
        return QueueState.ADMITTED if suspended else QueueState.RUNNING
    return QueueState.QUEUED


def by_workload(observation: Observation) -> Outcome | None:
    """Judge what a queue says; ``None``: it says nothing that decides."""
    workload = observation.workload
    if workload is None:
        return None
    suspended = observation.job is not None and observation.job.spec.suspend
    state = queue_state(workload, suspended=suspended)
    if state is QueueState.FINISHED:
        return _finished(workload, observation)
    if state in {QueueState.EVICTED, QueueState.INACTIVE}:
        return _evicted(workload)
    if state is QueueState.QUEUED:
        return Outcome(kind=OutcomeKind.RUNNING, cause="Queued", message=_why_queued(workload))
    if state is QueueState.ADMITTED:
        return Outcome(
            kind=OutcomeKind.RUNNING,
            cause="AdmittedNotStarted",
            message="the queue has admitted the job, which is still suspended",
        )
    return None


def _replaced(workload: Workload) -> bool:
    finished = workload.condition("Finished")
    return finished is not None and finished.reason in _NO_END


def _finished(workload: Workload, observation: Observation) -> Outcome | None:
    """Read the reason: the condition is True for every end."""
    finished = workload.condition("Finished")
    reason = "" if finished is None else finished.reason
    said = f" ({finished.message})" if finished is not None and finished.message else ""
    if reason in _LOST_COPY:
        return Outcome(
            kind=OutcomeKind.INFRASTRUCTURE,
            cause="WorkloadOutOfSync",
            message=f"the queue gave its workload up as {reason}{said}; the job did not end by itself",
            grade=EndGrade.UNKNOWN,
        )
    if observation.job is not None:
        return None  # the Job and its pods say more
    if reason == "Succeeded":
        return Outcome(
            kind=OutcomeKind.SUCCEEDED,
            cause="Complete",
            message="the queue saw the job succeed before it was cleaned up",
            grade=EndGrade.CONFIRMED,
        )
    if reason == "Failed":
        return Outcome(
            kind=OutcomeKind.APPLICATION,
            cause="WorkloadFailed",
            message=f"the queue saw the job fail{said}; nothing else is left of it",
            grade=EndGrade.UNKNOWN,
            ambiguous=True,
        )
    return None


def _evicted(workload: Workload) -> Outcome:
    evicted = workload.condition("Evicted")
    reason = "" if evicted is None or evicted.status != "True" else evicted.reason
    said = f" ({evicted.message})" if evicted is not None and evicted.message else ""
    if workload.spec.active is not False and not reason.startswith("Deactivated"):
        cause, what = _EVICTIONS.get(
            reason, ("QueueEvicted", f"the queue evicted it ({reason or 'no reason'})")
        )
        return Outcome(
            kind=OutcomeKind.QUEUE,
            cause=cause,
            message=f"{what}{said}; it waits in the queue again",
        )
    if _TIME_LIMIT in reason:
        return Outcome(
            kind=OutcomeKind.APPLICATION,
            cause="DeadlineExceeded",
            message=f"it ran longer than its queue allows{said}",
            grade=EndGrade.UNKNOWN,
        )
    return Outcome(
        kind=OutcomeKind.INFRASTRUCTURE,
        cause="QueueDeactivated",
        message=f"the queue switched it off ({reason or 'inactive'}){said}; it does not come back by itself",
        grade=EndGrade.UNKNOWN,
    )


def _why_queued(workload: Workload) -> str:
    reserved = workload.is_true("QuotaReserved")
    pending = [one for one in workload.status.admission_checks if one.state != "Ready"]
    if reserved and pending:
        checks = ", ".join(f"{one.name} is {one.state}" for one in pending)
        return f"quota is reserved, admission waits: {checks}"
    if reserved:
        return "quota is reserved, the job is not admitted yet"
    condition = workload.condition("QuotaReserved")
    said = "" if condition is None else condition.message or condition.reason
    return f"the job waits for quota{f' ({said})' if said else ''}"
