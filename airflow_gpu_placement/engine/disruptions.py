"""What takes pods away, and how nodes refuse them: the words that Kubernetes and Kueue have for it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Condition, Pod

SHUTDOWN_REASONS = frozenset({"Terminated", "NodeShutdown", "Shutdown"})
_REFUSED_REASONS = frozenset(
    {
        "UnexpectedAdmissionError",
        "UnexpectedPredicateFailureType",
        "UnknownReason",
        "NodeAffinity",
        "NodeName",
        "NodePorts",
        "TaintToleration",
        "Preempting",
        "InvalidNodeInfo",
        "TopologyAffinityError",
        "PodOSNotSupported",
        "MatchNodeSelector",
        "HostPortConflict",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "PodFeatureUnsupported",
        "PodLevelResourcesNotSupported",
        "InitContainerRestartPolicyForbidden",
        "SupplementalGroupsPolicyNotSupported",
        "VolumeAttachmentLimitExceeded",
        "AppArmor",
        "SysctlForbidden",
        "AdmissionFailed",
    }
)
_DISRUPTION_CAUSES = {
    "PreemptionByScheduler": ("Preempted", "preempted by a pod of higher priority"),
    "DeletionByTaintManager": ("NodeTainted", "deleted because of a taint on its node"),
    "EvictionByEvictionAPI": ("Evicted", "evicted, as a drain of its node does"),
    "DeletionByPodGC": ("NodeGone", "collected because its node no longer exists"),
    "DeletionByDeviceTaintManager": ("DeviceFault", "deleted because of a taint on its device"),
    "TerminationByKubelet": ("NodePressure", "terminated by its node"),
}

_TAKEN_AWAY = frozenset({"DisruptionTarget", "TerminationTarget"})
"""The second is Kueue's, on pods that it manages without a Job."""

_BY_QUEUE = re.compile(r"WorkloadEvicted(DueTo(?P<why>\w+))?|NotAdmitted|NoMatchingWorkload")
_USUAL_GRACE_SECONDS = 30

_NODE_CONDITION = re.compile(r"\bnode had condition", re.I)
"""How a node under pressure refuses a pod at its door."""


def disruption(pod: Pod) -> Condition | None:
    """Return the condition by which the cluster or a queue says that it takes the pod away, if it is True."""
    return next(
        (one for one in pod.status.conditions if one.type in _TAKEN_AWAY and one.status == "True"), None
    )


def stopped_early(pod: Pod) -> str:
    """Say what took a pod away, if anything did: an exit code 0 may be no more than its answer to that."""
    condition = disruption(pod)
    if condition is not None:
        return condition.reason or condition.type
    if _ended_by_deletion(pod):
        return "it was deleted"
    return pod.status.reason if pod.status.reason in SHUTDOWN_REASONS | {"Evicted", "Preempting"} else ""


def _ended_by_deletion(pod: Pod) -> bool:
    """Whether a container ended after somebody had asked for the deletion of its pod."""
    metadata = pod.metadata
    due = when(metadata.deletion_timestamp)
    if due is None:
        return False
    grace = metadata.deletion_grace_period_seconds
    asked = due - timedelta(seconds=_USUAL_GRACE_SECONDS if grace is None else grace)
    ends = [one.state.terminated for one in pod.status.container_statuses if one.state.terminated is not None]
    times = [when(end.finished_at) for end in ends]
    return any(time is not None and time >= asked for time in times)


def when(text: str | None) -> datetime | None:
    """Read a time of the API; ``None``: not there or not a time."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    # A time of the API always has a zone; one without it cannot be compared and counts as not there.
    return moment if moment.tzinfo is not None else None


def refused(pod: Pod) -> bool:
    """Whether the node refused the pod at its door."""
    reason = pod.status.reason
    return pod.status.phase == "Failed" and (
        reason in _REFUSED_REASONS
        or reason == "NodeShutdown"
        or reason.startswith("OutOf")
        or (reason == "Evicted" and _NODE_CONDITION.search(pod.status.message) is not None)
    )


def cause_of(condition: Condition) -> tuple[str, str]:
    """Return the cause of a disruption, and what was done to the pod."""
    queue = _BY_QUEUE.fullmatch(condition.reason)
    if queue is not None:
        preempted = queue["why"] == "Preempted"
        return "QueuePreempted" if preempted else "QueueEvicted", "taken away by its queue"
    return _DISRUPTION_CAUSES.get(condition.reason, (condition.reason or "Disrupted", "disrupted"))
