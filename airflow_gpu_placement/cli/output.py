"""What a command prints: tables for people, which fit their terminal, and JSON and YAML for programs."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from typing import TYPE_CHECKING, Any, TextIO

import yaml
from airflow.cli.simple_table import AirflowConsole, SimpleTable
from rich.measure import Measurement
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table

_INDENT = 2
_WIDEST = 10_000
_NARROWEST = 24
"""Columns that a value gets at least, however narrow the terminal is."""


def print_rows(rows: Sequence[dict[str, Any]], output: str) -> None:
    """Print records as a table for people, or as JSON or YAML with their own types."""
    if output != "table":
        print_data(list(rows), output)
    elif not rows:
        print_text("Nothing found.")
    else:
        headings = tuple(rows[0])
        cells = [tuple(_cell(value) for value in row.values()) for row in rows]
        drawn = SimpleTable()  # type: ignore[no-untyped-call]  # Airflow's class has no annotations
        drawn.show_header = True
        for heading in headings:
            drawn.add_column(heading)
        for row in cells:
            drawn.add_row(*map(Text, row))
        print_table(drawn, headings, cells)


def print_table(drawn: Table, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; as a list of its rows where it is too wide for the terminal.

    :param drawn: the table.
    :param headings: its headings; the first column begins a new entry of the list wherever it is not empty.
    :param rows: its cells.
    """
    console = AirflowConsole()
    unlimited = console.options.update(width=_WIDEST)
    if Measurement.get(console, unlimited, drawn).minimum > console.width:  # words would be cut
        if drawn.title:
            print_text(str(drawn.title))
        print_text(_list(headings, rows, console.width))
        return
    with console.capture() as captured:
        console.print(drawn)
    _write(sys.stdout, captured.get())


def print_data(data: Any, output: str) -> None:
    """Print plain values as JSON or YAML."""
    if output == "json":
        print_text(json.dumps(data, indent=_INDENT))
    else:
        print_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True).rstrip("\n"))


def print_text(text: str) -> None:
    """Print text as it is, without wrapping or colour."""
    _write(sys.stdout, f"{text}\n")


def print_error(text: str) -> None:
    """Print one line on the error stream."""
    _write(sys.stderr, f"{' '.join(text.split())}\n")


def _write(stream: TextIO | None, text: str) -> None:
    """Write to a stream; where nobody reads any more, write nothing.

    A reader such as ``head`` that has seen enough changes neither the answer nor its exit code.
    """
    if stream is None:  # whoever started the command has closed it
        return
    try:
        coding = stream.encoding or "utf-8"  # a terminal that cannot show a character gets its number
        stream.write(text.encode(coding, "backslashreplace").decode(coding))
        stream.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _list(headings: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> str:
    """Write each row as its first cell, and below it a line for each other cell that says something."""
    indent = max(map(len, headings[1:])) + 2 * _INDENT
    lines: list[str] = []
    for first, *cells in rows:
        if first:
            lines.append(first)
        for heading, cell in zip(headings[1:], cells, strict=True):
            if cell:
                begin = f"{'':{_INDENT}}{heading}"
                lines += textwrap.wrap(
                    cell,
                    max(width, indent + _NARROWEST),
                    initial_indent=f"{begin:{indent}}",
                    subsequent_indent=" " * indent,
                    break_on_hyphens=False,
                )
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)
