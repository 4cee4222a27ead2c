"""GPUs of a node: which container holds which, remembered across the agent's lives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GPU = "nvidia.com/gpu"
Assignment = dict[str, list[int]]  # device indexes of each container


class Rejected(Exception):
    """The node refuses a pod at admission."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def wanted_gpus(pod: Mapping[str, Any]) -> dict[str, int]:
    """GPUs that each container asks for; containers without any are left out."""
    wanted = {}
    for container in pod["spec"]["containers"]:
        limits = (container.get("resources") or {}).get("limits") or {}
        if int(limits.get(GPU, 0)):
            wanted[container["name"]] = int(limits[GPU])
    return wanted


class Devices:
    """The GPUs of one node. An assignment is written to the pod's folder before it counts."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._held: dict[str, Assignment] = {}

    def restore(self, uid: str, pod_dir: Path) -> None:
        """Take over the assignment that an earlier agent has made."""
        try:
            assignment: Assignment = json.loads((pod_dir / "devices.json").read_text())
        except (FileNotFoundError, ValueError):
            return
        self._held[uid] = assignment

    def free(self) -> list[int]:
        """Indexes of the GPUs that no container holds."""
        taken = {index for held in self._held.values() for indexes in held.values() for index in indexes}
        return [index for index in range(self._count) if index not in taken]

    def lacks(self, pod: Mapping[str, Any]) -> bool:
        """Whether a pod asks for more than is free now, though the node has that many."""
        return len(self.free()) < sum(wanted_gpus(pod).values()) <= self._count

    def assign(self, uid: str, pod: Mapping[str, Any], pod_dir: Path) -> Assignment:
        """Give a pod its GPUs, or reject the pod."""
        if uid in self._held:
            return self._held[uid]
        wanted, free = wanted_gpus(pod), self.free()
        total = sum(wanted.values())
        if total and not self._count:
            text = f"Node didn't have enough resource: {GPU}, requested: {total}, used: 0, capacity: 0"
            raise Rejected(f"OutOf{GPU}", f"Pod was rejected: {text}")
        if total > len(free):
            text = (
                f"Allocate failed due to requested number of devices unavailable for {GPU}. "
                f"Requested: {total}, Available: {len(free)}, which is unexpected"
            )
            raise Rejected("UnexpectedAdmissionError", f"Pod was rejected: {text}")
        assignment: Assignment = {}
        for name, number in wanted.items():
            assignment[name], free = free[:number], free[number:]
        pod_dir.mkdir(parents=True, exist_ok=True)
        (pod_dir / "devices.json").write_text(json.dumps(assignment))
        self._held[uid] = assignment
        return assignment

    def release(self, uid: str, pod_dir: Path) -> None:
        """Take a pod's GPUs back."""
        self._held.pop(uid, None)
        (pod_dir / "devices.json").unlink(missing_ok=True)


def device_env(indexes: list[int]) -> dict[str, str]:
    """Return the variables that tell a container which GPUs are its own."""
    text = ",".join(str(index) for index in indexes)
    return {"NVIDIA_VISIBLE_DEVICES": text, "CUDA_VISIBLE_DEVICES": text} if indexes else {}
