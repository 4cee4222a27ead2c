"""Which pod of a gang failed first, and whether that can be told yet."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.end_grade import confirmed_end
from airflow_gpu_placement.engine.finding import CLOCK_SKEW, Finding
from airflow_gpu_placement.engine.node_evidence import weighed_with_node
from airflow_gpu_placement.engine.pod_evidence import ended, judge
from airflow_gpu_placement.engine.ranks import rank_of
from airflow_gpu_placement.model.outcome import OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_gpu_placement.model.kube import Job, Pod
    from airflow_gpu_placement.model.outcome import NodeView, Observation

GIVEN_UP_AFTER = timedelta(seconds=400)
"""A cluster waits some 350 seconds for a node that does not answer before it says so of a pod there."""

_GIVEN_UP = frozenset({"NodeTainted", "NodeGone"})

HEARD_SLACK_SECONDS = 2.0
"""A renewal and a failure come through different streams and may arrive in the wrong order by this much."""


def first_cause(observation: Observation, *, wait_for_peers: bool) -> Finding | None:
    """Return the finding that the other pods' findings follow from; ``None``: no pod is in trouble.

    An exit code does not say who was first: when a node loses power, the ranks elsewhere exit within the
    second while the node is still believed alive. So an exit code of one pod waits until no peer can be the
    cause: it has ended too, or its node was heard of after the failure.

    :param wait_for_peers: whether to hold back until then.
    """
    if replaces_pods(observation.job):
        return None
    findings = [
        weighed_with_node(finding, pod, observation.nodes.get(pod.spec.node_name))
        for pod in observation.pods
        if (finding := judge(pod)) is not None
    ]
    final = [finding for finding in findings if finding.kind.final]
    if not final:
        return findings[0] if findings else None
    cause = _earliest(final)
    if wait_for_peers and cause.by_exit and _peers_may_be_the_cause(cause, observation):
        return Finding(
            kind=OutcomeKind.RUNNING,
            cause="AwaitingPeers",
            what=f"{cause.what}; waiting for its peers, one of which may have failed first",
            pod=cause.pod,
            node=cause.node,
            by_exit=True,
        )
    return cause


def replaces_pods(job: Job | None) -> bool:
    """Whether the Job makes new pods for failed ones and has not given up yet."""
    if job is None or not job.spec.backoff_limit:
        return False
    return not _says(job, "Failed", "FailureTarget")


def without_replaced(pods: Sequence[Pod], job: Job | None) -> tuple[Pod, ...]:
    """Leave out pods that are being deleted and for which the Job has made new ones: they decide nothing."""
    if not replaces_pods(job):
        return tuple(pods)
    kept = {rank_of(pod) for pod in pods if pod.metadata.deletion_timestamp is None and not ended(pod)}
    return tuple(pod for pod in pods if pod.metadata.deletion_timestamp is None or rank_of(pod) not in kept)


def _says(job: Job, *types: str) -> bool:
    return any(one.type in types and one.status == "True" for one in job.status.conditions)


def _earliest(findings: Sequence[Finding]) -> Finding:
    """Choose the cause.

    Primary before secondary; a loss that is not clearly later before an exit; then by time.
    """
    primary = [finding for finding in findings if not finding.secondary] or list(findings)
    timed = sorted((one for one in primary if one.at is not None), key=_by_time)
    losses = [one for one in primary if not one.by_exit]
    if losses and timed and timed[0].by_exit:
        first = timed[0]
        for loss in losses:
            if loss.at is None or first.at is None or loss.at <= first.at + _told_late(loss):
                return loss
    if timed:
        untimed = [one for one in losses if one.at is None]
        return untimed[0] if untimed and timed[0].by_exit else timed[0]
    return primary[0]


def _told_late(loss: Finding) -> timedelta:
    """Return by how much a cluster may date a loss later than it was."""
    return GIVEN_UP_AFTER if loss.cause in _GIVEN_UP else CLOCK_SKEW


def _by_time(finding: Finding) -> tuple[float, bool, str]:
    at = 0.0 if finding.at is None else finding.at.timestamp()
    return at, finding.by_exit, finding.pod


def _peers_may_be_the_cause(cause: Finding, observation: Observation) -> bool:
    job = observation.job
    if job is not None and any(
        one.type == "Failed" and one.status == "True" for one in job.status.conditions
    ):
        return False  # it says so only when all its pods have ended
    return any(
        pod.metadata.name != cause.pod
        and pod.metadata.uid not in observation.vanished
        and not ended(pod)
        and not confirmed_end(pod)
        and not _heard_since(observation.nodes.get(pod.spec.node_name), observation.failing_seconds)
        for pod in observation.pods
    )


def _heard_since(node: NodeView | None, failing_seconds: float) -> bool:
    """Whether a node renewed its Lease after the failure was seen, so that it was alive when it happened."""
    return node is not None and node.silent_seconds + HEARD_SLACK_SECONDS < failing_seconds
