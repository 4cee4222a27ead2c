"""A remote log as Airflow shows it, whoever told which part of it: every line once, in its order."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import chain, pairwise
from typing import NamedTuple

from airflow.utils.log import file_task_handler
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_gpu_placement.watch.position import Bookmark, LogPosition
from airflow_gpu_placement.watch.stamps import Grid, grid_of

BEGIN = datetime(2026, 1, 1, 11, 59, 58, 700_000, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: Microseconds before a line: none, a few, whole milliseconds, a rest; or a little out of order.
GAPS = st.sampled_from((0, 0, 0, 1, 7, 300, 999, 1000, 1000, 1001, 400_000, 1_200_000, -300))
#: Bursts of lines with one gap; no longer than what gets a millisecond for each of its lines.
LOGS = st.lists(st.tuples(GAPS, st.integers(1, 40)), min_size=1, max_size=6)
#: Watchers one after the other: how many lines each reads, in how many streams, and which mark it begins at.
WATCHERS = st.lists(
    st.tuples(st.integers(0, 200), st.integers(1, 3), st.integers(0, 4)), min_size=1, max_size=4
)


class Told(NamedTuple):
    """A line in the file of one watcher."""

    moment: int
    text: str


def stamped_lines(bursts: list[tuple[int, int]], name: str) -> list[bytes]:
    """Return the log of a pod as the API gives it; equal texts are among its lines."""
    lines: list[bytes] = []
    at = BEGIN
    for gap, count in bursts:
        for _ in range(count):
            at += timedelta(microseconds=gap)
            stamp = at.isoformat().replace("+00:00", "Z")
            lines.append(f"{stamp} {name} {len(lines) // 2}".encode())
    return lines


def since(log: list[bytes], upto: int, position: LogPosition) -> list[bytes]:
    """Return what a stream gives that ends after so many lines of the whole log."""
    second = position.query().get("sinceTime", "")
    return [line for line in log[:upto] if line[:19].decode() >= second[:19]]


def tell(log: list[bytes], watchers: list[tuple[int, int, int]], grid: Grid) -> list[list[Told]]:
    """Let watchers read a log, each from the beginning or from a mark that an earlier one had saved.

    The last one reads it to its end. Return what each has told.
    """
    files = []
    saved: list[Bookmark | None] = [None]
    read = 0
    for count, streams, mark in [*watchers, (len(log), 1, 0)]:
        position = LogPosition(saved[-1 - mark % len(saved)], grid)
        told = []
        for stream in range(1, streams + 1):
            upto = min(read + count * stream // streams, len(log))
            for stamped in since(log, upto, position):
                line = position.take(stamped)
                if line is not None:
                    told.append(Told(line.moment, line.text.decode()))
                    saved.append(position.mark())
        read = min(read + count, len(log))
        files.append(told)
    return files


def shown(files: list[list[Told]]) -> list[str]:
    """Return the lines as a person reads them who asks Airflow for the log."""
    streams = []
    for told in files:
        lines = [
            {
                "timestamp": (EPOCH + timedelta(microseconds=moment)).isoformat().replace("+00:00", "Z"),
                "level": "info",
                "event": text,
            }
            for moment, text in told
        ]
        streams.append(json.dumps(line) for line in lines)
    return [line.event for line in file_task_handler._interleave_logs(*streams)]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(LOGS, WATCHERS, st.sampled_from((None, 0, 3, 13)))
def test_a_line_that_several_told_is_read_once(
    bursts: list[tuple[int, int]], watchers: list[tuple[int, int, int]], rank: int | None
) -> None:
    """Also when lines are equal, came at one moment, or were told by all of them."""
    log = stamped_lines(bursts, "line")
    assert shown(tell(log, watchers, grid_of(rank))) == [line.decode().split(" ", 1)[1] for line in log]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(LOGS, min_size=2, max_size=3), st.lists(WATCHERS, min_size=3, max_size=3))
def test_lines_of_ranks_are_read_once_each(
    logs: list[list[tuple[int, int]]], watchers: list[list[tuple[int, int, int]]]
) -> None:
    """Ranks write at the same moments, and a triggerer tells all of them in one file, in any order."""
    lines = {rank: stamped_lines(bursts, f"[rank {rank}]") for rank, bursts in enumerate(logs)}
    told = [tell(log, watchers[rank], grid_of(rank)) for rank, log in lines.items()]
    count = max(map(len, told))
    padded = [[*files, *[[] for _ in range(count - len(files))]] for files in told]
    read = shown([list(chain(*files)) for files in zip(*padded, strict=True)])
    for rank, log in lines.items():
        expected = [line.decode().split(" ", 1)[1] for line in log]
        assert [line for line in read if line.startswith(f"[rank {rank}]")] == expected


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(GAPS, st.integers(1, 1500)), min_size=1, max_size=4),
    WATCHERS,
    st.sampled_from((None, 5)),
)
def test_every_watcher_gives_a_line_the_same_moment(
    bursts: list[tuple[int, int]], watchers: list[tuple[int, int, int]], rank: int | None
) -> None:
    """In a flood too: moments only grow, and none is more than some seconds after its stamp."""
    log = stamped_lines(bursts, "line")
    (whole,) = tell(log, [], grid_of(rank))
    assert all(earlier.moment < later.moment for earlier, later in pairwise(whole))
    latest = EPOCH
    for one, line in zip(whole, log, strict=True):
        latest = max(latest, datetime.fromisoformat(line.split()[0].decode()))
        late = EPOCH + timedelta(microseconds=one.moment) - latest
        assert timedelta(milliseconds=-1) < late < timedelta(seconds=2.1)
    everything = set(whole)
    for told in tell(log, watchers, grid_of(rank)):
        assert everything.issuperset(told)
