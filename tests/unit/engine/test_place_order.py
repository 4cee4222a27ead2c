"""Which of the pools that fit is chosen, and what the task has learnt from its earlier tries."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.place import place
from airflow_gpu_placement.model.attempt import Refusal
from airflow_gpu_placement.model.decision import History
from airflow_gpu_placement.model.outcome import LossPolicy
from airflow_gpu_placement.model.pool import CapacityType
from airflow_gpu_placement.model.reasons import Verdict
from tests.unit.engine.builders import L40S, NOW, codes, decide, pool, seen, signals, snapshot, verdict_of
from tests.unit.engine.one_pool import GANG, ONE, one_pool


def test_a_lost_node_is_not_used_again() -> None:
    """Without the lost node the job must wait for another, or for that one to be booted anew."""
    lost = History(lost_nodes={"p": ("a",)}, losses={"p": 1})
    assert codes(one_pool(ONE, seen("a"), history=lost)) == ["NodesLost", "NodesNotSchedulable"]
    decision = one_pool(ONE, seen("a"), seen("b"), history=lost)
    assert decision.chosen == "p"
    assert verdict_of(decision).free_gpus == 8
    assert verdict_of(decision).avoid_nodes == ("a",)
    assert codes(one_pool(ONE, seen("a"), seen("b", used=1), history=lost)) == ["InsufficientFreeGpus"]
    assert codes(one_pool(GANG, seen("a"), seen("b"), history=lost)) == [
        "NodesLost",
        "InsufficientFreeGpus",
    ]
    assert verdict_of(one_pool(ONE, seen("a"), history=lost)).verdict is Verdict.UNSCHEDULABLE


def test_a_lost_node_that_was_booted_anew_counts_again() -> None:
    """Nothing from before runs there; without a boot id on either side nobody knows."""
    lost = History(lost_nodes={"p": ("a",)}, lost_boots={"p": {"a": "11111111-2222"}}, losses={"p": 1})
    again = msgspec.structs.replace(seen("a"), boot="33333333")
    same = msgspec.structs.replace(seen("a"), boot="11111111")
    assert one_pool(ONE, again, history=lost).chosen == "p"
    assert verdict_of(one_pool(ONE, again, history=lost)).avoid_nodes == ()
    assert codes(one_pool(ONE, same, history=lost))[0] == "NodesLost"
    assert codes(one_pool(ONE, seen("a"), history=lost))[0] == "NodesLost"
    unknown = msgspec.structs.replace(lost, lost_boots={})
    assert codes(one_pool(ONE, again, history=unknown))[0] == "NodesLost"


def test_a_pool_whose_cluster_refused_the_job_rests_longer_each_time() -> None:
    """What its cluster said is shown; it waits, and is never out for good."""
    for times, rest in ((1, 30), (2, 60), (5, 480), (6, 600), (3000, 600)):
        for seconds, want in ((1, ["JobRefused"]), (rest - 1, ["JobRefused"]), (rest, [])):
            refusal = Refusal(at=NOW - timedelta(seconds=seconds), times=times, why="exceeded quota: jobs")
            decision = one_pool(ONE, seen("a"), history=History(refusals={"p": refusal}))
            assert codes(decision) == want
    refusal = Refusal(at=NOW, times=2, why="exceeded quota: jobs")
    verdict = verdict_of(one_pool(ONE, seen("a"), history=History(refusals={"p": refusal})))
    assert verdict.verdict is Verdict.UNSCHEDULABLE
    assert (
        "(2 times in a row, last at 12:00:00 UTC): exceeded quota: jobs; it is asked again from 12:01:00"
        in (verdict.reasons[0].message)
    )


def test_a_pool_in_which_a_start_was_missed_rests() -> None:
    """It waits, as long as a start may take there; then it is tried again."""
    for seconds, want in ((1, ["StartTimedOut"]), (599, ["StartTimedOut"]), (601, [])):
        missed = History(start_timeouts={"p": NOW - timedelta(seconds=seconds)}, losses={"p": 1})
        assert codes(one_pool(ONE, seen("a"), history=missed)) == want
    missed = History(start_timeouts={"p": NOW - timedelta(seconds=30)})
    hasty = LossPolicy(start_timeout_seconds=2.0)
    decision = one_pool(ONE, seen("a"), history=missed, loss=hasty)
    assert codes(decision) == ["StartTimedOut"]
    assert verdict_of(decision).verdict is Verdict.UNSCHEDULABLE


def test_a_node_lost_in_one_pool_is_lost_for_every_pool_of_its_cluster() -> None:
    """Two pools may share nodes; another cluster may have a node of the same name."""
    lost = History(lost_nodes={"p": ("a",)}, losses={"p": 1})
    pools = [pool("p"), pool("q"), pool("elsewhere", conn="other")]
    observed = [signals(one.name, seen("a")) for one in pools]
    decision = decide(ONE, pools, *observed, history=lost)
    assert codes(decision, "q")[0] == "NodesLost"
    assert decision.chosen == "elsewhere"


@pytest.mark.parametrize(
    ("pools", "losses", "want"),
    [
        pytest.param(
            [pool("a", gpu_hour_usd=3.0), pool("b", gpu_hour_usd=2.0)], {}, ["b", "a"], id="the cheaper first"
        ),
        pytest.param(
            [pool("b", gpu_hour_usd=2.0), pool("a", gpu_hour_usd=2.0)], {}, ["a", "b"], id="then the name"
        ),
        pytest.param(
            [pool("a"), pool("b", gpu_hour_usd=99.0)], {}, ["b", "a"], id="an unknown price comes last"
        ),
        pytest.param(
            [pool("a", gpu_hour_usd=0.0), pool("b", gpu_hour_usd=1.0)], {}, ["a", "b"], id="0 is a real price"
        ),
        pytest.param(
            [pool("a", gpu_hour_usd=float("nan")), pool("b", gpu_hour_usd=9.0)],
            {},
            ["b", "a"],
            id="no number is unknown",
        ),
        pytest.param(
            [pool("a", gpu_hour_usd=1.0), pool("b")],
            {"a": 1},
            ["b", "a"],
            id="a pool with a loss comes after the others",
        ),
        pytest.param(
            [pool("a", gpu_hour_usd=1.0)], {"a": 3}, ["a"], id="a pool with losses is used when it is alone"
        ),
    ],
)
def test_pools_that_fit_are_ordered(pools: list[Any], losses: dict[str, int], want: list[str]) -> None:
    """Without a loss before with one, then by price, then by name."""
    decision = decide(
        ONE, pools, *(signals(one.name, seen()) for one in pools), history=History(losses=losses)
    )
    assert [one.pool for one in decision.verdicts] == want
    assert [one.rank for one in decision.verdicts] == list(range(1, len(want) + 1))
    assert decision.chosen == want[0]


def test_spot_capacity_comes_last_once_it_is_to_be_left() -> None:
    """Even after a pool with a loss; when nothing else fits it is used all the same."""
    spot = pool("spot", gpu_hour_usd=1.0, capacity_type=CapacityType.SPOT)
    reserved = pool("reserved", gpu_hour_usd=9.0, capacity_type=CapacityType.RESERVED)
    told = [signals(one.name, seen()) for one in (spot, reserved)]
    left = History(losses={"reserved": 1}, leave_spot=True)
    assert decide(ONE, [spot, reserved], *told).chosen == "spot"
    assert decide(ONE, [spot, reserved], *told, history=left).chosen == "reserved"
    assert decide(ONE, [spot], told[0], history=left).chosen == "spot"


def test_the_price_is_that_of_the_whole_request() -> None:
    """GPUs of all pods times the price of one."""
    decision = one_pool(GANG, seen("a"), seen("b"), gpu_hour_usd=2.1)
    assert verdict_of(decision).usd_per_hour == pytest.approx(33.6)


def test_the_decision_says_never_only_when_every_pool_does() -> None:
    """One pool that may fit later is worth waiting for."""
    never = signals("p", seen(product=L40S))
    full = signals("q", seen(used=8))
    assert decide(ONE, [pool("p")], never).never
    assert not decide(ONE, [pool("p"), pool("q")], never, full).never


def test_the_age_of_the_signals_is_kept() -> None:
    """The record says how old what it saw was."""
    decision = place(
        ONE,
        [pool()],
        snapshot(signals("p", seen())),
        History(),
        now=NOW.replace(second=7),
        subject="s",
        catalog_hash="h",
    )
    assert verdict_of(decision).age_seconds == 7.0
