"""GPUs of a node: which container holds which, remembered across the agent's lives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GPU = "nvidia.com/gpu"
PREFIXES = ("nvidia.com/", "amd.com/")  # of the resources that device plugins of GPUs offer
Held = dict[str, list[int]]  # device indexes of each resource
Assignment = dict[str, Held]  # of each container


class Rejected(Exception):
    """The node refuses a pod at admission."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def wanted_gpus(pod: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Devices that each container asks for, by resource; containers without any are left out."""
    wanted = {}
    for container in pod["spec"]["containers"]:
        limits = (container.get("resources") or {}).get("limits") or {}
        asked = {name: int(number) for name, number in limits.items() if name.startswith(PREFIXES)}
        if any(asked.values()):
            wanted[container["name"]] = {name: number for name, number in asked.items() if number}
    return wanted


def _totals(wanted: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    totals: dict[str, int] = {}
    for asked in wanted.values():
        for name, number in asked.items():
            totals[name] = totals.get(name, 0) + number
    return totals


class Devices:
    """The GPUs of one node. An assignment is written to the pod's folder before it counts.

    :param capacity: the node's capacity; what is no GPU resource is passed over.
    """

    def __init__(self, capacity: Mapping[str, str]) -> None:
        self._counts = {name: int(text) for name, text in capacity.items() if name.startswith(PREFIXES)}
        self._held: dict[str, Assignment] = {}

    def restore(self, uid: str, pod_dir: Path) -> None:
        """Take over the assignment that an earlier agent has made."""
        try:
            assignment: Assignment = json.loads((pod_dir / "devices.json").read_text())
        except (FileNotFoundError, ValueError):
            return
        self._held[uid] = assignment

    def free(self, resource: str) -> list[int]:
        """Indexes of the devices of a resource that no container holds."""
        held = [devices for assignment in self._held.values() for devices in assignment.values()]
        taken = {index for devices in held for index in devices.get(resource, ())}
        return [index for index in range(self._counts.get(resource, 0)) if index not in taken]

    def lacks(self, pod: Mapping[str, Any]) -> bool:
        """Whether a pod asks for more than is free now, though the node has that many."""
        totals = _totals(wanted_gpus(pod))
        return any(
            len(self.free(name)) < number <= self._counts.get(name, 0) for name, number in totals.items()
        )

    def assign(self, uid: str, pod: Mapping[str, Any], pod_dir: Path) -> Assignment:
        """Give a pod its GPUs, or reject the pod."""
        if uid in self._held:
            return self._held[uid]
        wanted = wanted_gpus(pod)
        totals = _totals(wanted)
        for name, total in totals.items():
            self._check(name, total)
        free = {name: self.free(name) for name in totals}
        assignment: Assignment = {}
        for container, asked in wanted.items():
            assignment[container] = {}
            for name, number in asked.items():
                assignment[container][name], free[name] = free[name][:number], free[name][number:]
        pod_dir.mkdir(parents=True, exist_ok=True)
        (pod_dir / "devices.json").write_text(json.dumps(assignment))
        self._held[uid] = assignment
        return assignment

    def _check(self, name: str, total: int) -> None:
        free = len(self.free(name))
        if not self._counts.get(name):
            text = f"Node didn't have enough resource: {name}, requested: {total}, used: 0, capacity: 0"
            raise Rejected(f"OutOf{name}", f"Pod was rejected: {text}")
        if total > free:
            text = (
                f"Allocate failed due to requested number of devices unavailable for {name}. "
                f"Requested: {total}, Available: {free}, which is unexpected"
            )
            raise Rejected("UnexpectedAdmissionError", f"Pod was rejected: {text}")

    def release(self, uid: str, pod_dir: Path) -> None:
        """Take a pod's GPUs back."""
        self._held.pop(uid, None)
        (pod_dir / "devices.json").unlink(missing_ok=True)


def device_env(held: Mapping[str, list[int]]) -> dict[str, str]:
    """Return the variables that tell a container which GPUs are its own."""
    variables: dict[str, str] = {}
    for name, indexes in held.items():
        text = ",".join(str(index) for index in indexes)
        if name.startswith("nvidia.com/"):
            variables |= {"NVIDIA_VISIBLE_DEVICES": text, "CUDA_VISIBLE_DEVICES": text}
        else:
            variables |= {"ROCR_VISIBLE_DEVICES": text}
    return variables
