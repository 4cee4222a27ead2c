"""Pod status as a kubelet writes it, worked out from what is known about each container."""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lab.node.env import HOST_IP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EPOCH = "1970-01-01T00:00:00Z"
TERMINAL = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Waiting:
    """A container that has not started."""

    reason: str = "ContainerCreating"
    message: str = ""


@dataclass(frozen=True)
class Running:
    """A container whose command runs."""

    started_at: str


@dataclass(frozen=True)
class Terminated:
    """A container that has ended."""

    exit_code: int
    reason: str
    started_at: str
    finished_at: str
    message: str = ""


State = Waiting | Running | Terminated


@dataclass(frozen=True)
class Verdict:
    """A phase that the node has decided on, whatever the containers say."""

    phase: str
    reason: str
    message: str


def now() -> str:
    """Return the present moment in the precision that the API keeps."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment(nanoseconds: int) -> str:
    """Return a moment given in nanoseconds since the epoch."""
    return datetime.datetime.fromtimestamp(nanoseconds // 10**9, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def lost_before_start() -> Terminated:
    """Return what a kubelet reports for a container that a deletion overtook."""
    text = "The container could not be located when the pod was terminated"
    return Terminated(137, "ContainerStatusUnknown", EPOCH, EPOCH, text)


def phase_of(states: Sequence[State]) -> str:
    """Return the phase of a pod whose containers are never restarted."""
    if any(isinstance(state, Waiting) for state in states):
        return "Pending"
    ended = [state for state in states if isinstance(state, Terminated)]
    if len(ended) < len(states):
        return "Running"
    return "Failed" if any(state.exit_code for state in ended) else "Succeeded"


def container_id(uid: str, name: str) -> str:
    """Return a stable id for a container."""
    return "lab://" + hashlib.sha256(f"{uid}/{name}".encode()).hexdigest()


def container_status(uid: str, container: Mapping[str, Any], state: State) -> dict[str, Any]:
    """One entry of containerStatuses."""
    running = isinstance(state, Running)
    shown: dict[str, Any]
    known_id = container_id(uid, container["name"])
    match state:
        case Waiting(reason, message):
            shown = {"waiting": {"reason": reason} | ({"message": message} if message else {})}
        case Running(started_at):
            shown = {"running": {"startedAt": started_at}}
        case Terminated():
            shown = {
                "terminated": {
                    "exitCode": state.exit_code,
                    "reason": state.reason,
                    "startedAt": state.started_at,
                    "finishedAt": state.finished_at,
                    "containerID": known_id,
                }
                | ({"message": state.message} if state.message else {})
            }
    started = not isinstance(state, Waiting)
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": f"lab://{container['image']}" if started else "",
        "ready": running,
        "started": running,
        "restartCount": 0,
        "state": shown,
        "lastState": {},
    } | ({"containerID": known_id} if started else {})


@dataclass(frozen=True)
class Condition:
    """One condition of a pod, without its times."""

    kind: str
    holds: bool
    reason: str = ""
    message: str = ""


def _conditions(
    pod: Mapping[str, Any], states: Sequence[State], phase: str, sandbox_ready: bool
) -> list[Condition]:
    names = [container["name"] for container in pod["spec"]["containers"]]
    unready = [name for name, state in zip(names, states, strict=True) if not isinstance(state, Running)]
    ready = Condition("Ready", not unready)
    if phase == "Succeeded":
        ready = Condition("Ready", False, "PodCompleted")
    elif phase == "Failed":
        ready = Condition("Ready", False, "PodFailed")
    elif unready:
        ready = Condition(
            "Ready", False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
        )
    initialized = Condition("Initialized", True, "PodCompleted" if phase == "Succeeded" else "")
    return [
        Condition("PodReadyToStartContainers", sandbox_ready and phase not in TERMINAL),
        initialized,
        ready,
        replace(ready, kind="ContainersReady"),
    ]


def _with_times(conditions: Sequence[Condition], before: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Conditions in the API's form; the transition time moves only when the status changes."""
    old = {item["type"]: item for item in before}
    written = []
    for condition in conditions:
        status = "True" if condition.holds else "False"
        known = old.get(condition.kind, {})
        since = known.get("lastTransitionTime") if known.get("status") == status else None
        written.append(
            {
                "type": condition.kind,
                "status": status,
                "reason": condition.reason or None,
                "message": condition.message or None,
                "lastProbeTime": None,
                "lastTransitionTime": since or now(),
            }
        )
    return written


def pod_status(
    pod: Mapping[str, Any], states: Sequence[State], verdict: Verdict | None, start_time: str
) -> dict[str, Any]:
    """Return the status to write for a pod.

    A phase that is terminal in the API is never taken back, and a verdict waits for the containers' end.
    """
    seen = pod.get("status") or {}
    if any(isinstance(state, Running) for state in states):
        verdict = None
    phase = verdict.phase if verdict else phase_of(states)
    if seen.get("phase") in TERMINAL:
        phase = seen["phase"]
    containers = pod["spec"]["containers"]
    sandbox_ready = any(not isinstance(state, Waiting) for state in states)
    conditions = _conditions(pod, states, phase, sandbox_ready)
    status: dict[str, Any] = {
        "phase": phase,
        "startTime": start_time,
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "conditions": _with_times(conditions, seen.get("conditions") or ()),
        "containerStatuses": [
            container_status(pod["metadata"]["uid"], container, state)
            for container, state in zip(containers, states, strict=True)
        ],
    }
    if sandbox_ready:
        status |= {"podIP": HOST_IP, "podIPs": [{"ip": HOST_IP}]}
    if verdict and phase == verdict.phase and verdict.reason:
        status |= {"reason": verdict.reason, "message": verdict.message}
    return status


def rejected_status(verdict: Verdict) -> dict[str, Any]:
    """Return the status of a pod that the node has not admitted: a phase and a reason, no containers."""
    return {"phase": verdict.phase, "reason": verdict.reason, "message": verdict.message, "startTime": now()}
