"""What the tests of checkpoints share."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from airflow_gpu_placement.checkpoint import Checkpoints

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def attempt(root: Path, fence: int, **options: object) -> Checkpoints:
    """Return the checkpoints of the attempt with that fence."""
    environ = {
        "GPU_PLACEMENT_CHECKPOINT_ROOT": str(root),
        "GPU_PLACEMENT_WRITE_DIR": str(root / f"{fence}-try"),
        "GPU_PLACEMENT_FENCE": str(fence),
        "GPU_PLACEMENT_ATTEMPT": f"attempt-{fence}",
        "GPU_PLACEMENT_RESUME_FROM": str(options.pop("resume_from", "")),
        "GPU_PLACEMENT_RESULT_PATH": str(options.pop("result_path", "")),
    }
    return Checkpoints.from_env(environ, **options)  # type: ignore[arg-type]  # each test names its own options


def save(checkpoints: Checkpoints, step: int, content: bytes | None = None) -> Path:
    """Save one step with one payload file; return the step's folder."""
    with checkpoints.save(step) as folder:
        (folder / "state.bin").write_bytes(
            f"{checkpoints.fence}/{step}".encode() if content is None else content
        )
    return checkpoints.write_dir / f"step-{step:012d}"


def listing(folder: Path) -> dict[str, str]:
    """Return all files below a folder with their hashes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def save_by(checkpoints: Checkpoints, step: int, fill: Callable[[Path], object]) -> None:
    """Save one step whose folder is filled by a function."""
    with checkpoints.save(step) as folder:
        fill(folder)
