"""What a job costs in a pool, and which pool that makes the best one."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gpu_placement.model.decision import Decision, History, Setting
from airflow_gpu_placement.model.estimate import Knowledge
from airflow_gpu_placement.model.money import BUILT_IN_PROFILES, Dataset, EgressRoute, Profile
from airflow_gpu_placement.model.pool import CapacityType
from airflow_gpu_placement.model.request import GpuRequest
from tests.unit.engine.builders import A100_40, decide, pool, seen, signals, verdict_of
from tests.unit.engine.costing import AT_ONCE, GROWS, cost, hours, usd

DATA = Dataset(name="corpus", size_gib=2048, locations=("east",))
CHEAPEST, BALANCED, FASTEST = BUILT_IN_PROFILES


@pytest.mark.parametrize(("used", "want"), [(0, "east"), (8, "west")])
def test_data_gravity_outweighs_a_lower_price(used: int, want: str) -> None:
    """Where the data is, the dearer GPUs are cheaper; when they are busy, the others are worth the way."""
    route = EgressRoute(source="east", target="west", usd_per_gib=0.02, gbps=AT_ONCE)
    decision = decide(
        GpuRequest(
            gpus_per_node=8,
            data=("corpus",),
            time={"runtime_hours_by_model": {"H100": 10, "A100": 13}},  # type: ignore[arg-type]  # a dict is read
        ),
        [
            pool("east", region="east", gpu_hour_usd=14 / 8, interruptions_per_gpu_hour=0.0),
            pool("west", region="west", gpu_hour_usd=11.5 / 8, interruptions_per_gpu_hour=0.0),
        ],
        signals("east", seen(used=used)),
        signals("west", seen(product=A100_40)),
        setting=Setting(datasets={"corpus": DATA}, egress=(route,)),
    )
    assert decision.chosen == want
    west = verdict_of(decision, "west").cost
    assert west is not None
    assert west.total_usd == pytest.approx(190.46)
    if not used:
        east = verdict_of(decision, "east").cost
        assert east is not None
        assert east.total_usd == pytest.approx(140.0)


def test_work_costs_gpus_times_price_times_hours() -> None:
    """The plain case has one term worth money."""
    found = cost(hours(10), gpu_hour_usd=2.0)
    assert usd(found) == {"compute": 160.0, "rework": 0.0}
    assert (found.total_usd, found.cash_usd, found.held_hours, found.wait_hours) == (160.0, 160.0, 10.0, 0.0)
    assert found.terms[0].formula == "8 GPUs x 2 USD x 10 h"


@pytest.mark.parametrize(
    ("checkpoint", "lost_hours"),
    [
        pytest.param({}, 10, id="without checkpoints all the work is lost"),
        pytest.param({"uri": "s3://b/c"}, 10, id="nobody knows how often there is one"),
        pytest.param({"uri": "s3://b/c", "interval_minutes": 30}, 0.5, id="half an hour at most"),
        pytest.param({"uri": "s3://b/c", "interval_minutes": 6000}, 10, id="never more than all of it"),
    ],
)
def test_recovery_decides_what_an_interruption_costs(checkpoint: dict[str, Any], lost_hours: float) -> None:
    """Rate x GPUs x runtime x (half the interval + restart)."""
    found = cost({**hours(10), "checkpoint": checkpoint}, gpu_hour_usd=1.0, interruptions_per_gpu_hour=0.001)
    rework_hours = 0.001 * 8 * 10 * (lost_hours / 2 + 0.1)
    assert usd(found)["rework"] == pytest.approx(8 * rework_hours)
    assert found.held_hours == pytest.approx(10 + rework_hours)


def test_whether_the_job_can_recover_decides_between_spot_and_reserved() -> None:
    """Spot at a tenth less is worth it with checkpoints and not without."""
    pools = [
        pool("spot", capacity_type=CapacityType.SPOT, gpu_hour_usd=1.8),
        pool("reserved", capacity_type=CapacityType.RESERVED, gpu_hour_usd=2.0),
    ]
    observed = [signals(one.name, seen()) for one in pools]
    request = {"gpus_per_node": 8, "time": {"runtime_hours": 24}}
    careless = decide(GpuRequest(**request), pools, *observed)  # type: ignore[arg-type]  # dicts are read
    careful = decide(
        GpuRequest(**request, checkpoint={"uri": "s3://b/c", "interval_minutes": 15}),  # type: ignore[arg-type]  # dicts are read
        pools,
        *observed,
    )
    assert (careless.chosen, careful.chosen) == ("reserved", "spot")


@pytest.mark.parametrize(
    ("request_", "fields", "want"),
    [
        pytest.param({"gpus_per_node": 2, "nodes": 3}, {}, 6, id="GPUs of others are not paid"),
        pytest.param({"gpus_per_node": 2, "nodes": 3}, GROWS, 8, id="a node that was added is paid whole"),
        pytest.param({"gpus_per_node": 4, "nodes": 3}, GROWS, 16, id="two of them"),
    ],
)
def test_a_pool_that_grows_bills_whole_nodes(
    request_: dict[str, Any], fields: dict[str, Any], want: int
) -> None:
    """What nobody else would use is paid by the job that asked for it."""
    nodes = [seen("a"), seen("b")]
    found = cost({**request_, "time": {"runtime_hours": 1}}, nodes=nodes, gpu_hour_usd=1.0, **fields)
    assert usd(found)["compute"] == want


def test_the_rank_price_orders_and_the_cash_price_is_spent() -> None:
    """Reserved GPUs cost nothing more and are not free to waste."""
    found = cost(hours(1), gpu_hour_usd=0.0, rank_gpu_hour_usd=1.5)
    assert (found.total_usd, found.cash_usd) == (12.0, 0.0)


def test_a_preference_orders_and_is_no_money() -> None:
    """The platform team's bias."""
    found = cost(hours(1), gpu_hour_usd=1.0, preference_usd=-3.0)
    assert (found.total_usd, found.cash_usd) == (5.0, 8.0)


