"""Which job a pod is of, its place in the gang, and which of its containers trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import ContainerState, Pod

TRAINING_CONTAINER = "training"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
CONTROLLER_UID_LABEL = "batch.kubernetes.io/controller-uid"


def job_uid_of(pod: Pod) -> str:
    """Return the uid of the Job that a pod belongs to; it stays known when the Job is gone."""
    return pod.metadata.labels.get(CONTROLLER_UID_LABEL, "")


def index_of(pod: Pod) -> int | None:
    """Return the index of a pod in its gang; ``None``: it is the only pod of its job."""
    metadata = pod.metadata
    text = metadata.annotations.get(COMPLETION_INDEX) or metadata.labels.get(COMPLETION_INDEX) or ""
    return int(text) if text.isdecimal() else None


def rank_of(pod: Pod) -> int:
    """Return the rank of a pod; 0 for the only pod of a job without indexes."""
    return index_of(pod) or 0


def training_state(pod: Pod) -> ContainerState | None:
    """Return the state of the container that trains; ``None``: its node has not reported one."""
    statuses = pod.status.container_statuses
    return next((one.state for one in statuses if one.name == TRAINING_CONTAINER), None)
