"""What is launched: one attempt, its pool and what its author asked for."""

from __future__ import annotations

from typing import Any

import msgspec

from airflow_gpu_placement.model.attempt import Attempt
from airflow_gpu_placement.model.kube import Quantity
from airflow_gpu_placement.model.pool import GpuPool

ONE_DAY_SECONDS = 86_400


class LaunchSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the remote job is made from.

    :param env: the author's variables; may refer to ours, as in ``$(GPU_PLACEMENT_WRITE_DIR)``.
    :param resources: other resources of each pod, such as ``{"cpu": "8", "memory": "64Gi"}``.
    :param volumes: entries of ``spec.volumes``, as plain API objects.
    :param volume_mounts: entries of the container's ``volumeMounts``, as plain API objects.
    :param excluded_nodes: nodes that must not be used again.
    :param node_labels: label -> accepted values: what tells the right nodes from others, also later ones.
    :param barred_labels: label -> values that no node may carry which takes a pod.
    :param checkpoint_root: with the logical task's hash and generation; ``None``: no checkpoints.
    :param resume_from: the exact checkpoint to go on from; ``None``: there is none.
    :param ttl_seconds: how long the ended job stays to be looked at.
    :param active_deadline_seconds: after which the cluster itself ends the job; ``None``: never.
    """

    attempt: Attempt
    pool: GpuPool
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    gpus_per_node: int = 1
    nodes: int = 1
    resources: dict[str, Quantity] = {}
    volumes: tuple[dict[str, Any], ...] = ()
    volume_mounts: tuple[dict[str, Any], ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    node_labels: dict[str, tuple[str, ...]] = {}
    barred_labels: dict[str, tuple[str, ...]] = {}
    checkpoint_root: str | None = None
    resume_from: str | None = None
    ttl_seconds: int = ONE_DAY_SECONDS
    active_deadline_seconds: int | None = None
