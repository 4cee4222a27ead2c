"""The demo as a newcomer runs it: its own clusters, its own Airflow, a real power loss, nothing left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab.demo import fleet
from tests.lab import leftovers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

REPOSITORY = Path(__file__).resolve().parents[2]
KILL_AT_EPOCH, EPOCHS = 5, 9
START_TIMEOUT_SECONDS = 180.0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Return the folder for everything temporary of one demo; nothing may be left in it or run out of it."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    yield folder
    leftovers.wait_until(
        lambda: not leftovers.processes(folder), 20, lambda: f"ended: {leftovers.processes(folder)}"
    )
    assert list(folder.iterdir()) == []


@contextmanager
def demo(home: Path, output: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the demo with its output in a file; it is ended with the block if it still runs."""
    environment = {name: value for name, value in os.environ.items() if name != "KEEP"}
    environment |= {"TMPDIR": str(home), "COLUMNS": "160"}
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "lab.demo", *arguments],
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=60)


def wait_for(
    process: subprocess.Popen[bytes], output: Path, reached: Callable[[str], bool], what: str
) -> None:
    """Wait until the output shows something."""
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not reached(output.read_text()):
        assert process.poll() is None, f"ended before {what}:\n{output.read_text()}"
        assert time.monotonic() < deadline, f"{what} not reached:\n{output.read_text()}"
        time.sleep(0.1)


def test_the_job_moves_and_the_figures_are_those_of_this_run(home: Path, tmp_path: Path) -> None:
    """With a given epoch: it is the one that is resumed from, and what is printed is what was measured."""
    output, figures_file, picture = tmp_path / "output", tmp_path / "figures.json", tmp_path / "picture.svg"
    with demo(
        home,
        output,
        *("--kill-at-epoch", str(KILL_AT_EPOCH), "--epochs", str(EPOCHS)),
        *("--json", str(figures_file), "--svg", str(picture)),
    ) as process:
        code = process.wait(timeout=330)

    text = output.read_text()
    assert code == 0, text
    figures = json.loads(figures_file.read_text())
    check_figures(figures)
    check_printed(figures, text)
    check_tables(text)
    assert "Try 2" in picture.read_text().replace("&#160;", " ")
    assert "\x1b" not in text  # no colour in a file


def check_figures(figures: dict[str, Any]) -> None:
    """Look at the figures themselves."""
    move, training, costs = figures["move"], figures["training"], figures["costs"]
    resumed = training["resumed_from_epoch"]
    assert KILL_AT_EPOCH <= resumed < EPOCHS
    assert (training["epochs"], training["trained_after"]) == (EPOCHS, EPOCHS - resumed)
    assert training["repeated"] == training["saved_before_loss"] - resumed
    assert training["accuracy"] > 0.8
    assert (move["node"], move["from_pool"], move["to_pool"]) == ("us-a100-1", "us-a100", "eu-h100")
    assert 0 < move["lost_seconds"] < move["next_job_seconds"] < move["next_epoch_seconds"]
    prices = {pool: node_hour / 8 for pool, node_hour in fleet.node_hour_usd().items()}
    for cost in costs:
        assert cost["usd"] > 0
        expected = cost["gpus"] * cost["seconds"] / 3600 * prices[cost["pool"]]
        assert cost["usd"] == pytest.approx(expected)
    assert [(cost["pool"], cost["outcome"]) for cost in costs] == [
        ("us-a100", "infrastructure"),
        ("eu-h100", "succeeded"),
    ]
    assert figures["total_usd"] == pytest.approx(sum(cost["usd"] for cost in costs))


def check_printed(figures: dict[str, Any], text: str) -> None:
    """Find the figures in what a person has read."""
    move, training = figures["move"], figures["training"]
    for said in (
        f"after epoch {KILL_AT_EPOCH} of {EPOCHS} (as you chose)",
        f"epoch {KILL_AT_EPOCH} of {EPOCHS} saved in us-a100",
        f"epoch {EPOCHS} of {EPOCHS} saved in eu-h100",
        "POWER OFF: node us-a100-1",
        f"{move['lost_seconds']:.1f} s │ the node counts as lost",
        f"{move['next_job_seconds']:.1f} s │ the next try creates its remote job in eu-h100",
        f"{move['next_epoch_seconds']:.1f} s │ the first new epoch is saved there",
        f"resumed from epoch {training['resumed_from_epoch']}",
        f"accuracy on images never seen in training: {training['accuracy']:.1%}",
        f"{figures['total_usd']:.4f}",
        *(f"{cost['gpu_seconds']:.1f}" for cost in figures["costs"]),
        *(f"{cost['usd']:.4f}" for cost in figures["costs"]),
        fleet.shortened()[:60],
        "nothing is left behind",
    ):
        assert said in text, f"{said!r} is not in\n{text}"
    assert f"epoch {KILL_AT_EPOCH - 1} of {EPOCHS} saved in eu-h100" not in text


def check_tables(text: str) -> None:
    """Both decisions are shown, and in the second the lost node has cost its pool the job."""
    before, _, after = text.partition("POWER OFF")
    rows = {"us-a100": "chosen", "eu-h100": "fits", "us-l4": "never"}
    for pool, verdict in rows.items():
        assert verdict in next(line for line in before.splitlines() if line.startswith(f"│ {pool}"))
    assert "Try 2: 1/3 GPU pools fit" in after
    lost = next(line for line in after.splitlines() if line.startswith("│ us-a100"))
    assert "NodesLost" in lost
    assert "chosen" in next(line for line in after.splitlines() if line.startswith("│ eu-h100"))


def test_a_signal_in_the_middle_of_the_start_leaves_nothing(home: Path, tmp_path: Path) -> None:
    """SIGTERM while Airflow starts and the clusters run: exit code 143, and the fixture finds nothing."""
    output = tmp_path / "output"
    with demo(home, output) as process:
        wait_for(process, output, lambda text: "starting Airflow" in text, "the start of Airflow")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 128 + signal.SIGTERM, output.read_text()
    assert output.read_text().rstrip().endswith("nothing is left behind")


def test_a_failure_says_what_failed_and_where_to_look(home: Path, tmp_path: Path) -> None:
    """The scheduler dies: exit code 1, the server is named, its log is shown, nothing is left."""
    output = tmp_path / "output"
    with demo(home, output) as process:
        wait_for(process, output, lambda text: "epoch 1 of" in text, "the first epoch")
        (scheduler,) = [
            pid for pid, command in leftovers.processes(home).items() if "-m airflow scheduler" in command
        ]
        os.kill(scheduler, signal.SIGKILL)
        code = process.wait(timeout=120)
    text = output.read_text()
    assert code == 1, text
    assert "The demo failed: RuntimeError: Airflow's scheduler ended by itself" in text
    assert "--- end of the task's log" in text
    assert "Where to look: KEEP=1 make demo" in text
    assert text.rstrip().endswith("nothing is left behind")
