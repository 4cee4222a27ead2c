"""From which of several copies data is brought."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_gpu_placement.engine.costs.moves import Move, cheapest, worth_a_look
from airflow_gpu_placement.model.decision import Setting
from airflow_gpu_placement.model.money import Dataset, EgressRoute, Tenant
from tests.unit.engine.costing import cost, usd

if TYPE_CHECKING:
    from airflow_gpu_placement.model.estimate import Cost

SLOW = EgressRoute(source="slow", target="here", usd_per_gib=0.0, gbps=0.1)
FAST = EgressRoute(source="fast", target="here", usd_per_gib=0.1, gbps=100.0)


def brought(*locations: str, time: dict[str, Any] | None = None, **setting: Any) -> Cost:
    """Cost of ten hours on eight GPUs for 2 USD, with 1,000 GiB of data elsewhere."""
    known = Setting(
        datasets={"d": Dataset(name="d", size_gib=1000, locations=locations)}, egress=(SLOW, FAST), **setting
    )
    request = {"gpus_per_node": 8, "data": ("d",), "time": {"runtime_hours": 10, **(time or {})}}
    return cost(request, setting=known, region="here", gpu_hour_usd=2.0)


def test_a_free_copy_that_lets_gpus_wait_for_a_day_is_left() -> None:
    """Twenty-four hours of eight GPUs cost more than the fee of the other copy."""
    both, fast_alone = brought("slow", "fast"), brought("fast")
    assert usd(both)["egress"] == pytest.approx(100)
    assert both.total_usd == pytest.approx(fast_alone.total_usd)
    assert both.total_usd == pytest.approx(100 + 16 * both.held_hours)
    assert brought("slow").total_usd > 500


def test_a_deadline_is_kept_by_the_copy_that_comes_in_time() -> None:
    """Although, with GPUs that cost nothing, the slow copy would be the cheaper one."""
    known = Setting(
        datasets={"d": Dataset(name="d", size_gib=1000, locations=("slow", "fast"))}, egress=(SLOW, FAST)
    )
    found = {}
    for deadline in (None, 12.0, 100.0):
        hours = {"runtime_hours": 10, "complete_within_hours": deadline}
        request = {"gpus_per_node": 8, "data": ("d",), "time": hours}
        found[deadline] = cost(request, setting=known, region="here", gpu_hour_usd=0.0).total_usd
    assert found == {None: 0.0, 12.0: pytest.approx(100), 100.0: 0.0}


def test_a_budget_is_kept_by_the_copy_that_costs_less_money() -> None:
    """The value of the author's time is no money, so it cannot break a budget."""
    fast = brought("slow", "fast")
    kept = brought("slow", "fast", tenant=Tenant(name="t", monthly_budget_usd=fast.cash_usd))
    assert kept.total_usd == fast.total_usd


def test_several_things_are_looked_at_together() -> None:
    """Every choice that no other beats in both money and time, and of very many both ends."""
    pairs = tuple(
        (Move(str(size), size, SLOW, "slow"), Move(str(size), size, FAST, "fast")) for size in (1.0, 2.0)
    )
    assert [[move.source for move in moves] for moves in worth_a_look(pairs)] == [
        ["slow", "slow"],
        ["fast", "slow"],
        ["slow", "fast"],
        ["fast", "fast"],
    ]
    assert [move.source for move in cheapest(pairs, 0.0)] == ["slow", "slow"]
    many = tuple((Move("x", 1.01**n, SLOW, "slow"), Move("x", 1.01**n, FAST, "fast")) for n in range(40))
    choices = worth_a_look(many)
    assert len(choices) <= 256
    assert {move.source for move in choices[0]} == {"slow"}
    assert {move.source for move in choices[-1]} == {"fast"}
