"""Scenarios that are played at the same time, each in a thread, and judged one by one.

A scenario of real servers is nearly all waiting. So those of one group, which do not disturb each other, run
together, and each test only asks how its own one ended::

    @pytest.fixture(scope="module")
    def plays(request, stage): return Plays(request, SCENARIOS, stage)

    @pytest.mark.parametrize("scenario", params(SCENARIOS))
    def test_scenario(plays, scenario, record_property): plays.judge(scenario, record_property)
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pytest

from tests.harness.scenarios import MARKER, SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from concurrent.futures import Future

Stage = TypeVar("Stage")


@dataclass(frozen=True)
class Scenario(Generic[Stage]):
    """One end state.

    :param title: what must be true at the end.
    :param play: acts it out and asserts the end state; the second argument is the scenario itself.
    :param group: the scenarios of a group are played at the same time, the groups one after the other.
    """

    id: str
    title: str
    play: Callable[[Stage, Scenario[Stage]], None]
    group: str = ""


def params(scenarios: Iterable[Scenario[Any]]) -> list[Any]:
    """Return the scenarios as parameters of one test, each with its id."""
    return [pytest.param(one, id=one.id, marks=pytest.mark.scenario(one.id, one.title)) for one in scenarios]


class Plays(Generic[Stage]):
    """Plays the selected ones of some scenarios, a group at the first question about it.

    :param scenarios: all of one module.
    :param stage: what each of them gets.
    """

    def __init__(
        self, request: pytest.FixtureRequest, scenarios: Iterable[Scenario[Stage]], stage: Stage
    ) -> None:
        wanted = self.selected(request)
        self._stage = stage
        self._ended: dict[str, Future[None]] = {}
        self._seconds: dict[str, float] = {}
        self.groups: dict[str, list[Scenario[Stage]]] = defaultdict(list)
        for one in scenarios:
            if one.id in wanted:
                self.groups[one.group].append(one)

    @staticmethod
    def selected(request: pytest.FixtureRequest) -> set[str]:
        """Return the ids of all scenarios that run in this session."""
        markers = (item.get_closest_marker(MARKER) for item in request.session.items)
        return {marker.args[0] for marker in markers if marker is not None}

    def judge(self, scenario: Scenario[Stage], record_property: Callable[[str, object], None]) -> None:
        """Raise what the scenario raised, and note how long it took."""
        if scenario.id not in self._ended:
            self._play(self.groups[scenario.group])
        record_property(SECONDS, self._seconds[scenario.id])
        self._ended[scenario.id].result()

    def _play(self, group: list[Scenario[Stage]]) -> None:
        with ThreadPoolExecutor(max_workers=len(group)) as pool:
            for one in group:
                self._ended[one.id] = pool.submit(self._timed, one)

    def _timed(self, scenario: Scenario[Stage]) -> None:
        began = time.monotonic()
        try:
            scenario.play(self._stage, scenario)
        finally:
            self._seconds[scenario.id] = time.monotonic() - began


class Meeting:
    """Where some threads wait for each other, and the last one that comes acts for all of them.

    A thread that fails on its way counts as having come, so that the others go on.

    :param count: how many come.
    :param act: called once, when the last one is there.
    """

    def __init__(self, count: int, act: Callable[[], None]) -> None:
        self._missing = count
        self._act = act
        self._lock = threading.Lock()
        self._done = threading.Event()

    @contextmanager
    def arriving(self, timeout_seconds: float = 300.0) -> Iterator[None]:
        """Do in the block what comes before the meeting; the block ends when the last one has acted."""
        try:
            yield
        finally:
            with self._lock:
                self._missing -= 1
                is_last = self._missing == 0
            if is_last:
                try:
                    self._act()
                finally:
                    self._done.set()
        if not self._done.wait(timeout_seconds):
            raise TimeoutError(f"{self._missing} others did not come within {timeout_seconds:g} s")
