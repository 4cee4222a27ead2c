"""Hooks for all tests: the tails of the servers' logs are printed below a test that fails."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from lab.airflow import diagnostics

if TYPE_CHECKING:
    from collections.abc import Generator

pytest_plugins = ("tests.harness.scenarios",)

#: Markers of the tests that use servers.
SERVER_MARKERS = ("lab", "system")


def pytest_configure() -> None:
    """Let ctrl-C reach the programs under test, also where the tests run in the background of a shell.

    Such a shell starts them with SIGINT ignored, and what is ignored stays so in every child.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[Any],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a section for each running server to a failure, unless the error has the tails itself.

    Session-wide servers still run while tests that know nothing of them fail: only tests with a marker of
    ``SERVER_MARKERS`` get the sections.
    """
    report = yield
    if report.failed and any(item.get_closest_marker(name) for name in SERVER_MARKERS):
        error = call.excinfo.value if call.excinfo else None
        if not getattr(error, diagnostics.CARRIES_LOG_TAILS, False):
            report.sections.extend(diagnostics.sections())
    return report
