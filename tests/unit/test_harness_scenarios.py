"""The table of scenarios and the plays side by side, in small test sessions of their own."""

from __future__ import annotations

import pytest

pytest_plugins = ("pytester",)

SESSION = """
import pytest
from tests.harness.side_by_side import Meeting, Plays, Scenario, params


def good(stage, scenario):
    with stage["meeting"].arriving(10):
        stage["came"].append(scenario.id)
    assert len(stage["came"]) == 2


def bad(stage, scenario):
    with stage["meeting"].arriving(10):
        raise ValueError("the reason")


SCENARIOS = [
    Scenario("A.GOOD", "one line", good, "group"),
    Scenario("A.BAD", "another line", bad, "group"),
    Scenario("A.ALSO-GOOD", "a third line", good, "group"),
]


@pytest.fixture(scope="module")
def plays(request):
    stage = {"came": [], "acted": []}
    stage["meeting"] = Meeting(3, lambda: stage["acted"].append(True))
    yield Plays(request, SCENARIOS, stage)
    assert stage["acted"] == [True]


@pytest.mark.parametrize("scenario", params(SCENARIOS))
def test_all(plays, scenario, record_property):
    plays.judge(scenario, record_property)


@pytest.mark.scenario("B.SKIPPED", "not here")
def test_skipped():
    pytest.skip("not here")


def test_without_an_id():
    pass
"""


@pytest.fixture
def session(pytester: pytest.Pytester) -> pytest.Pytester:
    """Return a folder for a test session that knows of scenarios."""
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.makeconftest('pytest_plugins = ("tests.harness.scenarios",)')
    return pytester


def test_each_scenario_is_a_row_with_its_own_result(session: pytest.Pytester) -> None:
    """Played together, judged one by one: one that fails leaves the others as they are."""
    session.makepyfile(SESSION)
    report = session.path / "table.txt"
    result = session.runpytest(f"--scenario-report={report}")
    result.assert_outcomes(passed=3, failed=1, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "*ValueError: the reason*",
            "*2 of 4 scenarios passed*",
            "A.ALSO-GOOD  passed *a third line",
            "A.BAD        failed *another line",
            "A.GOOD       passed *one line",
            "B.SKIPPED    skipped*not here",
        ]
    )
    assert len(report.read_text().splitlines()) == 5


def test_a_session_without_scenarios_prints_no_table(session: pytest.Pytester) -> None:
    """Nothing is said where there is nothing to say."""
    session.makepyfile("def test_a(): pass")
    assert "scenarios passed" not in session.runpytest().stdout.str()


def test_ids_are_unique(session: pytest.Pytester) -> None:
    """Two tests with one id are refused before any of them runs."""
    session.makepyfile(
        """
        import pytest

        @pytest.mark.scenario("A", "one")
        def test_one(): pass

        @pytest.mark.scenario("A", "other")
        def test_other(): pass
        """
    )
    result = session.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*scenario A is both *::test_one and *::test_other: rename one*"])
