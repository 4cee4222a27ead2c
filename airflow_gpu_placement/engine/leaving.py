"""What says that a machine is about to be taken away, stopped or repaired: no new job is put on it.

A job that tolerates every taint could be put there all the same, and would be lost within minutes. So none of
this is a matter of tolerations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.taints import words

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Node, Taint

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
}
"""Condition type -> status in which the machine is about to be repaired, stopped or taken away."""

_LABELS = {
    "cloud.google.com/active-node-maintenance": "under maintenance",
    "cloud.google.com/perform-maintenance": "maintenance is asked for",
    "cloud.google.com/scheduled-maintenance-time": "maintenance is scheduled",
    "aws-node-termination-handler/action": "about to be taken away",
}
_ONLY_AS = {
    "cloud.google.com/active-node-maintenance": "ONGOING",
    "cloud.google.com/perform-maintenance": "true",
}
"""Labels that say something in one value alone; the others do in any."""


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
        if value and value == _ONLY_AS.get(key, value):
            return what
    return None
