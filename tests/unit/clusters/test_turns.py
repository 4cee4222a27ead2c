"""Short stops of the event loop never add up to a long one."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from airflow_gpu_placement.clusters.turns import a_turn


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


def test_every_loop_has_its_own_turns() -> None:
    """A lock of a loop that has ended blocks no other."""

    async def one() -> None:
        async with a_turn():
            pass

    for _ in range(3):
        asyncio.run(one())
