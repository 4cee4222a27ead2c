"""The place of a pod in its gang."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import ContainerState, Pod

TRAINING_CONTAINER = "training"
_INDEX = "batch.kubernetes.io/job-completion-index"


def index_of(pod: Pod) -> int | None:
    """Return the index of a pod in its gang; ``None``: it is the only pod of its job."""
    text = pod.metadata.annotations.get(_INDEX) or pod.metadata.labels.get(_INDEX) or ""
    return int(text) if text.isdecimal() else None


def rank_of(pod: Pod) -> int:
    """Return the rank of a pod; 0 for the only pod of a job without indexes."""
    return index_of(pod) or 0


def training_state(pod: Pod) -> ContainerState | None:
    """Return the state of the container that trains; ``None``: its node has not reported one."""
    statuses = pod.status.container_statuses
    return next((one.state for one in statuses if one.name == TRAINING_CONTAINER), None)
