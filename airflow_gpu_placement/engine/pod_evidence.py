"""What one pod's own status says about how it ended."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.container_evidence import (
    SIGKILL_EXIT,
    SIGTERM_EXIT,
    app_exit,
    first_failure,
    waiting_trouble,
)
from airflow_gpu_placement.engine.decisive import bad_end, bystander_failures, decisive, good_end
from airflow_gpu_placement.engine.disruptions import SHUTDOWN_REASONS, cause_of, disruption, refused, when
from airflow_gpu_placement.engine.finding import CLOCK_SKEW, Finding
from airflow_gpu_placement.model.outcome import OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from airflow_gpu_placement.model.kube import ContainerStatus, Pod

_OWN_LIMIT = re.compile(
    r"exceeds the (total )?limit|exceeded its local ephemeral storage limit|emptydir volume .* exceeds", re.I
)
_OVER_REQUEST = re.compile(r"was using .+, (which exceeds its )?request", re.I)
"""A pod that used more than it asked for is the first to go: pressure of its own making, perhaps."""

_NODE_AT_FAULT = frozenset({"DeviceFault", "NodeGone", "NodeLost", "NodeShutdown", "NodeTainted"})
"""Losses that lie in the node. Preemption, drains, pressure and a full node pass or strike elsewhere too."""


def statuses(pod: Pod) -> Iterator[ContainerStatus]:
    """Yield the statuses of all containers of a pod, init containers first."""
    yield from pod.status.init_container_statuses
    yield from pod.status.container_statuses


def never_started(pod: Pod) -> bool:
    """Whether no container of the pod has ever run, by what the node reported.

    No status at all counts only where the node refused the pod: it reports none then.
    """
    seen = list(statuses(pod))
    if not seen:
        return not pod.spec.node_name or refused(pod)
    return all(
        one.state.running is None and one.state.terminated is None and one.last_state.terminated is None
        for one in seen
    )


def ran_seconds(pod: Pod) -> float | None:
    """Return how long the container that ended badly first has run; ``None``: its times are not known."""
    found = bad_end(pod)
    if found is None:
        return None
    begin, end = when(found[1].started_at), when(found[1].finished_at)
    return None if begin is None or end is None else (end - begin).total_seconds()


def ended(pod: Pod) -> bool:
    """Whether the pod is over as far as the API tells (which is no proof that its processes are)."""
    return pod.status.phase in {"Succeeded", "Failed"}


def failed(pod: Pod) -> bool:
    """Whether the pod shows a failure: its phase, or a container that ended badly before the phase follows.

    An init container does not count before the phase says so: one that is a sidecar is started again.
    """
    return pod.status.phase == "Failed" or (
        pod.status.phase != "Succeeded" and first_failure(decisive(pod)) is not None
    )


def trained(pod: Pod) -> bool:
    """Whether the pod has done its work, whatever becomes of containers beside the one that trains.

    An exit code 0 in a pod that failed because the cluster took it away may be the answer to SIGTERM.
    """
    if pod.status.phase != "Failed":
        return pod.status.phase == "Succeeded" or good_end(pod) is not None
    return good_end(pod) is not None and _taken_away(pod) is None


def judge(pod: Pod) -> Finding | None:
    """Say why a pod failed or cannot start; ``None``: nothing is wrong, or nothing can be said yet."""
    if not failed(pod):
        return _cannot_start(pod) or _starts_over(pod)
    finding = _taken_away(pod) or _by_container(pod)
    if finding.by_exit and pod.metadata.deletion_timestamp is not None:
        finding = _stopped_by_deletion(finding)
    return msgspec.structs.replace(
        finding, pod=pod.metadata.name, node=pod.spec.node_name, never_started=never_started(pod)
    )


def _taken_away(pod: Pod) -> Finding | None:
    return _by_pod_reason(pod) or _by_disruption(pod) or _by_node_reason(pod)


def _stopped_by_deletion(finding: Finding) -> Finding:
    """Read the exit code of a pod that was being deleted: a signal came with the deletion."""
    if finding.exit_code not in {SIGKILL_EXIT, SIGTERM_EXIT}:
        return msgspec.structs.replace(finding, secondary=True)
    return msgspec.structs.replace(
        finding,
        kind=OutcomeKind.INFRASTRUCTURE,
        cause="PodDeleted",
        what="was deleted by somebody other than its Job's end",
        ambiguous=False,
        secondary=True,
    )


def _cannot_start(pod: Pod) -> Finding | None:
    if pod.status.phase != "Pending":
        return None
    finding = waiting_trouble((*pod.status.init_container_statuses, *decisive(pod)))
    if finding is None:
        return None
    return msgspec.structs.replace(
        finding, pod=pod.metadata.name, node=pod.spec.node_name, never_started=never_started(pod)
    )


def _starts_over(pod: Pod) -> Finding | None:
    """Read the last end of a container that its node starts again and again: that never becomes an end."""
    for one in decisive(pod):
        waiting, last = one.state.waiting, one.last_state.terminated
        if waiting is not None and waiting.reason == "CrashLoopBackOff" and last is not None:
            finding = app_exit(pod, one.name, last, at=when(last.finished_at))
            return msgspec.structs.replace(
                finding,
                what=f"{finding.what}, {one.restart_count} times",
                pod=pod.metadata.name,
                node=pod.spec.node_name,
            )
    return None


def _by_pod_reason(pod: Pod) -> Finding | None:
    """Read the reasons that say more than a disruption: the pod's own limits."""
    status = pod.status
    if status.reason == "DeadlineExceeded":
        return Finding(
            kind=OutcomeKind.APPLICATION,
            cause="DeadlineExceeded",
            what=f"ran longer than its time limit ({status.message or 'activeDeadlineSeconds'})",
            at=_ended_at(pod),
        )
    if status.reason == "Evicted" and _OWN_LIMIT.search(status.message):
        return Finding(
            kind=OutcomeKind.APPLICATION,
            cause="EphemeralStorageLimit",
            what=f"wrote more to local disk than it may ({status.message.strip()})",
            at=_ended_at(pod),
        )
    return None


