"""The demo's command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.demo.options import Options, parse

if TYPE_CHECKING:
    from pathlib import Path


def read(*arguments: str, keep: str | None = None) -> Options:
    """Parse a command line; what is drawn is the lower bound."""
    return parse(arguments, {} if keep is None else {"KEEP": keep}, draw=min)


@pytest.mark.parametrize(("epochs", "bounds"), [(12, (4, 8)), (4, (1, 2)), (30, (10, 20))])
def test_the_epoch_is_drawn_from_the_middle_third(epochs: int, bounds: tuple[int, int]) -> None:
    """Both bounds are epochs in which the power may go."""
    low = parse(["--epochs", str(epochs)], {}, draw=min)
    high = parse(["--epochs", str(epochs)], {}, draw=max)
    assert (low.kill_at_epoch, high.kill_at_epoch) == bounds
    assert low.drawn
    assert 1 <= bounds[0] <= bounds[1] <= epochs - 2


def test_a_given_epoch_is_taken() -> None:
    """And it is told that it was not drawn."""
    options = read("--kill-at-epoch", "3")
    assert (options.kill_at_epoch, options.drawn) == (3, False)


@pytest.mark.parametrize(("value", "kept"), [("1", True), ("0", False), ("", False), (None, False)])
def test_keep_comes_from_the_environment_too(value: str | None, kept: bool) -> None:
    """``KEEP=1 make demo`` is how a person asks for it."""
    assert read(keep=value).keep is kept


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--epochs", "3"), "give at least 4"),
        (("--kill-at-epoch", "11"), "give 1 to 10"),
        (("--kill-at-epoch", "0"), "give 1 to 10"),
        (("--seconds-per-epoch", "0.1"), "give at least 0.2"),
        (("--json", "/no/such/folder/figures.json"), "make it first"),
    ],
)
def test_what_cannot_work_is_refused_at_once(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2 and what to do instead, and not after minutes."""
    with pytest.raises(SystemExit) as caught:
        read(*arguments)
    assert caught.value.code == 2
    assert said in capsys.readouterr().err


def test_every_option_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """The help has a text for each."""
    with pytest.raises(SystemExit):
        read("--help")
    told = " ".join(capsys.readouterr().out.split())
    for option in (
        "--epochs N epochs",
        "--kill-at-epoch N cut",
        "--seconds-per-epoch S time",
        "--keep leave",
    ):
        assert option in told
    assert "--json FILE write" in told
    assert "--svg FILE draw" in told


def test_files_are_taken_as_given(tmp_path: Path) -> None:
    """A folder that exists is enough."""
    options = read("--json", str(tmp_path / "f.json"), "--svg", str(tmp_path / "p.svg"))
    assert options.json_file == tmp_path / "f.json"
    assert options.svg_file == tmp_path / "p.svg"
