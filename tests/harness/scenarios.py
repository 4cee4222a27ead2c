"""Scenarios: system tests with an id each, and the table of them that is printed when the tests have ended.

``@pytest.mark.scenario("CANCEL-CLEAR-RUNNING", "what must be true at the end")`` gives a test its id. An id
stands for one end state, so no two tests may share one. ``--scenario-report=FILE`` writes the table to a file
as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

MARKER = "scenario"
#: Key of a test's own measure of its seconds, for scenarios that are played side by side.
SECONDS = "scenario_seconds"
_WORST_FIRST = ("error", "failed", "skipped", "passed")


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    id: str
    title: str
    result: str
    seconds: float


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names a file for the table."""
    parser.addoption("--scenario-report", metavar="FILE", help="write the table of scenarios to a file too")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", f"{MARKER}(id, title): one end state with an id, listed in a table")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each report its scenario, and refuse ids that two tests share."""
    taken: dict[str, str] = {}
    for item in items:
        marker = item.get_closest_marker(MARKER)
        if marker is None:
            continue
        name, title = marker.args
        if name in taken:
            raise pytest.UsageError(f"scenario {name} is both {taken[name]} and {item.nodeid}: rename one")
        taken[name] = item.nodeid
        item.user_properties.append((MARKER, (name, title)))


def rows_of(reports: Iterable[Any]) -> list[Row]:
    """Make one row of each scenario from the reports of its phases: the worst result and all the time."""
    rows: dict[str, Row] = {}
    for report in reports:
        properties = dict(report.user_properties)
        if MARKER not in properties:
            continue
        name, title = properties[MARKER]
        result = "error" if report.failed and report.when != "call" else report.outcome
        before = rows.get(name, Row(name, title, "passed", 0.0))
        worst = min(before.result, result, key=_WORST_FIRST.index)
        seconds = properties.get(SECONDS, before.seconds + report.duration)
        rows[name] = Row(name, title, worst, seconds)
    return sorted(rows.values(), key=lambda row: row.id)


def table(rows: list[Row]) -> str:
    """Return the rows as a table of text."""
    width = max((len(row.id) for row in rows), default=2)
    lines = [f"{'id':<{width}}  {'result':<7}  seconds  at the end"]
    lines += [f"{row.id:<{width}}  {row.result:<7}  {row.seconds:7.1f}  {row.title}" for row in rows]
    return "\n".join(lines)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table, and write it where that was asked for."""
    reports = [
        report
        for category in terminalreporter.stats.values()
        for report in category
        if isinstance(report, pytest.TestReport)
    ]
    rows = rows_of(reports)
    if not rows:
        return
    passed = sum(row.result == "passed" for row in rows)
    terminalreporter.section(f"{passed} of {len(rows)} scenarios passed")
    terminalreporter.write_line(table(rows))
    if target := config.getoption("--scenario-report"):
        Path(target).write_text(table(rows) + "\n", encoding="utf-8")
