"""What happened to a remote job, from everything that was seen of it.

The steps, the first that answers wins:

1. The Job says that it is complete, or each of its pods was seen to succeed: success.
2. A queue says that its workload is over, evicted, or not admitted yet.
3. The Job is gone, or is being deleted: somebody cancelled it, unless its pods tell of an end of their own.
   When the deletion itself was not watched, nothing is known.
4. The Job ran into its own time limit.
5. The cluster is silent: nothing is believed until it answers or its grace ends.
6. A pod failed or cannot start: its evidence decides, weighed with what its node says; in a gang the
   earliest, since the others die of it. A node of a pod that has not ended is silent or gone: suspected,
   later lost.
7. The Job says that it failed, but no pod tells why.
8. Its pods are gone and nothing tells why, or it runs; one that does not start in time counts as lost.

Afterwards the log may explain an exit code, and the author's own check may settle an open end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.completion import checked
from airflow_gpu_placement.engine.end_grade import confirmed_end, end_grade
from airflow_gpu_placement.engine.gang_evidence import first_cause, without_replaced
from airflow_gpu_placement.engine.job_evidence import by_deadline, by_deletion, by_job
from airflow_gpu_placement.engine.log_hints import with_hint
from airflow_gpu_placement.engine.pod_evidence import ran_seconds
from airflow_gpu_placement.engine.silence import SUSPICIOUS_RENEWALS, listen
from airflow_gpu_placement.engine.start import in_time, pod_gone, running
from airflow_gpu_placement.engine.success import succeeded
from airflow_gpu_placement.engine.told import outcome_of, sentence
from airflow_gpu_placement.engine.workload_evidence import by_workload
from airflow_gpu_placement.model.outcome import EndGrade, LossPolicy, Outcome, OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_gpu_placement.engine.silence import Silence
    from airflow_gpu_placement.model.outcome import Observation

_PLACED_AGAIN = frozenset({OutcomeKind.INFRASTRUCTURE, OutcomeKind.QUEUE, OutcomeKind.CONFIGURATION})

_QUIET_CLUSTER_SECONDS = SUSPICIOUS_RENEWALS * 10.0


def classify(
    observation: Observation,
    policy: LossPolicy,
    *,
    logs_decide: bool = True,
) -> Outcome:
    """Say what an observation means.

    :param observation: all that is known of one remote job now.
    :param policy: how long silence and a late start are borne.
    :param logs_decide: whether a line of the log may explain an exit code; it is shown in any case.
    :return: an outcome that is ``final`` when nothing more is to be waited for.
    """
    outcome = (
        succeeded(observation)
        or by_workload(observation)
        or by_deletion(observation, policy)
        or by_deadline(observation, policy)
        or _quiet_cluster(observation, policy)
        or _from_pods_and_nodes(observation, policy)
        or by_job(observation, policy)
        or pod_gone(observation)
        or running(observation)
    )
    outcome = _as_wanted(in_time(outcome, observation, policy), observation)
    return checked(
        explained(outcome, observation, observation.log_tail, logs_decide=logs_decide), observation
    )


def _as_wanted(outcome: Outcome, observation: Observation) -> Outcome:
    """Read a loss of what Airflow wants to end anyway as that end: nothing is run again for it."""
    if not observation.cancelled or outcome.kind not in _PLACED_AGAIN or not outcome.final:
        return outcome
    return msgspec.structs.replace(
        outcome,
        kind=OutcomeKind.CANCELLED,
        cause="CancelledByAirflow",
        message=f"Airflow asked for the end of the job; {outcome.message}",
        ambiguous=False,
    )


def explained(
    outcome: Outcome, observation: Observation, lines: Sequence[str], *, logs_decide: bool = True
) -> Outcome:
    """Add what the log of the pod that is the cause hints at.

    :param lines: its last lines.
    :param logs_decide: whether they may explain an exit code; they are shown in any case.
    """
    pod = next((one for one in observation.pods if one.metadata.name == outcome.pod), None)
    return with_hint(
        outcome,
        lines,
        node=None if pod is None else observation.nodes.get(pod.spec.node_name),
        ran_seconds=None if pod is None else ran_seconds(pod),
        decide=logs_decide,
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
    current = without_replaced(observation.pods, observation.job)
    open_pods = tuple(pod for pod in current if not confirmed_end(pod))
    silence = listen(open_pods, observation, policy)
    suspended = observation.job is not None and observation.job.spec.suspend
    finding = None if suspended else first_cause(observation, wait_for_peers=True)
    if silence.lost and (finding is None or finding.by_exit or not finding.kind.final):
        # Its peers die of a lost node; what they report is not the cause.
        return _lost(silence, observation, policy)
    if finding is not None and finding.kind.final:
        return outcome_of(finding, observation, policy)
    if silence.suspected:
        return _suspected(silence)
    if finding is not None:
        return Outcome(
            kind=finding.kind, cause=finding.cause, message=sentence(finding), pod=finding.pod or None
        )
    return None


def _lost(silence: Silence, observation: Observation, policy: LossPolicy) -> Outcome:
    names = tuple(sorted(silence.lost))
    nodes = [observation.nodes[name] for name in names if name in observation.nodes]
    grade = end_grade(observation, policy)
    why = "; ".join(f"node {name} is lost: {silence.lost[name]}" for name in names)
    survivor = "; its processes may still run" if grade is EndGrade.UNKNOWN else ""
    cause = "NodeLost"
    if silence.whole_cluster:
        cause = "ClusterSilent"
    elif nodes and all(not node.exists for node in nodes):
        cause = "NodeGone"
    elif nodes and all(node.rebooted for node in nodes):
        cause = "NodeRebooted"
    return Outcome(
        kind=OutcomeKind.INFRASTRUCTURE,
        cause=cause,
        message=f"{why}{survivor}",
        pod=silence.lost_pod or None,
        # When the cluster is at fault its nodes are not, and need not be avoided.
        nodes=() if silence.whole_cluster else names,
        boot_ids={} if silence.whole_cluster else {node.name: node.boot_id for node in nodes if node.boot_id},
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
