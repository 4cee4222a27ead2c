"""A task is given up once it is certain that no pool can ever take it, and not for one bad moment."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from airflow_gpu_placement.exceptions import NoPoolFits
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import GapKind, NodeCapacity
from airflow_gpu_placement.operators import placing as module
from airflow_gpu_placement.operators.steps import Waiting
from tests.unit.engine.builders import NOW, decide, pool, seen, signals
from tests.unit.surface.test_memory import JsonStore
from tests.unit.surface.test_placing import configured, placing

if TYPE_CHECKING:
    from airflow_gpu_placement.model.decision import Decision, History
    from airflow_gpu_placement.model.pool import GpuPool

__all__ = ["configured"]

pytestmark = pytest.mark.usefixtures("configured")

EIGHT = GpuRequest.model_validate({"gpus_per_node": 8, "where": {"regions": ["here"]}})
BUSY = seen(used=8)
HALF = seen(gpus=4)
WORN = NodeCapacity(name="n1", gpu=HALF.gpu, capacity=8, allocatable=7, free=7)


class Clusters:
    """Stands for what each look finds: a node or a gap, at so many minutes from the first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = JsonStore()
        self.found: Decision | None = None
        monkeypatch.setattr(module, "decide", self._decide)

    async def _decide(self, *given: Any, **_: Any) -> Decision:
        assert self.found is not None
        history: History = given[2]
        return msgspec.structs.replace(self.found, history=history)

    def look(
        self,
        minutes: int,
        what: NodeCapacity | GapKind,
        *,
        where: GpuPool | None = None,
        try_number: int = 1,
        max_tries: int = 3,
    ) -> Waiting:
        """Let the task look for a place."""
        said = signals("p", gap=what) if isinstance(what, GapKind) else signals("p", what)
        found = decide(EIGHT, [where or pool(region="here")], said)
        self.found = msgspec.structs.replace(found, decided_at=NOW + timedelta(minutes=minutes))
        ended = asyncio.run(
            placing(store=self.store, retries=3, try_number=try_number, max_tries=max_tries).attempt()
        )
        assert isinstance(ended, Waiting)
        return ended


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    """Put clusters of the test's choice in the place of real ones."""
    return Clusters(monkeypatch)


@pytest.mark.parametrize("what", [HALF, GapKind.FORBIDDEN])
def test_what_can_never_be_fails_at_the_first_look(clusters: Clusters, what: NodeCapacity | GapKind) -> None:
    """Nobody is left waiting for a pool that is too small."""
    with pytest.raises(NoPoolFits, match="0/1 GPU pools fit"):
        clusters.look(0, what)


def test_withdrawn_gpus_are_given_time_at_the_first_look_too(clusters: Clusters) -> None:
    """Somebody may boot the node; when nobody does, the task fails and says for how long."""
    clusters.look(0, WORN)
    clusters.look(29, WORN)
    with pytest.raises(NoPoolFits, match="every pool has said never for 0:30:00:\n0/1 GPU pools fit"):
        clusters.look(30, WORN)


def test_one_bad_moment_ends_no_wait(clusters: Clusters, caplog: pytest.LogCaptureFixture) -> None:
    """Only a never that lasts does, and it is told once until when."""
    clusters.look(0, BUSY)
    with caplog.at_level(logging.WARNING):
        clusters.look(200, HALF)
        clusters.look(210, GapKind.FORBIDDEN)
    told = [one.getMessage() for one in caplog.records if "fails if that is still so" in one.getMessage()]
    assert len(told) == 1
    assert told[0].endswith("at 2026-01-05T15:50:00+00:00")
    clusters.look(220, BUSY)
    clusters.look(235, HALF)
    clusters.look(264, HALF)
    with pytest.raises(NoPoolFits):
        clusters.look(265, HALF)


def test_what_the_catalogue_rules_out_ends_a_wait(clusters: Clusters) -> None:
    """Somebody has just corrected its region; no node has a say in that."""
    clusters.look(0, BUSY)
    with pytest.raises(NoPoolFits):
        clusters.look(1, BUSY, where=pool(region="there"))


def test_a_task_that_is_cleared_looks_for_the_first_time_again(clusters: Clusters) -> None:
    """Whoever clears it wants to know at once."""
    clusters.look(0, BUSY)
    clusters.look(10, HALF)
    with pytest.raises(NoPoolFits):
        clusters.look(11, HALF, try_number=2, max_tries=4)


def test_retries_do_not_begin_the_time_anew(clusters: Clusters) -> None:
    """What every pool has said before counts for the next try."""
    clusters.look(0, BUSY)
    clusters.look(10, HALF)
    clusters.look(20, HALF, try_number=2)
    with pytest.raises(NoPoolFits):
        clusters.look(40, HALF, try_number=2)