def test_without_a_price_no_money_is_claimed() -> None:
    """Neither a total of 0 for GPUs nor a sum that could be spent."""
    found = cost(hours(1), setting=Setting(profile=BALANCED))
    assert (usd(found), found.cash_usd) == ({"time": 10.0}, None)


@pytest.mark.parametrize(("profile", "want"), [(CHEAPEST, "slow"), (FASTEST, "quick")])
def test_the_profile_weighs_time_against_money(profile: Profile, want: str) -> None:
    """An hour is worth what its author says."""
    pools = [pool("slow", gpu_hour_usd=0.5), pool("quick", gpu_hour_usd=2.0)]
    decision = decide(
        GpuRequest(time={"runtime_hours_by_model": {"A100": 4, "H100": 2}}),  # type: ignore[arg-type]  # a dict is read
        pools,
        signals("slow", seen(product=A100_40)),
        signals("quick", seen()),
        setting=Setting(profile=profile),
    )
    assert decision.chosen == want


def test_the_checkpoint_is_data_too() -> None:
    """A re-placement weighs where the newest one is."""
    pools = [pool("east", region="east", gpu_hour_usd=2.0), pool("west", region="west", gpu_hour_usd=1.9)]

    def decided(region: str | None) -> Decision:
        return decide(
            GpuRequest(checkpoint={"uri": "s3://b/c", "size_gib": 500}),  # type: ignore[arg-type]  # a dict is read
            pools,
            *(signals(one.name, seen()) for one in pools),
            setting=Setting(knowledge=Knowledge(checkpoint_region=region)),
        )

    assert decided(None).chosen == "west"
    moved = decided("east")
    assert moved.chosen == "east"
    west = verdict_of(moved, "west").cost
    assert west is not None
    assert usd(west)["egress"] == pytest.approx(500 * 0.12)
    assert west.estimates["usd_per_gib:checkpoint"].source == "default"


def test_moving_data_takes_time_for_which_gpus_are_paid() -> None:
    """2048 GiB at 10 Gbit/s are half an hour, at the price of the GPUs."""
    route = EgressRoute(source="*", target="west", usd_per_gib=0.0, gbps=10.0, origin="given")
    found = cost(
        {**hours(1), "data": ["corpus"]},
        setting=Setting(datasets={"corpus": DATA}, egress=(route,)),
        region="west",
        gpu_hour_usd=1.0,
    )
    staging = 2048 * 8 * 1.073741824 / 10 / 3600
    assert found.held_hours == pytest.approx(1 + staging)
    assert usd(found)["compute"] == pytest.approx(8 * (1 + staging))


def test_the_most_exact_route_counts() -> None:
    """A route between two regions before one with a star, before the default."""
    routes = (
        EgressRoute(source="*", target="*", usd_per_gib=0.5),
        EgressRoute(source="east", target="*", usd_per_gib=0.3),
        EgressRoute(source="east", target="west", usd_per_gib=0.1),
    )
    for known, want in ((routes, 0.1), (routes[:2], 0.3), (routes[:1], 0.5), ((), 0.12)):
        found = cost(
            {**hours(1), "data": ["corpus"]},
            setting=Setting(datasets={"corpus": DATA}, egress=known),
            region="west",
        )
        assert usd(found)["egress"] == pytest.approx(2048 * want)


def test_a_loss_makes_its_pool_the_last_choice_and_not_an_impossible_one() -> None:
    """Whatever it costs, and it is used when nothing else fits."""
    pools = [pool("a", gpu_hour_usd=1.0), pool("b", gpu_hour_usd=9.0)]
    lost = History(losses={"a": 1})
    both = decide(GpuRequest(), pools, signals("a", seen()), signals("b", seen()), history=lost)
    alone = decide(GpuRequest(), pools, signals("a", seen()), signals("b", seen(used=8)), history=lost)
    assert (both.chosen, alone.chosen) == ("b", "a")
