"""What happened to a remote job, from everything that was seen of it.

The steps, the first that answers wins:

1. The Job says that it is complete: success.
2. The Job is gone, or is being deleted: somebody cancelled it, unless its pods tell of an end of their own.
3. The Job ran into its own time limit.
4. The cluster is silent: nothing is believed until it answers or its grace ends.
5. A pod failed or cannot start: its evidence decides; in a gang the earliest, since the others die of it.
   A node of a pod that has not ended is silent or gone: suspected, later lost.
6. The Job says that it failed, but no pod tells why.
7. It runs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.end_grade import confirmed_end, end_grade
from airflow_gpu_placement.engine.gang_evidence import first_cause
from airflow_gpu_placement.engine.pod_evidence import ended
from airflow_gpu_placement.engine.silence import SUSPICIOUS_RENEWALS, listen
from airflow_gpu_placement.engine.success import succeeded
from airflow_gpu_placement.model.outcome import EndGrade, LossPolicy, Outcome, OutcomeKind

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.finding import Finding
    from airflow_gpu_placement.engine.silence import Silence
    from airflow_gpu_placement.model.kube import Condition, Job
    from airflow_gpu_placement.model.outcome import Observation

_QUIET_CLUSTER_SECONDS = SUSPICIOUS_RENEWALS * 10.0
_EXIT_CODE = re.compile(r"failed with exit code (\d+)")


def classify(observation: Observation, policy: LossPolicy) -> Outcome:
    """Say what an observation means.

    :param observation: all that is known of one remote job now.
    :param policy: how long silence is borne.
    :return: an outcome whose kind is final when nothing more is to be waited for.
    """
    return (
        succeeded(observation)
        or _cancelled(observation, policy)
        or _deadline(observation, policy)
        or _quiet_cluster(observation, policy)
        or _from_pods_and_nodes(observation, policy)
        or _from_job(observation, policy)
        or _running(observation)
    )


def condition_of(job: Job | None, *types: str) -> Condition | None:
    """Return the first condition of these types that is True; presence alone says nothing."""
    if job is None:
        return None
    return next((one for one in job.status.conditions if one.type in types and one.status == "True"), None)


def _cancelled(observation: Observation, policy: LossPolicy) -> Outcome | None:
    job = observation.job
    if job is not None and job.metadata.deletion_timestamp is None:
        return None
    if not observation.pods_listed:
        return Outcome(
            kind=OutcomeKind.RUNNING, cause="AwaitingEvidence", message="the pods are not read yet"
        )
    own = first_cause(observation, wait_for_peers=False)
    if own is not None and not own.secondary and own.kind.final:
        return _outcome(own, observation, policy)
    if job is None and not observation.pods:
        # This watcher saw neither the Job nor a pod: deleted, or cleaned up after any end at all.
        return Outcome(
            kind=OutcomeKind.CANCELLED,
            cause="JobGone",
            message="the Job does not exist and nothing tells how it ended",
            grade=EndGrade.UNKNOWN,
            ambiguous=True,
        )
    gone = "was deleted" if job is None else "is being deleted"
    return Outcome(
        kind=OutcomeKind.CANCELLED,
        cause="JobDeleted",
        message=f"the Job {gone} by somebody else before it ended",
        grade=end_grade(observation, policy),
        ambiguous=job is None,
    )


def _deadline(observation: Observation, policy: LossPolicy) -> Outcome | None:
    condition = condition_of(observation.job, "Failed", "FailureTarget")
    if condition is None or condition.reason != "DeadlineExceeded":
        return None
    return Outcome(
        kind=OutcomeKind.APPLICATION,
        cause="DeadlineExceeded",
        message=f"the Job ran longer than its time limit ({condition.message or 'activeDeadlineSeconds'})",
        grade=end_grade(observation, policy),
    )


def _quiet_cluster(observation: Observation, policy: LossPolicy) -> Outcome | None:
    seconds = observation.unreachable_seconds
    if seconds <= min(_QUIET_CLUSTER_SECONDS, policy.cluster_grace_seconds):
        return None
    if seconds <= policy.cluster_grace_seconds:
        return Outcome(
            kind=OutcomeKind.SUSPECTED,
            cause="ClusterUnreachable",
            message=(
                f"the cluster has not answered for {seconds:.0f} s; its jobs count as lost after "
                f"{policy.cluster_grace_seconds:g} s"
            ),
        )
    return Outcome(
        kind=OutcomeKind.INFRASTRUCTURE,
        cause="ClusterUnreachable",
        message=(
            f"the cluster has not answered for {seconds:.0f} s, longer than the "
            f"{policy.cluster_grace_seconds:g} s allowed; the job may still run there"
        ),
        grade=EndGrade.UNKNOWN,
    )


def _from_pods_and_nodes(observation: Observation, policy: LossPolicy) -> Outcome | None:
    """Weigh what pods say against what nodes no longer say."""
    open_pods = tuple(pod for pod in observation.pods if not confirmed_end(pod))
    silence = listen(open_pods, observation, policy)
    finding = None if _suspended(observation.job) else first_cause(observation, wait_for_peers=True)
    if silence.lost and (finding is None or finding.by_exit or not finding.kind.final):
        # Its peers die of a lost node; what they report is not the cause.
        return _lost(silence, observation, policy)
    if finding is not None and finding.kind.final:
        return _outcome(finding, observation, policy)
    if silence.suspected:
        return _suspected(silence)
    if finding is not None:
        return Outcome(
            kind=finding.kind, cause=finding.cause, message=_sentence(finding), pod=finding.pod or None
        )
    return None


def _lost(silence: Silence, observation: Observation, policy: LossPolicy) -> Outcome:
    nodes = tuple(sorted(silence.lost))
    gone = all(not observation.nodes[name].exists for name in nodes)
    grade = end_grade(observation, policy)
    why = "; ".join(f"node {name} is lost: {silence.lost[name]}" for name in nodes)
    survivor = "; its processes may still run" if grade is EndGrade.UNKNOWN else ""
    return Outcome(
        kind=OutcomeKind.INFRASTRUCTURE,
        cause="ClusterSilent" if silence.whole_cluster else "NodeGone" if gone else "NodeLost",
        message=f"{why}{survivor}",
        # When the cluster is at fault its nodes are not, and need not be avoided.
        nodes=() if silence.whole_cluster else nodes,
        grade=grade,
    )


def _suspected(silence: Silence) -> Outcome:
    nodes = tuple(sorted(silence.suspected))
    what = "; ".join(f"node {name}: {silence.suspected[name]}" for name in nodes)
    return Outcome(
        kind=OutcomeKind.SUSPECTED,
        cause="ClusterSilent" if silence.whole_cluster else "NodeSilent",
        message=what,
        nodes=nodes,
    )


def _outcome(finding: Finding, observation: Observation, policy: LossPolicy) -> Outcome:
    return Outcome(
        kind=finding.kind,
        cause=finding.cause,
        message=_sentence(finding),
        exit_code=finding.exit_code,
        pod=finding.pod or None,
        nodes=(finding.node,) if finding.blames_node and finding.node else (),
        grade=end_grade(observation, policy),
        ambiguous=finding.ambiguous,
        never_started=finding.never_started,
    )


def _sentence(finding: Finding) -> str:
    where = f" on node {finding.node}" if finding.node else ""
    subject = f"pod {finding.pod}{where} " if finding.pod else ""
    never = "; it never started" if finding.never_started and finding.kind.final else ""
    return f"{subject}{finding.what}{never}"


def _from_job(observation: Observation, policy: LossPolicy) -> Outcome | None:
    """Use the Job's own word when its pods have none."""
    job = observation.job
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


def _suspended(job: Job | None) -> bool:
    return job is not None and job.spec.suspend


def _running(observation: Observation) -> Outcome:
    if _suspended(observation.job):
        return Outcome(
            kind=OutcomeKind.RUNNING, cause="Suspended", message="the Job is suspended and holds no GPUs"
        )
    for pod in observation.pods:
        for condition in pod.status.conditions:
            if (condition.type, condition.status, condition.reason) == (
                "PodScheduled",
                "False",
                "Unschedulable",
            ):
                return Outcome(
                    kind=OutcomeKind.RUNNING,
                    cause="Unschedulable",
                    message=f"pod {pod.metadata.name} finds no node ({condition.message})",
                    pod=pod.metadata.name,
                )
    return Outcome(kind=OutcomeKind.RUNNING)
