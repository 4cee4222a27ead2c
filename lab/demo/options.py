"""The demo's command line."""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FEWEST_EPOCHS = 4
SHORTEST_EPOCH_SECONDS = 0.2
"""The power goes half an epoch after a checkpoint; a shorter epoch could be over before that."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the demo shall do.

    :param kill_at_epoch: the node loses its power while the epoch after this one is trained.
    :param drawn: whether that epoch was drawn and not given.
    """

    epochs: int
    kill_at_epoch: int
    drawn: bool
    seconds_per_epoch: float
    keep: bool
    json_file: Path | None
    svg_file: Path | None


def parse(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    draw: Callable[[int, int], int] = random.randint,
) -> Options:
    """Read the command line; a wrong one ends the process with exit code 2 and says why.

    :param draw: chooses the epoch in which the power goes, between two bounds that it may return too.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    _check(given, parser)
    drawn = given.kill_at_epoch is None
    kill_at_epoch = draw(given.epochs // 3, given.epochs * 2 // 3) if drawn else given.kill_at_epoch
    return Options(
        epochs=given.epochs,
        kill_at_epoch=kill_at_epoch,
        drawn=drawn,
        seconds_per_epoch=given.seconds_per_epoch,
        keep=given.keep or environment.get("KEEP", "") not in ("", "0"),
        json_file=given.json,
        svg_file=given.svg,
    )


def _check(given: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if given.epochs < FEWEST_EPOCHS:
        parser.error(f"--epochs {given.epochs}: give at least {FEWEST_EPOCHS}, to lose the node in between")
    if given.seconds_per_epoch < SHORTEST_EPOCH_SECONDS:
        parser.error(
            f"--seconds-per-epoch {given.seconds_per_epoch:g}: give at least {SHORTEST_EPOCH_SECONDS}"
        )
    last = given.epochs - 2
    if given.kill_at_epoch is not None and not 1 <= given.kill_at_epoch <= last:
        parser.error(
            f"--kill-at-epoch {given.kill_at_epoch}: give 1 to {last}, so that the power goes while "
            f"{given.epochs} epochs are trained; or give more --epochs"
        )
    for option, file in (("--json", given.json), ("--svg", given.svg)):
        if file is not None and not file.absolute().parent.is_dir():
            parser.error(f"{option} {file}: there is no folder {file.absolute().parent}; make it first")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab.demo",
        description="Two Kubernetes clusters, three GPU pools and an Airflow on this machine: a training "
        "job is placed, its node loses power, and the job goes on elsewhere from its newest checkpoint.",
    )
    parser.add_argument(
        "--epochs", type=int, default=12, metavar="N", help="epochs to train in all (default: %(default)s)"
    )
    parser.add_argument(
        "--kill-at-epoch",
        type=int,
        metavar="N",
        help="cut the node's power as soon as epoch N is saved and the next one is half done "
        "(default: drawn at random from the middle third)",
    )
    parser.add_argument(
        "--seconds-per-epoch",
        type=float,
        default=1.0,
        metavar="S",
        help="time added to each epoch: stands for a larger model (default: %(default)s)",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="leave everything up at the end, until ctrl-C: Airflow's UI, the clusters, all logs "
        "(also: KEEP=1 in the environment)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON as well")
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="draw the decisions and the move as a picture as well"
    )
    return parser
