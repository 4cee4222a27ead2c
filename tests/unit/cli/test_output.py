"""What a command prints on a terminal, into a pipe, and where nobody reads."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.cli.output import print_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 60.0
_STYLE = re.compile("\x1b\\[[0-9;]*m")
ROWS = (
    "from airflow_gpu_placement.cli.output import print_rows\n"
    "row = {'pool': 'onprem-h100', 'gpu': 'H100 80 GB', 'nodes': 3, 'usable': None,\n"
    "       'problem': 'connection_missing: nobody has made the connection of this pool'}\n"
    "print_rows([row] * %d, 'table')\n"
    "raise SystemExit(7)"
)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Return both ends of a terminal: the one to look at, and the one for a program."""
    seen, given = pty.openpty()
    yield seen, given
    os.close(seen)


def shown_at(columns: int, terminal: tuple[int, int]) -> list[str]:
    """Print a record on a real terminal of so many columns and return what is on it."""
    seen, given = terminal
    fcntl.ioctl(given, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    ran = subprocess.run(
        [sys.executable, "-c", ROWS % 1],
        stdin=given,
        stdout=given,
        stderr=subprocess.PIPE,
        env=environment,
        timeout=SECONDS,
        check=False,
    )
    os.close(given)
    assert (ran.returncode, ran.stderr) == (7, b"")
    told = _STYLE.sub("", os.read(seen, 65536).decode().replace("\r\n", "\n"))
    return [line.rstrip() for line in told.splitlines() if line.strip()]


def test_a_table_that_fits_the_terminal_is_one(terminal: tuple[int, int]) -> None:
    """One line a record; no word is cut."""
    heading, _, *rows = shown_at(120, terminal)
    assert [cell.strip() for cell in heading.split("|")] == ["pool", "gpu", "nodes", "usable", "problem"]
    assert len(rows) == 1


def test_on_a_narrow_terminal_a_table_becomes_a_list(terminal: tuple[int, int]) -> None:
    """No word is cut, nothing is wider than the terminal, and what is unknown takes no line."""
    assert shown_at(50, terminal) == [
        "onprem-h100",
        "  gpu      H100 80 GB",
        "  nodes    3",
        "  problem  connection_missing: nobody has made the",
        "           connection of this pool",
    ]


def test_brackets_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    """What stands in brackets is no style, and what stands between colons no picture."""
    print_rows([{"what": "section [gpu_placement], ['/bin/sh'], [/red], :warning:"}], "table")
    assert "section [gpu_placement], ['/bin/sh'], [/red], :warning:" in capsys.readouterr().out


def test_without_records_there_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty table would look like a fault."""
    print_rows([], "table")
    assert capsys.readouterr().out == "Nothing found.\n"
    print_rows([], "json")
    assert capsys.readouterr().out == "[]\n"


def test_a_reader_that_has_seen_enough_changes_nothing() -> None:
    """As with ``| head -1``: no error is told, and the exit code is that of the answer."""
    program = subprocess.Popen(
        [sys.executable, "-c", ROWS % 5000], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert program.stdout is not None
    assert program.stderr is not None
    program.stdout.close()
    assert program.wait(SECONDS) == 7
    assert program.stderr.read() == b""
    program.stderr.close()


@pytest.mark.parametrize("stream", [1, 2])
def test_a_stream_that_was_closed_is_not_written_to(stream: int) -> None:
    """As with ``>&-`` and ``2>&-``."""
    code = "from airflow_gpu_placement.cli.output import print_error, print_text\n"
    code += "print_text('a')\nprint_error('b')\nraise SystemExit(7)"
    ran = subprocess.run(
        ["bash", "-c", f'"$0" -c "$1" {stream}>&-', sys.executable, code],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (ran.returncode, ran.stdout + ran.stderr) == (7, "b\n" if stream == 1 else "a\n")


def test_a_terminal_without_a_character_gets_its_number() -> None:
    """A name of another alphabet ends no command."""
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "from airflow_gpu_placement.cli.output import print_text; print_text('\u00fc')",
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=SECONDS,
        check=True,
    )
    assert ran.stdout == "\\xfc\n"
