"""What says that a machine is about to be taken away, stopped or repaired: no new job is put on it.

A job that tolerates every taint could be put there all the same, and would be lost within minutes. So none of
this is a matter of tolerations.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.taints import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_gpu_placement.model.kube import Node, Taint
    from airflow_gpu_placement.model.signals import NodeCapacity

LEAVING_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "cloud.google.com/impending-node-termination",
    "karpenter.sh/disrupted",
    "karpenter.sh/unregistered",
    "aws-node-termination-handler/",
    "ToBeDeletedByClusterAutoscaler",
)
"""How the keys of taints begin that come and go with the state of a node. An autoscaler's candidates for
deletion are not among them: a job that is put there keeps the node."""

_CONDITIONS = {
    # scheduled events of AKS
    "VMEventScheduled": "True",
    # NVSentinel
    "CSPMaintenance": "True",
    # node monitoring agent of EKS, which has such nodes repaired
    "KernelReady": "False",
    "NetworkingReady": "False",
    "StorageReady": "False",
    "ContainerRuntimeReady": "False",
    # kubelet and cloud; the taints that keep pods off follow a moment later
    "MemoryPressure": "True",
    "DiskPressure": "True",
    "PIDPressure": "True",
    "NetworkUnavailable": "True",
}
"""Condition type -> status in which the machine is short of something, or about to be repaired, stopped or
taken away."""

_LABELS = {
    "cloud.google.com/active-node-maintenance": "under maintenance",
    "cloud.google.com/perform-maintenance": "maintenance is asked for",
    "aws-node-termination-handler/action": "about to be taken away",
    "nvidia.com/gpu-driver-upgrade-state": "its driver is about to be replaced",
}
_ONLY_AS = {
    "cloud.google.com/active-node-maintenance": frozenset({"ONGOING"}),
    "cloud.google.com/perform-maintenance": frozenset({"true"}),
    # GPU operator: the node is to be cordoned and drained; later states find it cordoned
    "nvidia.com/gpu-driver-upgrade-state": frozenset(
        {
            "node-maintenance-required",
            "cordon-required",
            "wait-for-jobs-required",
            "pod-deletion-required",
            "drain-required",
        }
    ),
}
"""Labels that say something in some values alone; the others do in any."""

_SCHEDULED = "cloud.google.com/scheduled-maintenance-time"
"""Label of GKE: from when on the machine may be stopped for maintenance, in seconds since 1970."""


def leaving_taints(node: Node) -> tuple[Taint, ...]:
    """Return the taints of a node that no toleration makes good."""
    return tuple(taint for taint in node.spec.taints if taint.effect and taint.key.startswith(LEAVING_TAINTS))


def leaving_because(node: Node) -> str | None:
    """Say why a machine is about to go, or to be worked on; ``None``: nothing says so."""
    taints = leaving_taints(node) if node.spec.taints else ()
    if taints:
        return f"taint {', '.join(map(words, taints))}"
    for one in node.status.conditions:
        if one.status == _CONDITIONS.get(one.type):
            return f"{one.type}={one.status}"
    labels = node.metadata.labels
    for key, what in _LABELS.items():
        value = labels.get(key)
        if value and value in _ONLY_AS.get(key, (value,)):
            return what
    return "maintenance is scheduled" if labels.get(_SCHEDULED) and leaves_at(labels) is None else None


def leaves_at(labels: Mapping[str, str]) -> datetime | None:
    """Return when a machine is to be stopped for maintenance.

    :return: ``None``: nothing says so, or it cannot be read, which :func:`leaving_because` takes for now.
    """
    text = labels.get(_SCHEDULED, "")
    try:
        return datetime.fromtimestamp(int(text), UTC) if text.isdecimal() else None
    except (OverflowError, OSError, ValueError):  # no moment of this calendar
        return None


def closed_from(node: NodeCapacity, until: datetime | None) -> NodeCapacity:
    """Close a node whose machine is stopped before a job on it would have ended.

    :param until: when that is; ``None``: nobody knows, so that any maintenance comes too early.
    """
    at = node.leaves_at
    if at is None or node.closed or (until is not None and until <= at):
        return node
    return msgspec.structs.replace(
        node, free=0, closed=True, unusable_because=f"maintenance at {at:%Y-%m-%d %H:%M} UTC"
    )


def closed_by_maintenance(nodes: Iterable[NodeCapacity]) -> frozenset[str]:
    """Return the names of closed nodes that the scheduler may take all the same: no taint keeps it off."""
    return frozenset([node.name for node in nodes if node.leaves_at is not None and node.closed])
