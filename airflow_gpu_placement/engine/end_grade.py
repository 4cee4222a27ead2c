"""How well it is proven that every process of a remote job has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.disruptions import disruption, refused
from airflow_gpu_placement.engine.pod_evidence import ended, statuses
from airflow_gpu_placement.model.outcome import EndGrade

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Pod
    from airflow_gpu_placement.model.outcome import LossPolicy, NodeView, Observation

_WORSE = (EndGrade.CONFIRMED, EndGrade.ASSERTED, EndGrade.UNKNOWN)


def confirmed_end(pod: Pod) -> bool:
    """Whether the node itself reported every container of a pod terminated, or no container could ever run.

    The phase proves nothing: the control plane writes ``Failed`` for a pod whose node is gone.
    """
    if not pod.spec.node_name or refused(pod):
        return True
    seen = list(statuses(pod))
    if not seen or len(pod.status.container_statuses) < len(pod.spec.containers):
        return False
    if all(one.state.terminated is not None for one in seen):
        return True
    condition = disruption(pod)
    by_node = ended(pod) and not (condition is not None and condition.reason == "DeletionByPodGC")
    return by_node and all(one.state.running is None for one in seen)


def end_grade(observation: Observation, policy: LossPolicy) -> EndGrade:
    """Grade the end of a job by its least proven pod; a job of which no pod was seen proves nothing."""
    grades = [_pod_grade(pod, observation.nodes.get(pod.spec.node_name), policy) for pod in observation.pods]
    return max(grades, key=_WORSE.index, default=EndGrade.UNKNOWN)


def _pod_grade(pod: Pod, node: NodeView | None, policy: LossPolicy) -> EndGrade:
    if confirmed_end(pod) or (node is not None and node.rebooted):
        return EndGrade.CONFIRMED
    if node is not None and (node.out_of_service or (not node.exists and policy.node_deletion_is_proof)):
        return EndGrade.ASSERTED
    return EndGrade.UNKNOWN
