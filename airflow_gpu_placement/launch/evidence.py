"""How well it is proven that the processes of a pod have ended: pure.

The API says little by itself: a Job can be ``Failed``, its pod and its Node gone, while the process still
writes. Only the node that ran a container knows. So the proof is the pod's last state: every container
``terminated``, as the node reported it. The garbage collector and people can end a pod object too; they leave
the containers as they were, and that is no proof.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.pod_evidence import ended
from airflow_gpu_placement.model.outcome import EndGrade

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_gpu_placement.model.kube import ContainerState, Node, Pod

OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"
_ORDER = (EndGrade.CONFIRMED, EndGrade.ASSERTED, EndGrade.UNKNOWN)


def reported_ended(pod: Pod) -> bool:
    """Whether the pod's own state proves that no process of it runs or will."""
    if not pod.spec.node_name:
        # Never given to a node. An object that still exists may be bound later: it counts once it is gone.
        return ended(pod)
    states = _states(pod)
    if any(state.running is not None for state in states):
        return False
    if len(states) >= len(pod.spec.containers) and all(state.terminated is not None for state in states):
        return True
    # Refused by its node, or ended before a container started: the node says so in the phase.
    return ended(pod) and not _collected(pod)


def vanished_ended(pod: Pod, node: Node | None) -> bool:
    """Whether a pod whose object is gone has ended for sure.

    :param pod: its last state.
    :param node: its node now; ``None``: there is no such Node.
    """
    if reported_ended(pod) or not pod.spec.node_name:
        return True
    nothing_started = all(state.running is None and state.terminated is None for state in _states(pod))
    # A node that answers removes such a pod itself; one that does not may start it yet.
    return nothing_started and not _collected(pod) and node is not None and is_ready(node)


def asserted(node: Node | None, *, node_deletion_is_proof: bool) -> bool:
    """Whether somebody who should know says that the machine is off.

    :param node: ``None``: there is no such Node.
    """
    if node is None:
        return node_deletion_is_proof
    return any(taint.key == OUT_OF_SERVICE_TAINT for taint in node.spec.taints)


def worst(grades: Iterable[EndGrade]) -> EndGrade:
    """Return the weakest of several proofs; of none it is ``confirmed``, for nothing ever ran."""
    return max(grades, key=_ORDER.index, default=EndGrade.CONFIRMED)


def is_ready(node: Node) -> bool:
    """Whether the node's own report is recent enough for the cluster to call it ready."""
    return any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)


def _states(pod: Pod) -> list[ContainerState]:
    return [one.state for one in (*pod.status.init_container_statuses, *pod.status.container_statuses)]


def _collected(pod: Pod) -> bool:
    """Whether the pod garbage collector ended the object, which says nothing of the processes."""
    return any(
        one.type == "DisruptionTarget" and one.status == "True" and one.reason == "DeletionByPodGC"
        for one in pod.status.conditions
    )
