"""What a node says about a pod that ended on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.container_evidence import SIGKILL_EXIT, SIGTERM_EXIT
from airflow_gpu_placement.engine.device_faults import faults_of, unhealthy_devices
from airflow_gpu_placement.model.outcome import NodeView, OutcomeKind

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.finding import Finding
    from airflow_gpu_placement.model.kube import Node, Pod

OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"

LEAVING_TAINTS = {
    "node.kubernetes.io/unreachable": "the cluster calls it unreachable",
    "node.cloudprovider.kubernetes.io/shutdown": "its cloud has stopped it",
    "cloud.google.com/impending-node-termination": "its cloud takes it back",
    "aws-node-termination-handler/spot-itn": "its cloud takes it back",
    "aws-node-termination-handler/scheduled-maintenance": "its cloud maintains it",
    "aws-node-termination-handler/asg-lifecycle-termination": "its group shrinks",
    "aws-node-termination-handler/rebalance-recommendation": "its cloud is about to take it back",
    "karpenter.sh/disrupted": "its autoscaler replaces it",
    "karpenter.sh/disruption": "its autoscaler replaces it",
    "ToBeDeletedByClusterAutoscaler": "its autoscaler deletes it",
}
"""Taint key -> why the node is about to go; put by a controller, not by the owner of a pool."""

LEAVING_CONDITIONS = {
    "VMEventScheduled": "its cloud has announced an event",
    "CSPMaintenance": "its cloud maintains it",
    "GracefulNodeShutdownInProgress": "it shuts down",
    "DrainInProgress": "it is being drained",
    "MaintenanceInProgress": "it is being maintained",
}
"""Condition type that is True -> why the node is about to go."""

_NO_PROOF = frozenset({"DeviceFault", "NodePressure"})
"""Troubles of a node that explain the end of a pod and do not prove that they caused it."""

_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")
_ARCHITECTURE_LABEL = "kubernetes.io/arch"


def node_view(
    name: str,
    node: Node | None,
    *,
    exists: bool = True,
    ready_seconds: float = 0.0,
    silent_seconds: float = 0.0,
    renew_seconds: float = 10.0,
    known_boot_id: str = "",
) -> NodeView:
    """Sum up a node as far as a remote job on it is concerned.

    :param node: its object; ``None``: not there, or not seen yet.
    :param exists: whether it is there.
    :param known_boot_id: boot id when the job came; empty: not known.
    """
    if node is None:
        return NodeView(
            name=name,
            exists=exists,
            ready="Unknown",
            ready_seconds=ready_seconds,
            silent_seconds=silent_seconds,
            renew_seconds=renew_seconds,
            boot_id=known_boot_id,
        )
    boot_id = node.status.node_info.boot_id
    return NodeView(
        name=name,
        ready=ready_status(node),
        ready_seconds=ready_seconds,
        silent_seconds=silent_seconds,
        renew_seconds=renew_seconds,
        out_of_service=any(taint.key == OUT_OF_SERVICE_TAINT for taint in node.spec.taints),
        leaving=_leaving(node),
        faults=faults_of(node),
        pressure=tuple(
            one.type for one in node.status.conditions if one.type in _PRESSURES and one.status == "True"
        ),
        rebooted=bool(known_boot_id and boot_id) and boot_id != known_boot_id,
        architecture=node.metadata.labels.get(_ARCHITECTURE_LABEL)
        or node.status.node_info.architecture
        or None,
        boot_id=known_boot_id or boot_id,
    )


def ready_status(node: Node) -> str:
    """Return the status of a node's Ready condition; one without it is not known to be ready."""
    return next((one.status for one in node.status.conditions if one.type == "Ready"), "Unknown")


def _leaving(node: Node) -> str:
    for taint in node.spec.taints:
        if taint.key in LEAVING_TAINTS:
            return LEAVING_TAINTS[taint.key]
    for one in node.status.conditions:
        if one.status == "True" and one.type in LEAVING_CONDITIONS:
            return LEAVING_CONDITIONS[one.type]
    return ""


def weighed_with_node(finding: Finding, pod: Pod, node: NodeView | None) -> Finding:
    """Weigh what a pod's exit code says against what its node and its devices say.

    An exit code alone blames the program; so does a kill for want of memory. A node that broke at the same
    time, or a device of it, is the better explanation, though not a certain one.
    """
    if finding.cause == "OOMKilled":
        return _out_of_memory(finding, pod, node)
    if not finding.by_exit:
        return finding
    cause, why = _trouble(finding, pod, node)
    if not why:
        return finding
    return msgspec.structs.replace(
        finding,
        kind=OutcomeKind.INFRASTRUCTURE,
        cause=cause,
        what=f"{finding.what}; {why}",
        by_exit=False,
        secondary=False,
        blames_node=cause != "NodePressure",
        ambiguous=finding.exit_code not in {SIGKILL_EXIT, SIGTERM_EXIT} or cause in _NO_PROOF,
    )


def _trouble(finding: Finding, pod: Pod, node: NodeView | None) -> tuple[str, str]:
    """Return a cause and words for what is wrong with a node; two empty texts: nothing is."""
    devices = unhealthy_devices(pod)
    if devices:
        return "DeviceFault", f"its node reports {', '.join(devices)} unhealthy"
    if node is None:
        return "", ""
    if not node.exists:
        return "NodeGone", "its Node object is gone"
    if node.out_of_service:
        return "NodeLost", "its node is marked out of service"
    if node.faults:
        return "DeviceFault", f"its node reports {', '.join(node.faults)}"
    if node.ready != "True":
        return "NodeNotReady", f"its node is not ready (Ready={node.ready})"
    if node.leaving and finding.exit_code in {SIGKILL_EXIT, SIGTERM_EXIT}:
        return "NodeShutdown", f"its node goes away: {node.leaving}"
    if finding.exit_code == SIGKILL_EXIT and "MemoryPressure" in node.pressure and not _limits_memory(pod):
        return "NodePressure", "its node runs out of memory, and it has no memory limit of its own"
    return "", ""


def _limits_memory(pod: Pod) -> bool:
    return any("memory" in container.resources.limits for container in pod.spec.containers)


def _out_of_memory(finding: Finding, pod: Pod, node: NodeView | None) -> Finding:
    """Tell a container's own limit from a node that ran out of memory."""
    if _limits_memory(pod):
        return finding
    if node is not None and "MemoryPressure" in node.pressure:
        return msgspec.structs.replace(
            finding,
            kind=OutcomeKind.INFRASTRUCTURE,
            cause="NodePressure",
            what="was killed because its node ran out of memory; it has no memory limit of its own",
            ambiguous=True,
        )
    return msgspec.structs.replace(finding, ambiguous=True)
