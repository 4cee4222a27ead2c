"""What the person at the terminal sees: lines with the time, and a sign of life in between."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType
    from rich.status import Status

QUIET_SECONDS = 8.0
"""After so long without a line one is printed, where no spinner can turn."""
_FILE_WIDTH = 160
_TICK_SECONDS = 0.5
_TIME_WIDTH = 8


def terminal() -> Console:
    """Return a console for standard output: as wide as the terminal, and wide where there is none."""
    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else _FILE_WIDTH
    return Console(width=width, highlight=False, emoji=False)


class Screen:
    """Prints lines, each with the seconds since the start. Use as a context manager.

    :param clock: monotonic seconds.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console
        self._clock = clock
        self._started = self._last_line = self._activity_since = clock()
        self._activity = ""
        self._status: Status | None = None
        self._ended = threading.Event()
        self._ticker = threading.Thread(target=self._tick, name="sign of life", daemon=True)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self.console.is_terminal and not self.console.is_dumb_terminal:
            self._status = self._stack.enter_context(self.console.status(""))
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._ticker.join()
        self._stack.close()

    def doing(self, what: str) -> None:
        """Say what is going on from now on; it is shown whenever nothing else is."""
        if what != self._activity:
            self._activity, self._activity_since = what, self._clock()

    def say(self, text: str, style: str = "", *, who: str = "") -> None:
        """Print one line; a long one goes on below its own beginning.

        :param who: who says so, when it is not the demo.
        """
        line = Table.grid(padding=(0, 1))
        line.add_column(justify="right", width=_TIME_WIDTH, no_wrap=True)
        line.add_column(overflow="fold")
        said = Text.assemble((f"{who}: ", "dim") if who else "", (text, style))
        line.add_row(Text(f"{self._clock() - self._started:.1f} s", "dim"), said)
        self.show(line)

    def copyable(self, text: str) -> None:
        """Print an address or a command in one piece, to be copied from the terminal."""
        self._last_line = self._clock()
        self.console.print(Text(f"{'':{_TIME_WIDTH}} {text}"), soft_wrap=True)

    def show(self, *what: RenderableType) -> None:
        """Print something of rich's."""
        self._last_line = self._clock()
        self.console.print(*what)

    def _tick(self) -> None:
        while not self._ended.wait(_TICK_SECONDS):
            if not self._activity:
                continue
            now = self._clock()
            text = f"{self._activity}, {now - self._activity_since:.0f} s"
            try:
                if self._status is not None:
                    self._status.update(Text(text, "dim"))
                elif now - self._last_line >= QUIET_SECONDS:
                    self.say(f"... {text}", "dim")
            except OSError:  # the reader has left; the main thread meets the same error and acts on it
                return
