"""Builders of what is seen of a remote job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.model.kube import Job, Pod
from airflow_gpu_placement.model.outcome import NodeView, Observation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

INDEX = "batch.kubernetes.io/job-completion-index"


def job(
    *conditions: tuple[str, str] | tuple[str, str, str],
    deleting: bool = False,
    suspend: bool = False,
    backoff_limit: int | None = 0,
) -> Job:
    """Build a Job; a condition is its type, reason and perhaps message, with status True."""
    return msgspec.convert(
        {
            "metadata": {"name": "j", **({"deletionTimestamp": "2026-01-05T10:00:00Z"} if deleting else {})},
            "spec": {"suspend": suspend, "backoffLimit": backoff_limit},
            "status": {
                "conditions": [
                    {
                        "type": one[0],
                        "status": "True",
                        "reason": one[1],
                        "message": one[2] if len(one) == 3 else "",
                    }
                    for one in conditions
                ]
            },
        },
        Job,
    )


def ended(
    code: int = 1, reason: str = "Error", *, at: str | None = "10:00:00", message: str = ""
) -> dict[str, Any]:
    """Build the state of a container that ended."""
    state: dict[str, Any] = {"exitCode": code, "reason": reason, "message": message}
    if at is not None:
        state["finishedAt"] = f"2026-01-05T{at}Z"
    return {"terminated": state}


RUNNING: dict[str, Any] = {"running": {"startedAt": "2026-01-05T08:00:00Z"}}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """Build the state of a container that does not start."""
    return {"waiting": {"reason": reason, "message": message}}


def disrupted(reason: str, at: str = "09:59:30") -> dict[str, str]:
    """Build the condition that announces a disruption."""
    return {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "lastTransitionTime": f"2026-01-05T{at}Z",
    }


def pod(
    *states: dict[str, Any],
    index: int = 0,
    node: str = "n1",
    phase: str = "Running",
    reason: str = "",
    message: str = "",
    conditions: Sequence[Mapping[str, str]] = (),
    deleting: bool = False,
    init: Sequence[dict[str, Any]] = (),
    memory: str | None = None,
    devices: Sequence[Mapping[str, str]] = (),
    containers: Sequence[str] = (),
) -> Pod:
    """Build a pod of a remote job; one container for each state.

    :param devices: health of the GPUs that each container holds.
    :param containers: their names; empty: names of which none is that of the container that trains.
    """
    health = [{"name": "nvidia.com/gpu", "resources": list(devices)}]
    resources = {"limits": {"memory": memory}} if memory else {}
    names = list(containers) or [f"c{number}" if number else "main" for number in range(max(len(states), 1))]
    return msgspec.convert(
        {
            "metadata": {
                "name": f"w-{index}",
                "uid": f"uid-{index}",
                "labels": {INDEX: str(index)},
                **({"deletionTimestamp": "2026-01-05T10:00:00Z"} if deleting else {}),
            },
            "spec": {
                "nodeName": node,
                "containers": [{"name": name, "resources": resources} for name in names],
            },
            "status": {
                "phase": phase,
                "reason": reason,
                "message": message,
                "conditions": list(conditions),
                "containerStatuses": [
                    {"name": name, "state": state, "allocatedResourcesStatus": health}
                    for name, state in zip(names, states, strict=False)
                ],
                "initContainerStatuses": [
                    {"name": f"init-{number}", "state": state} for number, state in enumerate(init)
                ],
            },
        },
        Pod,
    )


def failed(code: int = 1, why: str = "Error", *, at: str | None = "10:00:00", **fields: Any) -> Pod:
    """Build a pod that failed with an exit code."""
    return pod(ended(code, why, at=at), phase="Failed", **fields)


def node(name: str = "n1", **fields: Any) -> NodeView:
    """Build a node as the watcher sees it."""
    return NodeView(name=name, **fields)


def seen(
    *pods: Pod, of: Job | None = None, gone: bool = False, nodes: Sequence[NodeView] = (), **fields: Any
) -> Observation:
    """Build an observation; ``gone``: the Job does not exist."""
    return Observation(
        job=None if gone else of or job(),
        pods=pods,
        nodes={one.name: one for one in nodes},
        **fields,
    )
