"""What every benchmark tells beside its figures: how far it is, and on what machine it ran."""

from __future__ import annotations

import os
import platform
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def progress() -> Callable[[str], None]:
    """Return a function that prints a line, with the seconds since now, beside the figures."""
    started = time.monotonic()
    return lambda line: print(f"[{time.monotonic() - started:6.1f} s] {line}", file=sys.stderr, flush=True)


def machine() -> str:
    """Describe this machine and how busy it is."""
    load = os.getloadavg()[0]
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load average {load:.1f}"


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of all values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]
