"""Random fleets, requests and settings: about half of them can be placed, and every reason occurs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from hypothesis import strategies as st

from airflow_gpu_placement.engine.place import place
from airflow_gpu_placement.model.decision import Decision, History, Setting
from airflow_gpu_placement.model.money import BUILT_IN_PROFILES
from airflow_gpu_placement.model.pool import CapacityType, ClusterRef, Execution, GpuPool, Place, Price
from airflow_gpu_placement.model.request import GpuRequest, TimeNeed
from airflow_gpu_placement.model.signals import NodeCapacity, PoolSignals, SignalGap, Snapshot
from tests.property.fleet_parts import (
    CLAIMS,
    DATASETS,
    GAPS,
    GPUS,
    HISTORIES,
    NAMES,
    NODES,
    POOLS,
    QUOTAS,
    REGIONS,
    REQUESTS,
    SETTINGS,
    STATES,
    WAITING,
)
from tests.unit.engine.builders import NOW

if TYPE_CHECKING:
    from datetime import datetime

DECIDED_AT = NOW + timedelta(seconds=3)


class Situation(NamedTuple):
    """Everything that a decision depends on."""

    request: GpuRequest
    pools: tuple[GpuPool, ...]
    snapshot: Snapshot
    history: History
    setting: Setting = Setting()
    now: datetime = DECIDED_AT


def decide(situation: Situation) -> Decision:
    """Decide in a situation."""
    return place(
        situation.request,
        situation.pools,
        situation.snapshot,
        situation.history,
        situation.setting,
        now=situation.now,
        subject="dag.task",
        catalog_hash="hash",
    )


@st.composite
def pool_with_signals(draw: st.DrawFn, name: str) -> tuple[GpuPool, PoolSignals | None]:
    """Draw a pool and what was seen of it; some were not seen, a few not even asked."""
    pool = msgspec.structs.replace(draw(POOLS), name=name)
    state = draw(STATES)
    if state == "missing":
        return pool, None
    gap = None
    found: list[NodeCapacity] = []
    if state == "gap":
        gap = SignalGap(kind=draw(GAPS), message="it went wrong")
    else:
        found = draw(st.lists(NODES, min_size=0 if pool.growth.max_nodes else 1, max_size=5))
    signals = PoolSignals(
        pool=name,
        observed_at=NOW - timedelta(minutes=10) if state == "stale" else NOW,
        source="test",
        nodes=tuple(msgspec.structs.replace(node, name=f"n{index}") for index, node in enumerate(found)),
        quota=draw(QUOTAS) if gap is None and pool.execution is Execution.KUEUE else {},
        waiting=draw(WAITING) if gap is None and pool.growth.max_nodes else {},
        gap=gap,
    )
    return pool, signals


@st.composite
def situations(draw: st.DrawFn, *, least_pools: int = 0) -> Situation:
    """Draw a whole situation."""
    # Many pools more often than few: with each the chance grows that one fits.
    counts = [count for count in (0, 1, 2, 3, 4, 5, 4, 5, 5) if count >= least_pools]
    names = NAMES[: draw(st.sampled_from(counts))]
    drawn = [draw(pool_with_signals(name)) for name in names]
    return Situation(
        request=draw(REQUESTS),
        pools=tuple(pool for pool, _ in drawn),
        snapshot=Snapshot(
            taken_at=NOW,
            pools={pool.name: signals for pool, signals in drawn if signals is not None},
            claims=draw(CLAIMS),
        ),
        history=draw(HISTORIES),
        setting=draw(SETTINGS),
    )


@st.composite
def contests(draw: st.DrawFn) -> Situation:
    """Draw pools that all fit and differ only in price, place, losses and name: the order is in question."""
    names = [f"pool-{index}" for index in range(draw(st.integers(2, 4)))]
    node = NodeCapacity(name="n0", gpu=GPUS[0], capacity=8, allocatable=8, free=8)
    time = draw(st.sampled_from((TimeNeed(), TimeNeed(runtime_hours=5, complete_within_hours=3))))
    return Situation(
        request=GpuRequest(gpus_per_node=8, data=draw(st.sampled_from(((), ("free",)))), time=time),
        pools=tuple(
            GpuPool(
                name=name,
                cluster=ClusterRef(kubernetes_conn_id=name),
                place=Place(region=draw(st.sampled_from(REGIONS))),
                capacity_type=draw(st.sampled_from(list(CapacityType))),
                price=Price(gpu_hour_usd=draw(st.sampled_from((None, 0.0, 1.5, 2.0, 3.25)))),
            )
            for name in names
        ),
        snapshot=Snapshot(
            taken_at=NOW,
            pools={
                name: PoolSignals(pool=name, observed_at=NOW, source="test", nodes=(node,)) for name in names
            },
        ),
        history=History(losses={name: 1 for name in names if draw(st.sampled_from((False, False, True)))}),
        setting=Setting(profile=draw(st.sampled_from(BUILT_IN_PROFILES)), datasets=DATASETS),
    )
