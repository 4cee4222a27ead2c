"""The demo's lines, and that it is never silent for long."""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING

from rich.console import Console

from lab.demo import screen as shown
from lab.demo.screen import Screen

if TYPE_CHECKING:
    import pytest


def console(out: io.StringIO, width: int = 60) -> Console:
    """Return a console that is no terminal."""
    return Console(file=out, width=width, highlight=False)


def test_lines_have_the_time_and_are_printed_as_they_are() -> None:
    """What looks like markup is text; without a terminal there is no colour."""
    out = io.StringIO()
    with Screen(console(out), clock=lambda: 5.0) as screen:
        screen.say("[bold]7 of 9[/bold] saved", "cyan", who="task log")
    assert out.getvalue().strip() == "0.0 s task log: [bold]7 of 9[/bold] saved"


def test_a_long_line_goes_on_below_its_own_beginning() -> None:
    """In a narrow terminal the times stay apart from the text."""
    out = io.StringIO()
    with Screen(console(out, width=30), clock=lambda: 5.0) as screen:
        screen.say("one two three four five six seven")
    first, second, *_ = out.getvalue().splitlines()
    assert first.startswith("   0.0 s one two")
    assert second.startswith(" " * 9)


def test_silence_is_broken_by_what_is_going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no spinner can turn, a line says what is awaited and for how long."""
    monkeypatch.setattr(shown, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(shown, "_TICK_SECONDS", 0.01)
    out = io.StringIO()
    with Screen(console(out)) as screen:
        screen.doing("building")
        deadline = time.monotonic() + 10
        while "... building, 0 s" not in out.getvalue():
            assert time.monotonic() < deadline, out.getvalue()
            time.sleep(0.01)


def test_nothing_is_said_when_nothing_is_going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """While everything is left up for a person, the terminal stays as it is."""
    monkeypatch.setattr(shown, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(shown, "_TICK_SECONDS", 0.01)
    out = io.StringIO()
    with Screen(console(out)) as screen:
        screen.doing("building")
        screen.doing("")
        before = out.getvalue()
        time.sleep(0.1)
        assert out.getvalue() == before
