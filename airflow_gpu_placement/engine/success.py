"""Whether a remote job has done its work, and what it returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.pod_evidence import statuses
from airflow_gpu_placement.engine.ranks import rank_of
from airflow_gpu_placement.model.outcome import EndGrade, Outcome, OutcomeKind

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Pod
    from airflow_gpu_placement.model.outcome import Observation

_DONE = frozenset({"Complete", "SuccessCriteriaMet"})


def succeeded(observation: Observation) -> Outcome | None:
    """Recognise a success: the Job says so, or each of its pods was seen to succeed."""
    if not _job_says_so(observation) and not _all_seen_to_succeed(observation):
        return None
    return Outcome(
        kind=OutcomeKind.SUCCEEDED,
        cause="Complete",
        message="the job succeeded",
        grade=EndGrade.CONFIRMED,
        result=_result(observation.pods),
        warning=_warning(observation.pods),
    )


def _job_says_so(observation: Observation) -> bool:
    job = observation.job or observation.deleted_job
    return job is not None and any(
        one.type in _DONE and one.status == "True" for one in job.status.conditions
    )


def _all_seen_to_succeed(observation: Observation) -> bool:
    """Whether every pod succeeded and none of the gang's indexes is missing among them.

    While the Job exists it must say itself how many pods it has.
    """
    pods, job = observation.pods, observation.job
    if not pods or any(pod.status.phase != "Succeeded" for pod in pods):
        return False
    indexes = {rank_of(pod) for pod in pods}
    if job is not None and job.spec.completions != len(indexes):
        return False
    return indexes == set(range(len(indexes)))


def _result(pods: tuple[Pod, ...]) -> str | None:
    """Return the termination message of rank 0, of the pod that succeeded when there were several."""
    for pod in sorted(pods, key=lambda pod: pod.status.phase != "Succeeded"):
        if rank_of(pod) == 0:
            for one in pod.status.container_statuses:
                if one.state.terminated is not None and one.state.terminated.message:
                    return one.state.terminated.message
    return None


def _warning(pods: tuple[Pod, ...]) -> str:
    """Say what is odd about a success: a container whose memory ran out and that still ended with 0."""
    for pod in pods:
        for one in statuses(pod):
            if one.state.terminated is not None and one.state.terminated.reason == "OOMKilled":
                return f"pod {pod.metadata.name} succeeded, but a process of {one.name} ran out of memory"
    return ""
