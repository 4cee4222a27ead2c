"""What to print below a failed test: every server that runs registers a function that returns its tails."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: An exception with this attribute set has the tails in its own message: they are not printed again.
CARRIES_LOG_TAILS = "carries_log_tails"

_sources: dict[str, Callable[[], str]] = {}


def register(name: str, source: Callable[[], str]) -> None:
    """Make ``source()`` part of the report of each test that fails until ``unregister(name)``."""
    _sources[name] = source


def unregister(name: str) -> None:
    """Forget a source; one that was never registered is no error."""
    _sources.pop(name, None)


def sections() -> Iterator[tuple[str, str]]:
    """Yield title and text of each registered source."""
    for name, source in list(_sources.items()):
        yield name, source()


def tail(path: Path, lines: int, *, without: re.Pattern[str] | None = None, max_bytes: int = 262144) -> str:
    """Return the last lines of a text file, leaving out those that match ``without``."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - max_bytes))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return f"({path} does not exist)"
    kept = [line for line in text.splitlines() if without is None or not without.search(line)]
    return "\n".join(kept[-lines:]) or "(nothing)"
