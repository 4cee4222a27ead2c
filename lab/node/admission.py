"""What a process node refuses, and how long a pod that must end may still take."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from lab.node import volumes
from lab.node.devices import wanted_gpus
from lab.node.status import TERMINAL

if TYPE_CHECKING:
    from collections.abc import Mapping

UNSUPPORTED_FIELDS = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "volumeDevices")
LEAST_GRACE_SECONDS = 1.0  # a kubelet gives at least this, also to a pod that was deleted by force


def unsupported(pod: Mapping[str, Any]) -> str | None:
    """Say what a pod asks for that the lab's nodes cannot do, or nothing."""
    spec = pod["spec"]
    inits = spec.get("initContainers") or []
    for container in inits:
        if "restartPolicy" in container:
            return (
                f"init container {container['name']!r} has restartPolicy: make it one of the pod's containers"
            )
        if wanted_gpus({"spec": {"containers": [container]}}):
            return (
                f"init container {container['name']!r} has GPUs: the lab's nodes give them to containers only"
            )
    for container in (*inits, *spec["containers"]):
        for word in UNSUPPORTED_FIELDS:
            if word in container:
                return f"container {container['name']!r} has {word}: the lab's nodes have none; leave it out"
    return volumes.unsupported(spec.get("volumes") or [])


def is_over(pod: Mapping[str, Any]) -> bool:
    """Say whether the API server shows a phase that cannot change any more."""
    return (pod.get("status") or {}).get("phase") in TERMINAL


def usual_grace(pod: Mapping[str, Any]) -> float:
    """Return the grace that the pod's author has set."""
    return max(LEAST_GRACE_SECONDS, float(pod["spec"].get("terminationGracePeriodSeconds") or 0))


def requested_grace(pod: Mapping[str, Any]) -> float | None:
    """Return how long a pod may still take that the API server wants to end; None if it may run."""
    if "deletionTimestamp" in pod["metadata"]:
        return max(LEAST_GRACE_SECONDS, float(pod["metadata"].get("deletionGracePeriodSeconds") or 0))
    return usual_grace(pod) if is_over(pod) else None


def seconds_left(pod: Mapping[str, Any], start_time: str, now_seconds: float) -> float | None:
    """Return the seconds until a pod's activeDeadlineSeconds; None when it has none."""
    limit = pod["spec"].get("activeDeadlineSeconds")
    if limit is None:
        return None
    started = datetime.datetime.fromisoformat(start_time).timestamp()
    return max(0.0, started + float(limit) - now_seconds)
