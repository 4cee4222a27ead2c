"""What the silence of nodes and of a whole cluster means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.engine.disruptions import disruption, when

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Pod
    from airflow_gpu_placement.model.outcome import LossPolicy, NodeView, Observation

SUSPICIOUS_RENEWALS = 2.4
"""Two missed renewals, and some of one for what comes late.

That is 24 seconds with renewals every 10, so that with the watcher's own ticks a loss is suspected within 25.
"""

CLUSTER_SHARE = 1 / 3
CLUSTER_NODES = 3
"""More than this share of more than this many nodes silent at once is a fault of the cluster."""


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes of a job, by what is believed of them.

    :param lost: node name -> why it counts as lost; none of its pods is heard of again soon.
    :param suspected: node name -> what is odd.
    :param lost_pod: name of the first pod that is lost with its node.
    :param whole_cluster: the nodes that are silent are so many that the cluster is at fault, not they.
    """

    lost: dict[str, str] = {}
    suspected: dict[str, str] = {}
    lost_pod: str = ""
    whole_cluster: bool = False


def silent_seconds(node: NodeView, observation: Observation) -> float:
    """Return how long a node was silent while its cluster could be heard; the rest says nothing about it."""
    return max(node.silent_seconds - observation.unreachable_seconds, 0.0)


def is_silent(node: NodeView, observation: Observation) -> bool:
    """Whether a node has missed two renewals of its Lease."""
    return silent_seconds(node, observation) > SUSPICIOUS_RENEWALS * node.renew_seconds


def is_whole_cluster(observation: Observation) -> bool:
    """Whether so many nodes are silent together that the cluster is at fault.

    One silent node never is, however few nodes the cluster has.
    """
    share = observation.stale_share
    silent_here = sum(is_silent(node, observation) for node in observation.nodes.values())
    stale = max(observation.stale_nodes, silent_here)
    return share > CLUSTER_SHARE and stale > 1 and stale / share > CLUSTER_NODES


def listen(pods: tuple[Pod, ...], observation: Observation, policy: LossPolicy) -> Silence:
    """Judge the nodes of pods that have not ended.

    :param pods: pods of the job whose containers were not reported terminated.
    """
    whole_cluster = is_whole_cluster(observation)
    lost: dict[str, str] = {}
    suspected: dict[str, str] = {}
    lost_pod = ""
    for pod in pods:
        name = pod.spec.node_name
        if not name or name in lost:
            continue
        grace_seconds = policy.cluster_grace_seconds if whole_cluster else policy.node_grace_seconds
        node = observation.nodes.get(name)
        why = _stuck(pod, observation, policy.cluster_grace_seconds)
        if node is None:
            if why is not None:
                lost[name], lost_pod = why, lost_pod or pod.metadata.name
            continue
        why = _lost(node, pod, observation, grace_seconds) or why
        if why is not None:
            lost[name], lost_pod = why, lost_pod or pod.metadata.name
            suspected.pop(name, None)
        elif is_silent(node, observation):
            seconds = silent_seconds(node, observation)
            suspected[name] = f"silent for {seconds:.0f} s, counts as lost after {grace_seconds:g} s"
        elif node.ready != "True":
            suspected[name] = f"Ready={node.ready}"
    return Silence(lost=lost, suspected=suspected, lost_pod=lost_pod, whole_cluster=whole_cluster)


def _lost(node: NodeView, pod: Pod, observation: Observation, grace_seconds: float) -> str | None:
    if not node.exists:
        return "its Node object is gone"
    if node.rebooted:
        return "it was booted anew, which ended everything on it"
    if node.out_of_service:
        return "it is marked out of service"
    seconds = silent_seconds(node, observation)
    if seconds > grace_seconds:
        return f"silent for {seconds:.0f} s, longer than the {grace_seconds:g} s allowed"
    if node.ready != "True" and node.ready_seconds > grace_seconds:
        return (
            f"not ready (Ready={node.ready}) for {node.ready_seconds:.0f} s, "
            f"longer than the {grace_seconds:g} s allowed"
        )
    condition = disruption(pod)
    taken_away = condition is not None and pod.metadata.deletion_timestamp is not None
    if taken_away and condition is not None and (is_silent(node, observation) or node.ready != "True"):
        return f"the cluster has given it up ({condition.reason})"
    return None


def _stuck(pod: Pod, observation: Observation, grace_seconds: float) -> str | None:
    """Notice a pod that should have ended long ago: its deletion time includes its own grace already.

    Another machine wrote that time, so the grace is the long one: no clock is that wrong unnoticed.
    """
    due = when(pod.metadata.deletion_timestamp)
    if due is None or observation.now is None or pod.metadata.uid in observation.vanished:
        return None
    seconds = (observation.now - due).total_seconds()
    if seconds <= grace_seconds:
        return None
    return f"pod {pod.metadata.name} should have ended {seconds:.0f} s ago and has not"
