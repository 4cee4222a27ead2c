"""Whether a remote job has done its work, and what it returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.decisive import bystander_failures, bystanders, decisive
from airflow_gpu_placement.engine.end_grade import confirmed_end
from airflow_gpu_placement.engine.pod_evidence import statuses, trained
from airflow_gpu_placement.engine.ranks import rank_of
from airflow_gpu_placement.model.outcome import EndGrade, Outcome, OutcomeKind

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Pod
    from airflow_gpu_placement.model.outcome import Observation

_DONE = frozenset({"Complete", "SuccessCriteriaMet"})


def succeeded(observation: Observation) -> Outcome | None:
    """Recognise a success: the Job says so, or the training in each of its pods was seen to end with 0.

    In the second case containers beside the training may still run, and hold the GPUs of their pods.
    """
    over = _job_says_so(observation)
    if not over and not _all_seen_to_succeed(observation):
        return None
    over = over or all(pod.status.phase == "Succeeded" or confirmed_end(pod) for pod in observation.pods)
    return Outcome(
        kind=OutcomeKind.SUCCEEDED,
        cause="Complete",
        message="the job succeeded" if over else f"the training succeeded; {_still_there(observation.pods)}",
        grade=EndGrade.CONFIRMED if over else EndGrade.UNKNOWN,
        result=_result(observation.pods),
        warning=_warning(observation.pods),
    )


def _job_says_so(observation: Observation) -> bool:
    job = observation.job or observation.deleted_job
    return job is not None and any(
        one.type in _DONE and one.status == "True" for one in job.status.conditions
    )


def _all_seen_to_succeed(observation: Observation) -> bool:
    """Whether every pod has done its work and none of the gang's indexes is missing among them.

    While the Job exists it must say itself how many pods it has.
    """
    pods, job = observation.pods, observation.job
    if not pods or not all(map(trained, pods)):
        return False
    indexes = {rank_of(pod) for pod in pods}
    if job is not None and job.spec.completions != len(indexes):
        return False
    return indexes == set(range(len(indexes)))


def _result(pods: tuple[Pod, ...]) -> str | None:
    """Return the termination message of rank 0, of the pod that succeeded when there were several."""
    for pod in sorted(pods, key=lambda pod: not trained(pod)):
        if rank_of(pod) == 0:
            for one in decisive(pod):
                if one.state.terminated is not None and one.state.terminated.message:
                    return one.state.terminated.message
    return None


def _still_there(pods: tuple[Pod, ...]) -> str:
    """Say what has not ended with the training."""
    beside = [one for pod in pods for one in (*pod.status.init_container_statuses, *bystanders(pod))]
    alive = sorted({one.name for one in beside if one.state.terminated is None})
    return f"what has not ended with it ({', '.join(alive)}) is withdrawn with the job"


def _warning(pods: tuple[Pod, ...]) -> str:
    """Say what is odd about a success: memory that ran out all the same, containers that failed beside it."""
    for pod in pods:
        for one in statuses(pod):
            if one.state.terminated is not None and one.state.terminated.reason == "OOMKilled":
                return f"pod {pod.metadata.name} succeeded, but a process of {one.name} ran out of memory"
        if beside := bystander_failures(pod):
            return f"the training in pod {pod.metadata.name} succeeded, but beside it failed: {beside}"
    return ""
