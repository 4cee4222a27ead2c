"""Which containers of a pod decide how it ended.

Clusters add containers to pods, such as proxies and log shippers. In a pod with a container that trains, that
one decides, and init containers before it; what the others do is no more than a remark. It is known by its
name; where none has that name, by the GPUs that it asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.container_evidence import first_failure
from airflow_gpu_placement.engine.ranks import TRAINING_CONTAINER

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Container, ContainerStatus, Pod, Terminated

_GPU_VENDORS = ("nvidia.com/", "amd.com/")
"""What the names of GPU resources begin with, those of slices and shares included."""


def decisive(pod: Pod) -> tuple[ContainerStatus, ...]:
    """Return the status of the container that trains; those of all containers when nothing tells which."""
    reported = pod.status.container_statuses
    names = _training(pod)
    return tuple(one for one in reported if one.name in names) if names else reported


def _training(pod: Pod) -> frozenset[str]:
    """Name the containers that train; none: nothing tells them from others."""
    names = {*(one.name for one in pod.spec.containers), *(one.name for one in pod.status.container_statuses)}
    if TRAINING_CONTAINER in names:
        return frozenset({TRAINING_CONTAINER})
    return frozenset(one.name for one in pod.spec.containers if _holds_gpus(one))


def _holds_gpus(container: Container) -> bool:
    return any(name.startswith(_GPU_VENDORS) for name in container.resources.limits)


def bystanders(pod: Pod) -> tuple[ContainerStatus, ...]:
    """Return the statuses of the containers that do not decide."""
    names = _training(pod)
    return tuple(one for one in pod.status.container_statuses if names and one.name not in names)


def has_run(pod: Pod) -> bool:
    """Whether the training of the pod runs or has run, by what the node reported."""
    return any(one.state.running is not None or one.state.terminated is not None for one in decisive(pod))


def bad_end(pod: Pod) -> tuple[str, Terminated] | None:
    """Return the container that is to blame when the pod has failed, with its state.

    Sidecars among the init containers end after the training, and badly more often than not.
    """
    return first_failure(decisive(pod)) or first_failure(pod.status.init_container_statuses)


def good_end(pod: Pod) -> Terminated | None:
    """Return how the container that trains ended, if that was with 0; ``None`` too when nothing tells it."""
    ends = [one.state.terminated for one in decisive(pod)] if _training(pod) else []
    good = [end for end in ends if end is not None and end.exit_code == 0]
    return good[-1] if good and len(good) == len(ends) else None


def bystander_failures(pod: Pod) -> str:
    """Name the containers that ended badly and do not decide; empty: there are none."""
    return ", ".join(
        f"{one.name} (exit code {one.state.terminated.exit_code})"
        for one in bystanders(pod)
        if one.state.terminated is not None and one.state.terminated.exit_code != 0
    )
