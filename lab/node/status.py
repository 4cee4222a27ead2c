"""Pod status as a kubelet writes it, worked out from what is known about each container."""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lab.node.env import HOST_IP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Containers = Sequence["Seen"]

EPOCH = "1970-01-01T00:00:00Z"
TERMINAL = ("Succeeded", "Failed")
BEFORE_SANDBOX = (
    "ContainerCreating",
    "PodInitializing",
)  # why containers wait that nothing was tried for yet


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
class Seen:
    """All that a pod's status says of one container.

    :param last: how the run before the present one ended.
    """

    spec: Mapping[str, Any]
    state: State
    restarts: int = 0
    last: Terminated | None = None

    @property
    def has_run(self) -> bool:
        """Whether the container has been started at least once."""
        return self.last is not None or not isinstance(self.state, Waiting)


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


def is_complete(init: Seen) -> bool:
    """Say whether an init container has done its work."""
    return isinstance(init.state, Terminated) and init.state.exit_code == 0


def phase_of(policy: str, inits: Containers, containers: Containers) -> str:
    """Return the phase of a pod with this restart policy."""
    if not all(is_complete(init) for init in inits):
        failed = any(isinstance(init.state, Terminated) and init.state.exit_code for init in inits)
        return "Failed" if failed and policy == "Never" else "Pending"
    if any(isinstance(one.state, Waiting) and one.last is None for one in containers):
        return "Pending"
    ended = [one.state for one in containers if isinstance(one.state, Terminated)]
    if len(ended) < len(containers) or policy == "Always":
        return "Running"
    if not any(state.exit_code for state in ended):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def container_id(uid: str, name: str, restarts: int) -> str:
    """Return a stable id for one run of a container."""
    return "lab://" + hashlib.sha256(f"{uid}/{name}/{restarts}".encode()).hexdigest()


def container_status(uid: str, seen: Seen) -> dict[str, Any]:
    """One entry of containerStatuses."""
    name, image = seen.spec["name"], seen.spec["image"]
    running = isinstance(seen.state, Running)
    known_id = container_id(uid, name, seen.restarts)
    # A container that waits for its next run has ended as that one which its id still names.
    last_id = known_id if isinstance(seen.state, Waiting) else container_id(uid, name, seen.restarts - 1)
    return {
        "name": name,
        "image": image,
        "imageID": f"lab://{image}" if seen.has_run else "",
        "ready": running,
        "started": seen.has_run and not isinstance(seen.state, Waiting),
        "restartCount": seen.restarts,
        "state": _shown(seen.state, known_id),
        "lastState": {} if seen.last is None else _shown(seen.last, last_id),
    } | ({"containerID": known_id} if seen.has_run else {})


def _shown(state: State, known_id: str) -> dict[str, Any]:
    match state:
        case Waiting(reason, message):
            return {"waiting": {"reason": reason} | ({"message": message} if message else {})}
        case Running(started_at):
            return {"running": {"startedAt": started_at}}
        case Terminated():
            ended = {
                "exitCode": state.exit_code,
                "reason": state.reason,
                "startedAt": state.started_at,
                "finishedAt": state.finished_at,
                "containerID": known_id,
            }
            return {"terminated": ended | ({"message": state.message} if state.message else {})}


@dataclass(frozen=True)
class Condition:
    """One condition of a pod, without its times."""

    kind: str
    holds: bool
    reason: str = ""
    message: str = ""


def _conditions(inits: Containers, containers: Containers, phase: str) -> list[Condition]:
    unready = [one.spec["name"] for one in containers if not isinstance(one.state, Running)]
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
    incomplete = [init.spec["name"] for init in inits if not is_complete(init)]
    if incomplete:
        text = f"containers with incomplete status: [{' '.join(incomplete)}]"
        initialized = Condition("Initialized", False, "ContainersNotInitialized", text)
    return [
        Condition("PodReadyToStartContainers", phase not in TERMINAL and _has_sandbox((*inits, *containers))),
        initialized,
        ready,
        replace(ready, kind="ContainersReady"),
    ]


def _has_sandbox(containers: Containers) -> bool:
    return any(
        one.has_run or (isinstance(one.state, Waiting) and one.state.reason not in BEFORE_SANDBOX)
        for one in containers
    )


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
    pod: Mapping[str, Any],
    inits: Containers,
    containers: Containers,
    verdict: Verdict | None,
    start_time: str,
) -> dict[str, Any]:
    """Return the status to write for a pod.

    A phase that is terminal in the API is never taken back, and a verdict waits for the containers' end.
    """
    seen = pod.get("status") or {}
    uid: str = pod["metadata"]["uid"]
    if any(isinstance(one.state, Running) for one in (*inits, *containers)):
        verdict = None
    phase = verdict.phase if verdict else phase_of(pod["spec"]["restartPolicy"], inits, containers)
    if seen.get("phase") in TERMINAL:
        phase = seen["phase"]
    status: dict[str, Any] = {
        "phase": phase,
        "startTime": start_time,
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "conditions": _with_times(_conditions(inits, containers, phase), seen.get("conditions") or ()),
        "containerStatuses": [container_status(uid, one) for one in containers],
    }
    if inits:
        status["initContainerStatuses"] = [container_status(uid, one) for one in inits]
    if _has_sandbox((*inits, *containers)):
        status |= {"podIP": HOST_IP, "podIPs": [{"ip": HOST_IP}]}
    if verdict and phase == verdict.phase and verdict.reason:
        status |= {"reason": verdict.reason, "message": verdict.message}
    return status


def rejected_status(verdict: Verdict) -> dict[str, Any]:
    """Return the status of a pod that the node has not admitted: a phase and a reason, no containers."""
    return {"phase": verdict.phase, "reason": verdict.reason, "message": verdict.message, "startTime": now()}