def _by_disruption(pod: Pod) -> Finding | None:
    condition = disruption(pod)
    if condition is None:
        return None
    announced = when(condition.last_transition_time)
    done = good_end(pod)
    at = _ended_at(pod) if done is None else when(done.finished_at)
    if announced is not None and at is not None and at + CLOCK_SKEW < announced:
        return None  # it had ended by itself before
    cause, what = cause_of(condition)
    if condition.reason == "TerminationByKubelet" and pod.status.reason in SHUTDOWN_REASONS:
        cause, what = "NodeShutdown", "terminated because its node shuts down"
    elif condition.reason == "TerminationByKubelet" and pod.status.reason == "Preempting":
        cause, what = "Preempted", "preempted on its node"
    detail = condition.message or pod.status.message
    return _loss(cause, f"was {what}{_in_brackets(detail)}", announced)


def _by_node_reason(pod: Pod) -> Finding | None:
    status = pod.status
    detail = _in_brackets(status.message)
    ambiguous = False
    if status.reason in SHUTDOWN_REASONS:
        cause, what = "NodeShutdown", f"was stopped because its node shuts down{detail}"
    elif status.reason == "Evicted":
        cause, what = "NodePressure", f"was evicted by its node{detail}"
        ambiguous = _OVER_REQUEST.search(status.message) is not None
    elif status.reason == "Preempting":
        cause, what = "Preempted", f"was preempted on its node{detail}"
    elif status.reason == "UnexpectedAdmissionError":
        cause, what = "DeviceFault", f"was refused by its node, whose devices are not in order{detail}"
    elif refused(pod):
        cause, what = "RefusedByNode", f"was refused by its node: {status.reason}{detail}"
    elif status.reason == "NodeLost":
        cause, what = "NodeLost", f"was on a node that was lost{detail}"
    else:
        return None
    return _loss(cause, what, _ended_at(pod), ambiguous=ambiguous)


def _loss(cause: str, what: str, at: datetime | None, *, ambiguous: bool = False) -> Finding:
    return Finding(
        kind=OutcomeKind.INFRASTRUCTURE,
        cause=cause,
        what=what,
        at=at,
        blames_node=cause in _NODE_AT_FAULT,
        ambiguous=ambiguous,
    )


def _by_container(pod: Pod) -> Finding:
    found = bad_end(pod)
    if found is not None:
        return app_exit(pod, *found, at=when(found[1].finished_at))
    beside = bystander_failures(pod)
    if good_end(pod) is not None and beside:
        return Finding(
            kind=OutcomeKind.INFRASTRUCTURE,
            cause="SidecarFailed",
            what=f"failed for containers beside its training, which ended with 0: {beside}",
            secondary=True,
            ambiguous=True,
        )
    return Finding(
        kind=OutcomeKind.INFRASTRUCTURE,
        cause=pod.status.reason or "NoEvidence",
        what=(
            "failed and no container of it says why"
            f"{_in_brackets(pod.status.message)}; this is taken as a loss, it may be the job's own fault"
        ),
        ambiguous=True,
    )


def _ended_at(pod: Pod) -> datetime | None:
    found = bad_end(pod)
    return None if found is None else when(found[1].finished_at)


def _in_brackets(text: str) -> str:
    return f" ({text.strip()})" if text.strip() else ""
