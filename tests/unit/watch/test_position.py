"""A log goes on where it stopped: every line once."""

from __future__ import annotations

import random

import msgspec
import pytest

from airflow_gpu_placement.watch.position import Bookmark, Line, LogPosition


def line(second: int, fraction: str, text: str, offset: str = "Z") -> tuple[str, bytes]:
    """Return a line as the API stamps it, and its second."""
    at = f"2026-01-01T00:00:{second:02}"
    return f"{at}{offset}", f"{at}{fraction}{offset} {text}".encode()


def stream(position: LogPosition, log: list[tuple[str, bytes]], upto: int) -> list[bytes]:
    """Read a log as the API gives it: from ``sinceTime`` on, cut after so many lines of the whole."""
    since = position.query().get("sinceTime", "")
    given = [stamped for second, stamped in log[:upto] if second >= since]
    return [text for stamped in given if (text := take(position, stamped)) is not None]


def take(position: LogPosition, stamped: bytes) -> bytes | None:
    """Return the text of a line that is to be given out."""
    line = position.take(stamped)
    return None if line is None else line.text


@pytest.mark.parametrize("handed_over", [False, True], ids=["same watcher", "handed over"])
@pytest.mark.parametrize("seed", range(20))
def test_cuts_anywhere_leave_no_gap_and_no_repeat(seed: int, handed_over: bool) -> None:
    """Many lines a second, equal lines, equal stamps; cuts at any place, where others may take over."""
    dice = random.Random(seed)
    log = []
    second = 0
    for number in range(200):
        second += dice.random() < 0.1
        fraction = f".{dice.randrange(3)}" if dice.random() < 0.5 else ""
        log.append(line(second, fraction, f"line {number // 3}"))
    log.sort(key=lambda entry: (entry[0], entry[1][19:30]))
    position = LogPosition()
    read: list[bytes] = []
    at = 0
    while at < len(log):
        at = min(len(log), at + dice.randrange(0, 30))
        read += stream(position, log, at)
        if handed_over and (mark := position.mark()) is not None:
            position = LogPosition(msgspec.json.decode(msgspec.json.encode(mark), type=Bookmark))
    read += stream(position, log, len(log))
    assert read == [stamped.partition(b" ")[2] for _, stamped in log]


def test_a_rotated_log_loses_no_new_line() -> None:
    """When the lines to be dropped are not there any more, newer ones are not dropped for them."""
    position = LogPosition()
    old = [line(1, ".1", "a"), line(1, ".2", "b"), line(1, ".3", "c")]
    assert stream(position, old, 3) == [b"a", b"b", b"c"]
    assert stream(position, [line(1, ".4", "d"), line(2, "", "e")], 2) == [b"d", b"e"]


def test_lines_a_little_out_of_order_stay_in_their_order() -> None:
    """Two outputs of one container may be stamped in the wrong order."""
    position = LogPosition()
    log = [line(1, ".9", "out"), line(1, ".8", "err"), line(1, ".95", "out")]
    assert stream(position, log, 2) == [b"out", b"err"]
    assert stream(position, log, 3) == [b"out"]


@pytest.mark.parametrize("offset", ["Z", "+02:00", "-05:30"])
def test_any_offset_is_understood(offset: str) -> None:
    """A node stamps with its own time zone."""
    position = LogPosition()
    second, stamped = line(7, ".123456789", "a b  c", offset)
    position.query()
    assert take(position, stamped) == b"a b  c"
    assert position.query() == {"timestamps": "true", "sinceTime": second}


def test_the_rest_of_a_long_line_goes_the_way_of_its_first_piece() -> None:
    """Pieces after the first carry no stamp."""
    position = LogPosition()
    _, stamped = line(1, "", "x" * 10)
    at = 1_767_225_601_000_000
    position.query()
    pieces = [position.take(stamped), position.take(b"yyy"), position.take(b"yyy")]
    assert pieces == [Line(b"x" * 10, at), Line(b"yyy", at + 1, True), Line(b"yyy", at + 2, True)]
    position.query()
    assert [position.take(stamped), position.take(b"yyy")] == [None, None]
    assert position.take(line(2, "", "next")[1]) == Line(b"next", at + 1_000_000)
    assert position.take_newer(stamped) is None
    newer = [position.take_newer(line(2, ".5", text)[1]) for text in ("newer", "newer")]
    assert newer == [Line(b"newer", at + 1_500_000), Line(b"newer", at + 1_501_000)]


def test_nothing_is_marked_before_the_first_line() -> None:
    """There is no place to go on at."""
    assert LogPosition().mark() is None


@pytest.mark.parametrize("handed_over", [False, True], ids=["same watcher", "handed over"])
def test_the_rest_of_a_long_line_counts_as_no_line(handed_over: bool) -> None:
    """From a second on, a node gives the pieces of a line that began before it, the first one stamped."""
    begun, ended = line(1, ".9", "x" * 10), [line(2, ".2", "a"), line(2, ".3", "b")]
    position = LogPosition()
    position.query()
    first = [begun[1], b"xxxx", b"xxxx", *(stamped for _, stamped in ended)]
    told = [text for stamped in first if (text := take(position, stamped)) is not None]
    assert told == [b"x" * 10, b"xxxx", b"xxxx", b"a", b"b"]
    if handed_over:
        mark = msgspec.json.decode(msgspec.json.encode(position.mark()), type=Bookmark)
        position = LogPosition(mark)
    assert position.query()["sinceTime"] == ended[0][0]
    again = [line(2, ".1", "xxxx")[1], b"xxxx", *(stamped for _, stamped in ended), line(2, ".4", "c")[1]]
    told = [text for stamped in again if (text := take(position, stamped)) is not None]
    assert told == [b"c"]
