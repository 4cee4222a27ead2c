"""Short stops of the event loop never add up to a long one."""

from __future__ import annotations

import asyncio
import gc
from itertools import pairwise

import pytest

from airflow_gpu_placement.clusters.turns import a_turn, full_collections_postponed, in_turn, let_go


def test_everything_else_runs_between_two_turns() -> None:
    """However many wait for theirs at the same time."""
    order: list[str] = []

    async def stops_the_loop() -> None:
        async with a_turn():
            order.append("turn")

    async def ticks() -> None:
        while len(order) < 9:
            order.append("tick")
            await asyncio.sleep(0)

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(4):
                tasks.create_task(stops_the_loop())
            tasks.create_task(ticks())

    asyncio.run(both())
    assert order.count("turn") == 4
    assert all(pair != ("turn", "turn") for pair in pairwise(order))


def test_everything_else_runs_between_two_short_works() -> None:
    """A thousand that become ready in the same moment do not stop the loop for all their time together."""
    order: list[str] = []
    ready = asyncio.Event()

    async def works() -> None:
        await ready.wait()
        await in_turn()
        order.append("work")

    async def ticks() -> None:
        while order.count("work") < 50:
            order.append("tick")
            ready.set()
            await asyncio.sleep(0)

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(50):
                tasks.create_task(works())
            tasks.create_task(ticks())

    asyncio.run(both())
    assert all(pair != ("work", "work") for pair in pairwise(order))


def test_every_loop_has_its_own_turns() -> None:
    """A lock of a loop that has ended blocks no other."""

    async def one() -> None:
        async with a_turn():
            pass

    for _ in range(3):
        asyncio.run(one())


def test_many_objects_are_let_go_of_bit_by_bit() -> None:
    """Other things run meanwhile, and at the end nothing is left."""
    sizes: list[int] = []
    objects = list(range(1_700))

    async def watch() -> None:
        while objects:
            sizes.append(len(objects))
            await asyncio.sleep(0)

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(let_go(objects))
            tasks.create_task(watch())

    asyncio.run(both())
    assert objects == []
    assert set(sizes) >= {1_700, 1_200, 700, 200}


def test_full_collections_are_put_off_until_the_last_one_is_done() -> None:
    """And only those; afterwards everything is as before, whatever happened."""
    usual = gc.get_threshold()
    with full_collections_postponed():
        with full_collections_postponed():
            young, middle, old = gc.get_threshold()
            assert (young, middle) == usual[:2]
            assert old > 1_000_000
        assert gc.get_threshold()[2] == old
    assert gc.get_threshold() == usual

    with pytest.raises(ValueError, match="anything"), full_collections_postponed():
        raise ValueError("anything")
    assert gc.get_threshold() == usual
