"""What a run of ``train_digits`` has written: which attempt wrote which checkpoint, and what is in it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_EPOCH = re.compile(r"epoch (\d+)/\d+: accuracy")


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run, from outside.

    :param root: the folder that its request names.
    """

    root: Path

    def steps(self, fence: int) -> list[int]:
        """Return the finished steps that the attempt with this fence has written, in order."""
        found = self.root.glob(f"*/*/{fence}-*/step-*/manifest.json")
        return sorted(int(path.parent.name.removeprefix("step-")) for path in found)

    def hashes(self, fence: int, step: int) -> Mapping[str, str]:
        """Return a hash of each file of one checkpoint."""
        (folder,) = self.root.glob(f"*/*/{fence}-*/step-{step:012d}")
        files = [path for path in folder.rglob("*") if path.is_file()]
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def writers(self) -> set[int]:
        """Return the fences of all attempts that have a folder."""
        return {int(path.name.partition("-")[0]) for path in self.root.glob("*/*/*-*")}


def epochs_in(log: str) -> list[int]:
    """Return the epochs that a task's log tells of, in order."""
    return [int(epoch) for epoch in _EPOCH.findall(log)]
