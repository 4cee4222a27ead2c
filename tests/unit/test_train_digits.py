"""The training program of the demo: interrupted and resumed, it ends as if nothing had happened."""

from __future__ import annotations

import re
import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.checkpoint import Checkpoint
from dags.training import train_digits
from tests.unit.checkpoint_helpers import listing
from tests.unit.training_helpers import (
    EPOCHS,
    PROGRAM,
    REPOSITORY,
    await_step,
    environment,
    expected,
    program_processes,
    result,
    weights,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the program as a process."""
    with program_processes() as run:
        yield run


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """Run the program's main function in this process, which has imported scikit-learn already."""
    before = signal.getsignal(signal.SIGTERM)

    def run(env: dict[str, str], *arguments: str) -> int:
        with monkeypatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            return train_digits.main(list(arguments))

    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("epoch", range(1, EPOCHS + 1))
def test_failed_at_any_epoch_and_resumed_is_as_uninterrupted(
    tmp_path: Path, run_here: Callable[..., int], capsys: pytest.CaptureFixture[str], epoch: int
) -> None:
    """Same weights to the bit, same accuracy; only the epochs after the checkpoint are run again."""
    root = tmp_path / "root"
    assert run_here(environment(root, 1), f"--epochs={EPOCHS}", f"--fail-at-epoch={epoch}") == 3
    assert f"AskedFailureError: --fail-at-epoch {epoch}" in capsys.readouterr().err
    assert run_here(environment(root, 2), f"--epochs={EPOCHS}") == 0
    wanted_weights, wanted_accuracy = expected(EPOCHS)
    assert weights(root / "2-try" / f"step-{EPOCHS:012d}") == wanted_weights
    assert result(root, "2") == {
        "accuracy": wanted_accuracy,
        "epochs": EPOCHS,
        "epochs_run": EPOCHS - epoch + 1,
        "resumed_from_epoch": epoch - 1 or None,
        "nodes": 1,
        "pool": "h100-east",
        "fence": 2,
    }
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch")]
    assert [int(line.split("/")[0].removeprefix("epoch ")) for line in lines] == list(
        range(epoch, EPOCHS + 1)
    )


def test_it_learns() -> None:
    """The accuracy is that of a real model: far above chance, better after more epochs."""
    accuracies = [expected(epochs)[1] for epochs in (1, 20)]
    assert 0.5 < accuracies[0] < accuracies[1]
    assert accuracies[1] > 0.9


def test_power_loss_at_any_moment_then_resumed_is_as_uninterrupted(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]], run_here: Callable[..., int]
) -> None:
    """SIGKILL at full speed leaves only checkpoints that load, and the end is the same to the bit."""
    root = tmp_path / "root"
    process = start(environment(root, 1), "--epochs=100000")
    await_step(root / "1-try", 3)
    process.kill()
    process.wait(timeout=30)
    steps = sorted((root / "1-try").glob("step-*"))
    reached = len(steps)
    assert [path.name for path in steps] == [f"step-{step:012d}" for step in range(1, reached + 1)]
    assert run_here(environment(root, 2), f"--epochs={reached + 2}") == 0
    assert weights(root / "2-try" / f"step-{reached + 2:012d}") == expected(reached + 2)[0]
    assert (result(root, "2")["resumed_from_epoch"], result(root, "2")["epochs_run"]) == (reached, 2)


def test_sigterm_writes_the_epoch_in_hand_and_exits_143(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    """A drained node loses nothing of what was computed; the copied helper does as well as the package."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    copy.mkdir()
    shutil.copy(PROGRAM, copy)
    shutil.copy(REPOSITORY / "airflow_gpu_placement" / "checkpoint.py", copy)
    env = {**environment(root, 1), "PYTHONPATH": ""}
    process = start(env, "--epochs=100", "--seconds-per-epoch=0.2", program=copy / PROGRAM.name)
    await_step(root / "1-try", 1)
    process.terminate()
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 143, output
    last = int(re.findall(r"SIGTERM: stopped after epoch (\d+)", output)[0])
    assert 1 <= last < 100
    assert weights(root / "1-try" / f"step-{last:012d}") == expected(last)[0]
    assert not (tmp_path / "result-1").exists()


def test_old_attempt_that_never_stops_does_not_disturb_the_new_one(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]], run_here: Callable[..., int]
) -> None:
    """The old program trains on and saves at full speed: the new one's folder holds its own writes alone."""
    root = tmp_path / "root"
    old = start(environment(root, 1), "--epochs=100000")
    named = await_step(root / "1-try", 2)
    env = environment(root, 2, GPU_PLACEMENT_RESUME_FROM=str(named))
    assert run_here(env, "--epochs=2") == 0
    copy = root / "2-try" / named.name
    before = listing(copy)
    assert run_here(env, f"--epochs={EPOCHS}", "--seconds-per-epoch=0.1") == 0
    seen = len(list((root / "1-try").glob("step-*")))
    await_step(root / "1-try", seen + 2)
    assert old.poll() is None
    assert listing(copy) == before
    assert weights(copy) == weights(named)
    mine = sorted((root / "2-try").iterdir())
    assert [path.name for path in mine] == [f"step-{step:012d}" for step in range(2, EPOCHS + 1)]
    assert {Checkpoint.load(path).verify().fence for path in mine} == {2}
    assert weights(mine[-1]) == expected(EPOCHS)[0]
