"""A remote job that has not started: what it waits for, and when that is too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.decisive import bystander_failures, has_run
from airflow_gpu_placement.engine.disruptions import when
from airflow_gpu_placement.engine.end_grade import end_grade
from airflow_gpu_placement.engine.pod_evidence import ended
from airflow_gpu_placement.model.outcome import Outcome, OutcomeKind

if TYPE_CHECKING:
    from airflow_gpu_placement.model.outcome import LossPolicy, Observation

_UNSCHEDULED = {
    "Unschedulable": "finds no node",
    "SchedulingGated": "is held back by a scheduling gate",
    "SchedulerError": "could not be scheduled because of an error of the scheduler",
}


START_TIMEOUT = "StartTimeout"
"""Cause of a job that was given up because not all of its pods started in time."""


def running(observation: Observation) -> Outcome:
    """Say how a job goes on that has not ended, as far as anything is worth saying."""
    job = observation.job
    if job is not None and job.spec.suspend:
        return Outcome(
            kind=OutcomeKind.RUNNING, cause="Suspended", message="the Job is suspended and holds no GPUs"
        )
    if observation.create_refusal and not observation.pods:
        return Outcome(
            kind=OutcomeKind.RUNNING,
            cause="FailedCreate",
            message=f"the cluster creates no pod of the Job: {observation.create_refusal}",
        )
    for pod in observation.pods:
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                what = _UNSCHEDULED.get(condition.reason)
                if what is not None:
                    return Outcome(
                        kind=OutcomeKind.RUNNING,
                        cause=condition.reason,
                        message=f"pod {pod.metadata.name} {what} ({condition.message})",
                        pod=pod.metadata.name,
                    )
    return _beside_a_failure(observation) or Outcome(kind=OutcomeKind.RUNNING)


def _beside_a_failure(observation: Observation) -> Outcome | None:
    """Say that a container which does not train has ended badly: nothing follows from it."""
    for pod in observation.pods:
        beside = bystander_failures(pod)
        if beside:
            return Outcome(
                kind=OutcomeKind.RUNNING,
                cause="SidecarFailed",
                message=f"beside the training in pod {pod.metadata.name}, containers have failed: {beside}",
                pod=pod.metadata.name,
            )
    return None


def pod_gone(observation: Observation) -> Outcome | None:
    """Notice pods that vanished before they ended while their Job has not said anything yet."""
    job = observation.job
    if job is None or job.spec.suspend or job.status.active:
        return None
    gone = [pod for pod in observation.pods if pod.metadata.uid in observation.vanished and not ended(pod)]
    if not gone or len(gone) < len(observation.pods):
        return None
    return Outcome(
        kind=OutcomeKind.UNKNOWN,
        cause="PodGone",
        message=f"pod {gone[0].metadata.name} does not exist any more and nobody saw it end",
        pod=gone[0].metadata.name,
    )


def gang_started(observation: Observation) -> bool:
    """Whether every pod of the job has run, at least for a moment."""
    job = observation.job
    completions = 1 if job is None else job.spec.completions or 1
    return sum(has_run(pod) for pod in observation.pods) >= completions


def unschedulable(observation: Observation) -> bool:
    """Whether the scheduler says right now that a pod of the job finds no node."""
    return any(
        one.type == "PodScheduled" and one.status == "False" and one.reason == "Unschedulable"
        for pod in observation.pods
        if pod.metadata.uid not in observation.vanished
        for one in pod.status.conditions
    )


def in_time(outcome: Outcome, observation: Observation, policy: LossPolicy) -> Outcome:
    """End the wait for a start that takes longer than the pool allows.

    Part of a gang does not count: it holds GPUs and trains nothing.
    """
    if outcome.kind is not OutcomeKind.RUNNING or gang_started(observation):
        return outcome
    late = _too_long(observation, policy)
    if late is None:
        return outcome
    why = f": {outcome.message}" if outcome.message else ""
    return msgspec.structs.replace(
        outcome,
        kind=OutcomeKind.INFRASTRUCTURE,
        cause=START_TIMEOUT,
        message=f"{late}{why}",
        grade=end_grade(observation, policy),
        never_started=True,
    )


def _too_long(observation: Observation, policy: LossPolicy) -> str | None:
    """Say which wait is over; ``None``: none is."""
    waited = _waited_seconds(observation)
    if waited is not None and waited > policy.start_timeout_seconds:
        return (
            f"not every pod of the job has started after {waited:.0f} s, "
            f"longer than the {policy.start_timeout_seconds:g} s allowed"
        )
    limit, nowhere = policy.unschedulable_timeout_seconds, observation.unschedulable_seconds
    if limit is not None and nowhere > limit and unschedulable(observation):
        return f"a pod of the job has found no node for {nowhere:.0f} s, longer than the {limit:g} s allowed"
    return None


def _waited_seconds(observation: Observation) -> float | None:
    """Return for how long the job has waited: measured, else since it or its workload was created."""
    if observation.waited_seconds is not None:
        return observation.waited_seconds
    if observation.now is None:
        return None
    times = [None if observation.job is None else observation.job.metadata.creation_timestamp]
    workload = observation.workload
    if workload is not None:
        reserved = workload.condition("QuotaReserved")
        times += [
            workload.metadata.creation_timestamp,
            None if reserved is None else reserved.last_transition_time,
        ]
    moments = [moment for text in times if (moment := when(text)) is not None]
    return (observation.now - min(moments)).total_seconds() if moments else None
