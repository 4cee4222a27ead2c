"""The log file and its index, without any server."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from lab.node.logs import (
    BadLogRequest,
    LogReader,
    LogRequest,
    first_line_since,
    last_lines,
    log_tail,
    parse_log_request,
    stamp,
)
from lab.node.output import Log

if TYPE_CHECKING:
    from pathlib import Path

START_SECONDS = 1_796_000_000


def _write(path: Path, lines: list[tuple[int, str]]) -> None:
    path.write_text("".join(f"{stamp(START_SECONDS + second)} F {text}\n" for second, text in lines))


def _read(path: Path, **request: object) -> str:
    reader = LogReader(path, LogRequest(**request))  # type: ignore[arg-type]  # fields by name
    text = b""
    while block := reader.read():
        text += block
    reader.close()
    return text.decode()


@pytest.mark.parametrize("seed", range(5))
def test_bisection_finds_what_a_scan_finds(tmp_path: Path, seed: int) -> None:
    """For every moment the first line since then is found, whatever the lengths and gaps are."""
    dice = random.Random(seed)
    seconds, lines = 0, []
    for _ in range(300):
        seconds += dice.choice([0, 0, 1, 5])
        lines.append((seconds, "x" * dice.choice([0, 1, 30, 4000])))
    path = tmp_path / "log"
    _write(path, lines)
    size = path.stat().st_size
    with path.open("rb") as stream:
        for second in range(-1, seconds + 2):
            offset = first_line_since(stream, stamp(START_SECONDS + second), size)
            kept = [text for when, text in lines if when >= second]
            stream.seek(offset)
            assert stream.read().count(b"\n") == len(kept)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 999, 1000, 1001, 5000])
def test_tails_across_blocks(tmp_path: Path, count: int) -> None:
    """The last lines are found although they reach over several blocks."""
    path = tmp_path / "log"
    _write(path, [(number, f"{number} " + "y" * 200) for number in range(1000)])
    with path.open("rb") as stream:
        offset = last_lines(stream, count, path.stat().st_size)
        stream.seek(offset)
        assert stream.read().count(b"\n") == min(count, 1000)


def test_a_carriage_return_is_no_line_end(tmp_path: Path) -> None:
    """A progress bar's line stays one line."""
    path = tmp_path / "log"
    _write(path, [(0, "10%\r20%\rdone"), (1, "next")])
    assert _read(path, tail_lines=2) == "10%\r20%\rdone\nnext\n"


def test_long_lines_are_joined_again(tmp_path: Path) -> None:
    """The shim splits a long line in pieces; a reader gets one line with one time stamp."""
    path = tmp_path / "log"
    log = Log(str(path))
    log.feed(b"a" * 20000)
    log.feed(b"a" * 20000 + b"\nlast")
    log.close()
    assert path.read_bytes().count(b"\n") == 4
    assert _read(path) == "a" * 40000 + "\nlast"
    stamped = _read(path, timestamps=True).split("\n")
    assert [len(line) for line in stamped] == [31 + 40000, 31 + 4]


def test_the_limit_of_bytes_ends_the_reading(tmp_path: Path) -> None:
    """LimitBytes counts what is shown, time stamps included."""
    path = tmp_path / "log"
    _write(path, [(0, "abcdef"), (1, "ghi")])
    reader = LogReader(path, LogRequest(limit_bytes=9))
    assert reader.read() == b"abcdef\ngh"
    assert reader.exhausted
    reader.close()


def test_an_unfinished_line_waits(tmp_path: Path) -> None:
    """A line that is being written is shown when it is whole."""
    path = tmp_path / "log"
    _write(path, [(0, "one")])
    reader = LogReader(path, LogRequest())
    with path.open("a") as stream:
        stream.write(stamp(START_SECONDS) + " F tw")
        stream.flush()
        assert reader.read() == b"one\n"
        assert reader.read() == b""
        stream.write("o\n")
    assert reader.read() == b"two\n"
    reader.close()


def test_log_tail_for_a_message(tmp_path: Path) -> None:
    """A message from the log has at most so many lines and bytes; a missing log gives none."""
    path = tmp_path / "log"
    assert log_tail(path, 80, 2048) == ""
    _write(path, [(number, f"line {number}") for number in range(200)])
    assert log_tail(path, 2, 2048) == "line 198\nline 199\n"
    assert log_tail(path, 80, 5) == " 199\n"


def test_parameters_are_parsed() -> None:
    """The query of a kubelet's log endpoint; sinceSeconds counts back from now."""
    query = {
        "follow": "true",
        "timestamps": "true",
        "tailLines": "3",
        "limitBytes": "10",
        "sinceSeconds": "5",
    }
    request = parse_log_request(query, now_seconds=START_SECONDS + 5.5)
    assert request == LogRequest(
        follow=True, timestamps=True, tail_lines=3, limit_bytes=10, since=stamp(START_SECONDS + 0.5)
    )
    zoned = parse_log_request({"sinceTime": "2026-11-29T23:34:48+01:00"})
    assert zoned.since == "2026-11-29T22:34:48.000000000Z"
    with pytest.raises(BadLogRequest, match="many"):
        parse_log_request({"tailLines": "many"})
