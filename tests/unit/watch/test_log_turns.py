"""Logs of many pods share few connections and a bounded rate."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from airflow_gpu_placement.watch.log_turns import LogTurns, Pace, pod_pace

pytestmark = pytest.mark.asyncio


async def test_the_first_are_followed_and_the_others_take_turns() -> None:
    """A place that becomes free is the next one's who asks; a last read needs none."""
    turns = LogTurns(followed=2, at_once=1)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            assert await stack.enter_async_context(turns.turn(last=False)) is True
        async with turns.turn(last=False) as may_follow:
            assert may_follow is False
        async with turns.turn(last=True) as may_follow:
            assert may_follow is False
    async with turns.turn(last=False) as may_follow:
        assert may_follow is True


async def test_reads_are_few_at_a_time() -> None:
    """A hundred pods that want to read make no hundred requests at once."""
    turns = LogTurns(followed=0, at_once=3)
    now = most = 0

    async def read() -> None:
        nonlocal now, most
        async with turns.turn(last=True):
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.001)
            now -= 1

    await asyncio.gather(*(read() for _ in range(100)))
    assert most == 3


async def test_the_more_pods_the_longer_a_round() -> None:
    """So that the rate of requests has a bound; followed pods make none."""
    turns = LogTurns(followed=1, at_once=1)
    async with contextlib.AsyncExitStack() as stack:
        assert turns.round_seconds() == 5
        for _ in range(1000):
            stack.enter_context(turns.taking_part())
        assert turns.round_seconds() == 50
        async with turns.turn(last=False):
            assert turns.round_seconds() == pytest.approx(49.95)
    assert turns.round_seconds() == 5


async def test_a_pace_lets_a_burst_pass_and_then_its_rate() -> None:
    """What is beyond has to wait, longer the more there is."""
    pace = Pace(per_second=10, burst=5)
    assert [pace.spend(1) for _ in range(5)] == [0] * 5
    assert pace.spend(1) == pytest.approx(0.1, abs=0.05)
    assert pace.spend(9) == pytest.approx(1.0, abs=0.05)


async def test_a_flood_of_one_pod_is_slowed_down_and_so_are_many_small_ones() -> None:
    """Long lines count more than once, and all pods of a cluster share one pace."""
    turns = LogTurns()
    flood = pod_pace()
    line = b"x" * 16 * 1024
    waits = [turns.passed(line, flood) for _ in range(200)]
    assert waits[0] == 0
    assert waits[-1] > 1
    others = LogTurns()
    waits = [others.passed(b"x", pod_pace()) for _ in range(7000)]
    assert waits[0] == 0
    assert waits[-1] > 0.1
