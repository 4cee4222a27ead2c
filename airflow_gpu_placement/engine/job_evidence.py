"""What the Job itself says, and what its absence says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.container_evidence import SIGKILL_EXIT, SIGTERM_EXIT
from airflow_gpu_placement.engine.end_grade import end_grade
from airflow_gpu_placement.engine.gang_evidence import first_cause
from airflow_gpu_placement.engine.pod_evidence import ended
from airflow_gpu_placement.engine.told import outcome_of
from airflow_gpu_placement.model.outcome import Outcome, OutcomeKind

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Condition, Job
    from airflow_gpu_placement.model.outcome import LossPolicy, Observation

_EXIT_CODE = re.compile(r"failed with exit code (\d+)")
_TAKEN_AWAY = re.compile(r"has condition DisruptionTarget matching")
"""What the Job controller writes when a rule of the Job's podFailurePolicy matched."""


def condition_of(job: Job | None, *types: str) -> Condition | None:
    """Return the first condition of these types that is True; presence alone says nothing."""
    if job is None:
        return None
    return next((one for one in job.status.conditions if one.type in types and one.status == "True"), None)


def out_of_time(job: Job | None) -> Condition | None:
    """Return what a Job says of having run into its own time limit, if it has."""
    condition = condition_of(job, "Failed", "FailureTarget")
    return None if condition is None or condition.reason != "DeadlineExceeded" else condition


def by_deletion(observation: Observation, policy: LossPolicy) -> Outcome | None:
    """Judge a Job that is gone, is being deleted, or whose end Airflow asked for.

    A Job that is not there may have been deleted by a person or cleaned up after any end at all: unless its
    deletion was watched, nothing tells.
    """
    job = observation.job
    if job is not None and job.metadata.deletion_timestamp is None:
        return _cancelled_pods(observation, policy) if observation.cancelled else None
    if not observation.pods_listed:
        return Outcome(
            kind=OutcomeKind.RUNNING, cause="AwaitingEvidence", message="the pods are not read yet"
        )
    own = first_cause(observation, wait_for_peers=False)
    if own is not None and not own.secondary and own.kind.final:
        return outcome_of(own, observation, policy)
    if observation.cancelled:
        return _cancelled("CancelledByAirflow", "Airflow asked for the end of the job", observation, policy)
    if job is not None:
        return _cancelled(
            "JobDeleted", "the Job is being deleted by somebody else before it ended", observation, policy
        )
    if observation.deleted_job is not None:
        said = by_job(observation, policy)
        return said or _cancelled(
            "JobDeleted", "the Job was deleted by somebody else before it ended", observation, policy
        )
    return Outcome(
        kind=OutcomeKind.UNKNOWN,
        cause="JobGone",
        message="the Job does not exist and nothing tells how it ended",
        grade=end_grade(observation, policy),
        over=True,
    )


def _cancelled_pods(observation: Observation, policy: LossPolicy) -> Outcome | None:
    """Read an end by a signal as what Airflow asked for."""
    own = first_cause(observation, wait_for_peers=False)
    if own is None or not own.kind.final:
        return None
    if not own.secondary and own.exit_code not in {SIGKILL_EXIT, SIGTERM_EXIT}:
        return None
    return _cancelled("CancelledByAirflow", "Airflow asked for the end of the job", observation, policy)


def _cancelled(cause: str, message: str, observation: Observation, policy: LossPolicy) -> Outcome:
    return Outcome(
        kind=OutcomeKind.CANCELLED, cause=cause, message=message, grade=end_grade(observation, policy)
    )


def by_deadline(observation: Observation, policy: LossPolicy) -> Outcome | None:
    """Recognise a Job that ran into its own time limit."""
    condition = out_of_time(observation.job)
    if condition is None:
        return None
    return Outcome(
        kind=OutcomeKind.APPLICATION,
        cause="DeadlineExceeded",
        message=f"the Job ran longer than its time limit ({condition.message or 'activeDeadlineSeconds'})",
        grade=end_grade(observation, policy),
    )


def by_job(observation: Observation, policy: LossPolicy) -> Outcome | None:
    """Use the Job's own word when its pods have none."""
    job = observation.job or observation.deleted_job
    condition = condition_of(job, "Failed", "FailureTarget")
    if job is None or condition is None:
        return None
    awaited = [
        pod for pod in observation.pods if pod.metadata.uid not in observation.vanished and not ended(pod)
    ]
    if awaited or not observation.pods_listed or condition_of(job, "Failed") is None:
        return Outcome(
            kind=OutcomeKind.RUNNING,
            cause="AwaitingEvidence",
            message=f"the Job is about to fail ({condition.reason}); its pods have not said why yet",
        )
    code = _EXIT_CODE.search(condition.message)
    said = f"{condition.reason}: {condition.message}" if condition.message else condition.reason
    if code is not None:
        return Outcome(
            kind=OutcomeKind.APPLICATION,
            cause="Error",
            message=f"the Job failed ({said})",
            exit_code=int(code[1]),
            grade=end_grade(observation, policy),
        )
    if _TAKEN_AWAY.search(condition.message):
        return Outcome(
            kind=OutcomeKind.INFRASTRUCTURE,
            cause="Disrupted",
            message=f"the cluster took a pod of the Job away ({said})",
            grade=end_grade(observation, policy),
        )
    return Outcome(
        kind=OutcomeKind.INFRASTRUCTURE,
        cause="NoEvidence",
        message=(
            f"the Job failed ({said}) and its pods vanished without a word; this is taken as a loss, "
            "it may be the job's own fault"
        ),
        grade=end_grade(observation, policy),
        ambiguous=True,
    )
