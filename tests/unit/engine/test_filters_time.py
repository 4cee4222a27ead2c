"""Deadlines."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_gpu_placement.model.decision import History, Setting
from airflow_gpu_placement.model.estimate import Estimate, Knowledge
from airflow_gpu_placement.model.request import GpuRequest
from tests.unit.engine.builders import A100_40, NOW, codes, decide, judged, pool, seen, signals, verdict_of

PCIE = "NVIDIA-H100-PCIe"
ONE = {"gpus_per_node": 8}
GANG = {"gpus_per_node": 8, "nodes": 2}


KNOWN = Setting(knowledge=Knowledge(runtime_hours={"*": Estimate(value=3.0, source="history(5)")}))


@pytest.mark.parametrize(
    ("time", "setting", "want"),
    [
        pytest.param({"runtime_hours": 1, "complete_within_hours": 2}, None, [], id="in time"),
        pytest.param(
            {"runtime_hours": 3, "complete_within_hours": 2}, None, ["DeadlineUnreachable"], id="too late"
        ),
        pytest.param({"complete_within_hours": 2}, KNOWN, ["DeadlineUnreachable"], id="too late as learnt"),
        pytest.param({"complete_within_hours": 0.5}, None, [], id="a guess refuses nothing"),
        pytest.param(
            {"runtime_hours": 1, "deadline": NOW - timedelta(hours=1)},
            None,
            ["DeadlineUnreachable"],
            id="passed",
        ),
    ],
)
def test_a_hard_deadline_refuses_what_is_known_to_be_late(
    time: dict[str, Any], setting: Setting | None, want: list[str]
) -> None:
    """The runtime is given or learnt; a default proves nothing."""
    assert codes(judged({"time": {**time, "deadline_is_hard": True}}, setting=setting)) == want


def test_the_time_to_complete_counts_from_the_first_decision() -> None:
    """A retry does not get the whole time again."""
    request = {"time": {"runtime_hours": 1, "complete_within_hours": 3, "deadline_is_hard": True}}
    assert codes(judged(request, history=History(since=NOW - timedelta(hours=1)))) == []
    late = History(since=NOW - timedelta(hours=2, minutes=30))
    assert codes(judged(request, history=late)) == ["DeadlineUnreachable"]


def test_a_soft_deadline_prefers_the_earliest_end_and_warns() -> None:
    """When nothing makes it, money is no longer the question."""
    decision = decide(
        GpuRequest(time={"runtime_hours_by_model": {"H100": 5, "A100": 9}, "complete_within_hours": 2}),  # type: ignore[arg-type]  # a dict is read
        [pool("cheap", gpu_hour_usd=0.5), pool("fast", gpu_hour_usd=5.0)],
        signals("cheap", seen(product=A100_40)),
        signals("fast", seen()),
    )
    assert decision.chosen == "fast"
    assert decision.warnings == (
        "no pool makes the deadline, which is in 2.00 h: fast ends earliest, in 5.00 h (runtime: given)",
    )


def test_a_pool_that_makes_the_deadline_is_preferred_to_a_cheaper_one() -> None:
    """And nothing is warned of, since one of them makes it."""
    decision = decide(
        GpuRequest(time={"runtime_hours_by_model": {"H100": 1, "A100": 9}, "complete_within_hours": 2}),  # type: ignore[arg-type]  # a dict is read
        [pool("cheap", gpu_hour_usd=0.1), pool("fast", gpu_hour_usd=5.0)],
        signals("cheap", seen(product=A100_40)),
        signals("fast", seen()),
    )
    assert (decision.chosen, decision.warnings) == ("fast", ())


@pytest.mark.parametrize(
    ("time", "fields", "want"),
    [
        pytest.param(
            {"runtime_hours": 1, "complete_within_hours": 0.9999},
            {},
            "in pool p the job takes 1.0002 h; the deadline is in 0.9999 h",
            id="two hours that look the same",
        ),
        pytest.param(
            {"runtime_hours": 1, "deadline": NOW - timedelta(hours=2)},
            {},
            "in pool p the job takes 1.00 h; the deadline passed 2.00 h ago",
            id="over",
        ),
        pytest.param(
            {"runtime_hours": 1, "complete_within_hours": 1.5},
            {"max_nodes": 4, "per_node": 8, "provisioning_seconds": 3600},
            "in pool p the job takes 2.00 h, 1.00 h of it until it can start; the deadline is in 1.50 h",
            id="a wait",
        ),
    ],
)
def test_a_deadline_is_told_in_words(time: dict[str, Any], fields: dict[str, Any], want: str) -> None:
    """A reader sees why it is missed, and what of the time is no work."""
    request = {"gpus_per_node": 8, "nodes": 2, "time": {**time, "deadline_is_hard": True}}
    (reason,) = verdict_of(judged(request, seen("a"), *([] if fields else [seen("b")]), **fields)).reasons
    assert reason.message == want
