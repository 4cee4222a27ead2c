"""Look below a checkpoint root, through Airflow's object storage, for what a new attempt resumes from."""

from __future__ import annotations

import json
import logging
import re
from typing import NamedTuple

from airflow.sdk import ObjectStoragePath

log = logging.getLogger(__name__)

_ATTEMPT_FOLDER = re.compile(r"(\d+)-[0-9a-f]{8}")
_STEP_FOLDER = re.compile(r"step-(\d+)")
MANIFEST = "manifest.json"


class CheckpointScan(NamedTuple):
    """What was found below a root.

    :param resume_from: URI of the best complete checkpoint; empty when there is none.
    :param step: its step.
    :param fence: fence of the attempt that wrote it.
    :param largest_fence: largest fence of any attempt's folder, 0 when there is none.
    """

    resume_from: str = ""
    step: int | None = None
    fence: int | None = None
    largest_fence: int = 0


def checkpoint_root(uri: str, logical_hash: str, generation: int, installation: str | None = None) -> str:
    """Name the folder of one logical task's checkpoints.

    :param installation: name of this Airflow: another may run a task of the same name on the same storage.
    """
    return f"{_task_folder(uri, logical_hash, installation)}/{generation}"


def newest_generation(uri: str, logical_hash: str, installation: str | None = None) -> int:
    """Return the largest generation that has a folder; 1 where none is seen from here."""
    folder = _task_folder(uri, logical_hash, installation)
    try:
        path = ObjectStoragePath(folder)
        names = [child.name for child in path.iterdir()] if path.exists() else []
    except Exception as error:  # noqa: BLE001 - every storage library has errors of its own
        log.warning("%s cannot be read from here (%s: %s)", folder, type(error).__name__, error)
        return 1
    return max((int(name) for name in names if name.isdecimal()), default=1)


def _task_folder(uri: str, logical_hash: str, installation: str | None) -> str:
    named = logical_hash if installation is None else f"{installation}-{logical_hash}"
    return f"{uri.rstrip('/')}/{named}"


def scan(root: str) -> CheckpointScan:
    """Find the newest complete checkpoint: highest step, on a tie the larger fence.

    A storage that cannot be read from here is no error: the training program then looks by itself.
    """
    try:
        return _scan(ObjectStoragePath(root))
    except Exception as error:  # noqa: BLE001 - every storage library has errors of its own
        log.warning(
            "Checkpoints below %s cannot be read from here (%s: %s); the program will look by itself",
            root,
            type(error).__name__,
            error,
        )
        return CheckpointScan()


def _scan(root: ObjectStoragePath) -> CheckpointScan:
    if not root.exists():
        return CheckpointScan()
    found: list[tuple[int, int, str]] = []
    largest_fence = 0
    for folder in root.iterdir():
        attempt = _ATTEMPT_FOLDER.fullmatch(folder.name)
        if not attempt:
            continue
        fence = int(attempt[1])
        largest_fence = max(largest_fence, fence)
        for candidate in folder.iterdir():
            step = _STEP_FOLDER.fullmatch(candidate.name)
            if step:
                found.append((int(step[1]), fence, str(candidate)))
    for step_number, fence, uri in sorted(found, reverse=True):
        if _is_complete(ObjectStoragePath(uri), step_number):
            return CheckpointScan(uri, step_number, fence, largest_fence)
    return CheckpointScan(largest_fence=largest_fence)


def _is_complete(checkpoint: ObjectStoragePath, step: int) -> bool:
    """Tell whether the manifest, written last, is there and the files have the sizes that it names."""
    manifest = checkpoint / MANIFEST
    if not manifest.exists():
        return False
    try:
        content = json.loads(manifest.read_text())
        files = content["files"]
        sizes_agree = all(
            (checkpoint / name).stat().st_size == entry["size"] for name, entry in files.items()
        )
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        log.warning("Checkpoint %s is damaged and is not used", checkpoint)
        return False
    return bool(content.get("step") == step and sizes_agree)
