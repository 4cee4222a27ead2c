"""What containers say: how one ended, or why one does not start."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.finding import Finding
from airflow_gpu_placement.model.outcome import OutcomeKind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from airflow_gpu_placement.model.kube import ContainerStatus, Pod, Terminated, Waiting

SIGKILL_EXIT = 137
SIGTERM_EXIT = 143

_CRASHES = {
    132: "SIGILL",
    134: "SIGABRT, as after a failed check or an aborted collective",
    135: "SIGBUS, often of a /dev/shm that is too small",
    136: "SIGFPE",
    139: "SIGSEGV",
}
"""Exit code -> what a crash it may be; broken hardware looks the same."""

_START_FAILURES = frozenset({"StartError", "ContainerCannotRun"})
_LOST_CONTAINER = frozenset({"ContainerStatusUnknown", "Unknown"})
"""The node could not find the container any more, as after a reboot; the exit code beside it is made up."""

_SHOWN_CHARACTERS = 500

_GPU_SETUP = re.compile(r"nvidia|nvml|libcuda|\bcdi\b|amdgpu|rocm|unknown device", re.I)
_OWN_COMMAND = re.compile(r'unable to start container process: (error during container init: )?exec: "', re.I)
"""The runtime names the container's own command, whatever that is called; not a hook that sets up GPUs."""

_BAD_COMMAND = re.compile(r"executable file not found|no such file or directory|permission denied", re.I)
_WRONG_ARCHITECTURE = re.compile(r"exec format error|no match(ing manifest)? for (platform|linux/)", re.I)

_PULL_FAILURES = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "RegistryUnavailable",
        "ImageInspectError",
        "SignatureValidationFailed",
    }
)
_PASSING = re.compile(
    r"\b429\b|toomanyrequests|rate limit|time[d ]?-?out|deadline exceeded|\b50\d\b|tls|x509|connection re|"
    r"no such host|i/o|\beof\b|temporar|try again|unavailable",
    re.I,
)
_DENIED = re.compile(r"\b40[13]\b|unauthori[sz]ed|forbidden|denied|authentication required|credentials", re.I)
_NAME = re.compile(r'"([^"\s]+)"')
_ADDRESS = re.compile(r"https?://\S+")
_ABSENT = re.compile(r"not found|manifest unknown|name unknown|does not exist|\b404\b", re.I)


def first_failure(statuses: Iterable[ContainerStatus]) -> tuple[str, Terminated] | None:
    """Return the container that ended badly first, with its state; one without a time comes last."""
    bad = [
        (one.name, one.state.terminated)
        for one in statuses
        if one.state.terminated is not None and one.state.terminated.exit_code != 0
    ]
    return min(bad, key=lambda pair: (not pair[1].finished_at, pair[1].finished_at or ""), default=None)


def app_exit(pod: Pod, name: str, end: Terminated, *, at: datetime | None) -> Finding:
    """Judge a container that ended badly on its own account."""
    where = f"container {name}"
    if end.reason == "OOMKilled":
        return Finding(
            kind=OutcomeKind.APPLICATION,
            cause="OOMKilled",
            what=f"ran out of memory: {where} was killed at {_memory_limit(pod, name)}",
            at=at,
            exit_code=end.exit_code,
        )
    if end.reason in _LOST_CONTAINER:
        return Finding(
            kind=OutcomeKind.INFRASTRUCTURE,
            cause="ContainerStatusUnknown",
            what=f"came back without {where}, as after a reboot of its node",
            blames_node=True,
        )
    if end.reason in _START_FAILURES:
        return start_failure(end.reason, end.message, at=at, exit_code=end.exit_code)
    if end.exit_code == SIGKILL_EXIT:
        limit = _memory_limit(pod, name)
        what = f"was killed ({where}, SIGKILL) and nothing says by what; {limit} may be too low"
        return _exit("Killed", what, end, at, ambiguous=True)
    if end.exit_code == SIGTERM_EXIT:
        what = f"was stopped ({where}, SIGTERM) and nothing says by what"
        return _exit("Terminated", what, end, at, ambiguous=True, secondary=True)
    message = end.message.strip()
    said = f": {message[-_SHOWN_CHARACTERS:]}" if message else ""
    crash = _CRASHES.get(end.exit_code)
    if crash is not None:
        said = f", which a shell uses for {crash}{said}"
    return _exit(
        "Error", f"exited with code {end.exit_code} ({where}){said}", end, at, ambiguous=crash is not None
    )


