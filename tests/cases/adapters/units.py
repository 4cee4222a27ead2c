"""Unit converters: the only place of the adapters that computes.

A converter turns one value into the same value in another unit or notation and knows nothing of a case.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from airflow_gpu_placement.catalog.prices import read_price

SECONDS_PER_HOUR = 3600.0
GB_PER_GIB = 1.0
"""The cases count data in gigabytes as the product counts GiB: 2048 GB are what it calls 2048 GiB."""


def moment(value: str | float | None) -> datetime | None:
    """Read a time: RFC 3339, or seconds since any beginning."""
    if value is None:
        return None
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    return datetime.fromtimestamp(value, UTC)


def status_word(value: bool | str | None) -> str:
    """Write a condition's status as the API does."""
    if value is None:
        return "Unknown"
    return value if isinstance(value, str) else str(bool(value))


def hours(seconds: float) -> float:
    """Convert seconds to hours."""
    return seconds / SECONDS_PER_HOUR


def usd_per_gpu(price_of_all: float | str | None, gpus: int) -> float | None:
    """Convert a price of a whole request to one of a single GPU."""
    return None if price_of_all is None else float(price_of_all) / gpus


REJECTED = "rejected"
"""What the cases write for a price that is refused."""


def price_cell(cell: str | float | None) -> float | str | None:
    """Read a cell of a price list, text or JSON's own number; one that is refused is the word for that."""
    try:
        return read_price("" if cell is None else str(cell))
    except ValueError:
        return REJECTED


_PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64"}


def processor(platform: str | None) -> str | None:
    """Write a processor as Kubernetes does: ``linux/arm64/v8``, ``aarch64`` and ``arm64`` are the same."""
    if platform is None:
        return None
    system, has_system, rest = platform.lower().partition("/")
    name = (rest if has_system else system).partition("/")[0]
    return _PROCESSORS.get(name, name)


def gpu_count(key: Any) -> int:
    """Read a number of GPUs, which is text where it is a key of a JSON object."""
    return int(key)


class Hands:
    """Clocks whose hands a case turns: seconds since its beginning."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def turn_to(self, time: str | float) -> None:
        """Set the time: RFC 3339, or seconds since any beginning."""
        self._seconds = datetime.fromisoformat(time).timestamp() if isinstance(time, str) else float(time)

    def seconds(self) -> float:
        """Return the time of the awake clock."""
        return self._seconds

    def today(self) -> datetime:
        """Return the time of the wall clock."""
        return datetime.fromtimestamp(self._seconds, UTC)


AT_ONCE_GBPS = 1e12
"""A case prices the transfer of data and gives it no time."""


def gib(gigabytes: float) -> float:
    """Convert the cases' gigabytes, of which 2048 are two tebibytes, to GiB."""
    return gigabytes * GB_PER_GIB
