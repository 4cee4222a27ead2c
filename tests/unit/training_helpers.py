"""What the tests of the demo's training program share."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_gpu_placement.checkpoint import Checkpoint
from dags.training import train_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = Path(train_digits.__file__)
REPOSITORY = PROGRAM.parents[2]
EPOCHS = 5


def environment(root: Path, fence: int, **more: str) -> dict[str, str]:
    """Return what the launcher sets for one attempt."""
    return {
        "GPU_PLACEMENT_CHECKPOINT_ROOT": str(root),
        "GPU_PLACEMENT_WRITE_DIR": str(root / f"{fence}-try"),
        "GPU_PLACEMENT_FENCE": str(fence),
        "GPU_PLACEMENT_ATTEMPT": f"attempt-{fence}",
        "GPU_PLACEMENT_POOL": "h100-east",
        "GPU_PLACEMENT_RESULT_PATH": str(root.parent / f"result-{fence}"),
        **more,
    }


def expected(epochs: int, nodes: int = 1) -> tuple[bytes, float]:
    """Return weights and accuracy of a training that nothing interrupts, over that many shards."""
    models = [train_digits.Model(rank, nodes) for rank in range(nodes)]
    for epoch in range(1, epochs + 1):
        for model in models:
            model.train_epoch(epoch)
        mean = sum((model.weights for model in models), np.zeros_like(models[0].weights)) / nodes
        for model in models:
            model.weights = mean
    return models[0].weights.tobytes(), models[0].accuracy()


def weights(path: Path) -> bytes:
    """Return the weights in a checkpoint after verifying it."""
    Checkpoint.load(path).verify()
    with np.load(path / "state.npz", allow_pickle=False) as state:
        return bytes(state["weights"].tobytes())


def await_step(folder: Path, step: int) -> Path:
    """Return a step's folder as soon as it is there."""
    path, deadline = folder / f"step-{step:012d}", time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.005)
    return path


def result(root: Path, name: str) -> dict[str, Any]:
    """Return the result that a run has written."""
    fields: dict[str, Any] = json.loads((root.parent / f"result-{name}").read_text())
    return fields


@contextlib.contextmanager
def program_processes() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Give a function that starts the program as a process; what is left of them is killed."""
    processes: list[subprocess.Popen[str]] = []

    def run(env: dict[str, str], *arguments: str, program: Path = PROGRAM) -> subprocess.Popen[str]:
        base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(program), *arguments]
        process = subprocess.Popen(
            command, env={**base, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate(timeout=30)
