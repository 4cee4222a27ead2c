"""Writers in processes of their own: killed at any moment, or never stopping."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement import checkpoint as module
from airflow_gpu_placement.checkpoint import Checkpoint
from tests.unit.checkpoint_helpers import attempt, listing, save

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WRITER = """
import hashlib, os, sys
sys.path.insert(0, sys.argv[1])
from checkpoint import Checkpoints
checkpoints = Checkpoints.from_env(keep_last=int(sys.argv[2]) or None)
resumed = checkpoints.resume()
step = resumed.step if resumed else 0
while True:
    step += 1
    with checkpoints.save(step) as folder:
        (folder / "part").mkdir()
        for name in ("a.bin", "part/b.bin"):
            (folder / name).write_bytes(f"{checkpoints.fence} {step} {name} ".encode() * 20_000)
    print(step, flush=True)
"""


@pytest.fixture
def spawn(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start a process that saves checkpoints without end, with a copy of the file instead of the package."""
    program = tmp_path / "program"
    program.mkdir()
    shutil.copy(module.__file__, program / "checkpoint.py")

    def start(root: Path, fence: int, keep_last: int = 0) -> subprocess.Popen[str]:
        environ = {
            "GPU_PLACEMENT_CHECKPOINT_ROOT": str(root),
            "GPU_PLACEMENT_WRITE_DIR": str(root / f"{fence}-try"),
            "GPU_PLACEMENT_FENCE": str(fence),
        }
        command = [sys.executable, "-I", "-S", "-c", WRITER, str(program), str(keep_last)]
        return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)

    return start


def stop(process: subprocess.Popen[str]) -> None:
    """Kill a writer as a power loss would."""
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    assert process.stdout is not None
    process.stdout.close()


def await_growth(folder: Path) -> None:
    """Return when the writer of that folder has saved another step."""
    deadline, before = time.monotonic() + 30, max(folder.glob("step-*"))
    while max(folder.glob("step-*"), default=before) <= before:
        assert time.monotonic() < deadline, f"nothing is written into {folder} any more"
        time.sleep(0.002)


def test_writer_killed_at_any_moment_leaves_only_whole_checkpoints(
    tmp_path: Path, spawn: Callable[..., subprocess.Popen[str]]
) -> None:
    """Whatever has a step's name is valid, and no step that was announced is lost."""
    announced = 0
    dice = random.Random(7)
    for _ in range(20):
        process = spawn(tmp_path / "root", 1, keep_last=3)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(dice.uniform(0, 0.03))
        process.send_signal(signal.SIGKILL)
        lines = process.stdout.read().split()
        stop(process)
        steps = sorted((tmp_path / "root" / "1-try").glob("step-*"))
        assert [Checkpoint.load(path).verify().path for path in steps] == steps
        newest = int(steps[-1].name.removeprefix("step-"))
        announced = max([announced, *(int(line) for line in lines)])
        assert announced <= newest
    assert attempt(tmp_path / "root", 2).resume() is not None


@pytest.mark.parametrize("keep_last", [0, 1])
def test_second_writer_that_never_stops_changes_nothing(
    tmp_path: Path, spawn: Callable[..., subprocess.Popen[str]], keep_last: int
) -> None:
    """An old attempt writes on at full speed and prunes what is being read: the new one's view stays."""
    root = tmp_path / "root"
    old = spawn(root, 1, keep_last=keep_last)
    try:
        assert old.stdout is not None
        named = root / "1-try" / f"step-{int(old.stdout.readline()):012d}"
        resumed = attempt(root, 2, resume_from=named).resume()
        assert resumed is not None
        before = listing(resumed.path)
        new = attempt(root, 2, resume_from=named)
        for step in range(resumed.step + 1, resumed.step + 6):
            save(new, step)
            await_growth(root / "1-try")
        assert listing(resumed.path) == before
        assert resumed.verify() == resumed
        mine = [f"step-{step:012d}" for step in range(resumed.step, resumed.step + 6)]
        assert sorted(path.name for path in new.write_dir.iterdir()) == mine
        assert {Checkpoint.load(new.write_dir / name).verify().fence for name in mine} == {2}
    finally:
        stop(old)
    assert {Checkpoint.load(path).fence for path in (root / "1-try").glob("step-*")} == {1}