def _exit(
    cause: str,
    what: str,
    end: Terminated,
    at: datetime | None,
    *,
    ambiguous: bool = False,
    secondary: bool = False,
) -> Finding:
    return Finding(
        kind=OutcomeKind.APPLICATION,
        cause=cause,
        what=what,
        at=at,
        exit_code=end.exit_code,
        by_exit=True,
        ambiguous=ambiguous,
        secondary=secondary,
    )


def _memory_limit(pod: Pod, name: str) -> str:
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        if container.name == name and "memory" in container.resources.limits:
            return f"its memory limit of {container.resources.limits['memory']}"
    return "the memory limit"


def start_failure(
    reason: str, message: str, *, at: datetime | None = None, exit_code: int | None = None
) -> Finding:
    """Judge a container that its runtime could not start."""
    said = f" ({message.strip()})" if message.strip() else ""
    kind, cause, what, ambiguous = OutcomeKind.INFRASTRUCTURE, reason, f"could not be started{said}", True
    gpu_setup = _GPU_SETUP.search(message) is not None and _OWN_COMMAND.search(message) is None
    if gpu_setup:
        cause, what, ambiguous = "DeviceFault", f"could not get its GPUs from its node{said}", False
    elif _WRONG_ARCHITECTURE.search(message):
        kind, cause, ambiguous = OutcomeKind.CONFIGURATION, "WrongArchitecture", False
        what = f"has an image for another processor than its node's{said}"
    elif _BAD_COMMAND.search(message):
        kind, cause, ambiguous = OutcomeKind.APPLICATION, "StartError", False
        what = f"has a command that the image cannot run{said}"
    return Finding(
        kind=kind,
        cause=cause,
        what=what,
        at=at,
        exit_code=exit_code,
        ambiguous=ambiguous,
        blames_node=gpu_setup,
    )


def waiting_trouble(statuses: Iterable[ContainerStatus]) -> Finding | None:
    """Judge the containers of a pod that has not started; the first trouble counts."""
    for one in statuses:
        waiting = one.state.waiting
        finding = None if waiting is None or not waiting.reason else _waiting(waiting)
        if finding is not None:
            return finding
    return None


def _waiting(waiting: Waiting) -> Finding | None:
    reason, message = waiting.reason, waiting.message
    said = f" ({message.strip()})" if message.strip() else ""
    if reason in _PULL_FAILURES:
        return _pull(reason, message, said)
    if reason == "InvalidImageName":
        return _configured(reason, f"names an image that cannot exist{said}")
    if reason == "ErrImageNeverPull":
        return _configured(reason, f"may not pull its image, and the node does not have it{said}")
    if reason == "CreateContainerConfigError":
        return _configured(_missing_object(message), f"is set up wrongly{said}")
    if reason in {"CreateContainerError", "RunContainerError"}:
        finding = start_failure(reason, message)
        # The node tries again by itself; only what cannot pass ends the wait.
        return None if finding.ambiguous else finding
    return None


def _missing_object(message: str) -> str:
    text = message.lower()
    if "secret" in text:
        return "SecretMissing"
    if "configmap" in text:
        return "ConfigMapMissing"
    return "CreateContainerConfigError"


def _pull(reason: str, message: str, said: str) -> Finding:
    words = _without_names(message)
    if _WRONG_ARCHITECTURE.search(words):
        return _configured("WrongArchitecture", f"has an image for another processor than its node's{said}")
    if _PASSING.search(words):
        return _not_yet(reason, f"waits for its image{said}")
    if _DENIED.search(words):
        return _configured("ImagePullDenied", f"may not pull its image from this cluster{said}")
    if _ABSENT.search(words):
        return _configured("ImageNotFound", f"names an image that does not exist{said}")
    return _not_yet(reason, f"waits for its image{said}")


def _without_names(message: str) -> str:
    """Blank images and addresses: one that is called api/offline:503 tells of no server error."""
    words = _ADDRESS.sub(" ", message)
    for name in sorted(_NAME.findall(words), key=len, reverse=True):
        words = words.replace(name, " ")
    return words


def _configured(cause: str, what: str) -> Finding:
    return Finding(kind=OutcomeKind.CONFIGURATION, cause=cause, what=what)


def _not_yet(cause: str, what: str) -> Finding:
    return Finding(kind=OutcomeKind.RUNNING, cause=cause, what=what)
