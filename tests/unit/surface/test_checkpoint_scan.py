"""The worker finds what the training program's helper wrote, and nothing that it did not finish."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.checkpoint import Checkpoints
from airflow_gpu_placement.hooks.checkpoints import CheckpointScan, checkpoint_root, newest_generation, scan

if TYPE_CHECKING:
    from pathlib import Path


def save(root: Path, fence: int, step: int) -> Path:
    """Save a checkpoint as the attempt with this fence does, and return its folder."""
    checkpoints = Checkpoints.from_env(
        {
            "GPU_PLACEMENT_CHECKPOINT_ROOT": str(root),
            "GPU_PLACEMENT_WRITE_DIR": str(root / f"{fence}-0000000{fence}"),
            "GPU_PLACEMENT_FENCE": str(fence),
            "GPU_PLACEMENT_ATTEMPT": f"attempt-{fence}",
        }
    )
    with checkpoints.save(step) as folder:
        (folder / "state.bin").write_bytes(b"weights")
    return root / f"{fence}-0000000{fence}" / f"step-{step:012d}"


@pytest.mark.parametrize("scheme", ["", "file://"], ids=["path", "file URL"])
def test_the_highest_step_wins_and_on_a_tie_the_larger_fence(tmp_path: Path, scheme: str) -> None:
    """Two attempts wrote step 4; the later one's is resumed from."""
    for fence, step in ((1, 3), (1, 4), (2, 4)):
        save(tmp_path, fence, step)

    found = scan(f"{scheme}{tmp_path}")

    assert found.step == 4
    assert found.resume_from.endswith("2-00000002/step-000000000004")
    assert (found.fence, found.largest_fence) == (2, 2)


def test_an_unfinished_checkpoint_is_not_resumed_from(tmp_path: Path) -> None:
    """Without its manifest, or with a file cut short, a checkpoint does not exist."""
    save(tmp_path, 1, 1)
    (save(tmp_path, 2, 2) / "manifest.json").unlink()
    (save(tmp_path, 3, 3) / "state.bin").write_bytes(b"wei")

    found = scan(str(tmp_path))

    assert (found.step, found.fence, found.largest_fence) == (1, 1, 3)


def test_a_root_that_does_not_exist_or_cannot_be_read_gives_nothing(tmp_path: Path) -> None:
    """The first try finds nothing; an unknown storage is left to the training program."""
    assert scan(str(tmp_path / "none")) == CheckpointScan()
    assert scan("nosuchscheme://bucket/x") == CheckpointScan()


def test_the_root_names_the_logical_task_and_its_generation() -> None:
    """Another task, or another generation, never reads these checkpoints."""
    assert checkpoint_root("s3://bucket/llm/", "0123456789", 2) == "s3://bucket/llm/0123456789/2"
    assert checkpoint_root("s3://b", "0123456789", 2, "prod-eu") == "s3://b/prod-eu-0123456789/2"


def test_the_newest_generation_is_the_one_with_the_largest_number(tmp_path: Path) -> None:
    """Other folders are none; where nothing can be seen it is the first."""
    for name in ("9", "10", "notes"):
        (tmp_path / "prod-0123456789" / name).mkdir(parents=True)
    assert newest_generation(str(tmp_path), "0123456789", "prod") == 10
    assert newest_generation(str(tmp_path), "0123456789") == 1
    assert newest_generation("nosuchscheme://bucket/x", "0123456789") == 1
