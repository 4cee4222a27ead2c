"""Random fleets, requests and histories: about half of them can be placed, and every reason occurs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from airflow_gpu_placement.model.decision import History
from airflow_gpu_placement.model.pool import DeclaredGpu, GpuIdentity, GpuPool
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import GapKind, NodeCapacity, PoolSignals, SignalGap, Snapshot
from tests.unit.engine.builders import NOW

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

GPUS = (
    GpuIdentity(model="H100", memory_gb=80, form_factor="SXM"),
    GpuIdentity(model="A100", memory_gb=40, form_factor="SXM"),
    GpuIdentity(model="A100", memory_gb=80, form_factor="SXM"),
    GpuIdentity(model="NEW-CHIP"),
    None,
)
CLOSED = ("cordoned", "not ready (Ready=Unknown)", "taint a=b:NoSchedule")


class Situation(NamedTuple):
    """Everything that a decision depends on."""

    request: GpuRequest
    pools: tuple[GpuPool, ...]
    snapshot: Snapshot
    history: History


@st.composite
def nodes(draw: st.DrawFn, name: str) -> NodeCapacity:
    """Draw what was seen of a node; most nodes are open and have the first GPU."""
    capacity = draw(st.sampled_from((8, 8, 8, 4, 1)))
    allocatable = draw(st.sampled_from((capacity, capacity, capacity, max(capacity - 3, 0), 0)))
    used = draw(st.sampled_from((0, 0, 0, 0, capacity // 2, capacity // 2, capacity)))
    whole = draw(st.sampled_from((True,) * 19 + (False,)))
    closed = draw(st.sampled_from((None,) * 8 + CLOSED)) if whole else "time-slicing: 8 shares"
    offered = allocatable if whole else 0
    return NodeCapacity(
        name=name,
        gpu=draw(st.sampled_from((GPUS[0],) * 6 + GPUS)),
        capacity=capacity if whole else 0,
        allocatable=offered,
        used=used,
        free=max(offered - used, 0) if closed is None else 0,
        whole=whole,
        unusable_because=closed,
    )


@st.composite
def pool_with_signals(draw: st.DrawFn, name: str) -> tuple[GpuPool, PoolSignals | None]:
    """Draw a pool and what was seen of it; some were not seen, a few not even asked."""
    grows = draw(st.sampled_from((False,) * 5 + (True,)))
    declares = grows or draw(st.sampled_from((False, False, False, True)))
    pool = GpuPool(
        name=name,
        kubernetes_conn_id=draw(st.sampled_from(("east", "west"))),
        gpu=DeclaredGpu(
            model="H100" if declares else None,
            memory_gb=80 if declares else None,
            per_node=8 if declares else None,
        ),
        gpu_hour_usd=draw(st.one_of(st.none(), st.sampled_from((0.0, 1.5, 2.0, 3.25)))),
        max_nodes=draw(st.integers(1, 6)) if grows else None,
    )
    state = draw(st.sampled_from(("seen",) * 12 + ("gap", "gap", "missing")))
    if state == "missing":
        return pool, None
    gap = None
    found: tuple[NodeCapacity, ...] = ()
    if state == "gap":
        gap = SignalGap(kind=draw(st.sampled_from(list(GapKind))), message="it went wrong")
    else:
        count = draw(st.sampled_from((1, 2, 3, 4, 4, 4, 0)))
        found = tuple(draw(nodes(f"n{index}")) for index in range(count))
    signals = PoolSignals(pool=name, observed_at=NOW, source="test", nodes=found, gap=gap)
    return pool, signals


REQUESTS: SearchStrategy[GpuRequest] = st.builds(
    GpuRequest,
    gpus_per_node=st.sampled_from((1, 1, 2, 2, 4, 4, 8, 8, 16)),
    nodes=st.sampled_from((1, 1, 1, 2, 3)),
    models=st.sampled_from(((), (), ("H100",), ("H100",), ("H100", "A100-80GB"), ("NEW-CHIP",), ("H1000",))),
    min_memory_gb=st.sampled_from((None, None, 40.0, 80.0)),
)


@st.composite
def situations(draw: st.DrawFn, *, least_pools: int = 0) -> Situation:
    """Draw a whole situation."""
    count = draw(st.integers(least_pools, 3)) + draw(st.integers(0, 2))
    drawn = [draw(pool_with_signals(f"pool-{index}")) for index in range(count)]
    names = [pool.name for pool, _ in drawn]
    lost_nodes: dict[str, tuple[str, ...]] = {}
    losses: dict[str, int] = {}
    for name in names:
        gone = draw(st.sampled_from(((), (), (), ("n0",), ("n0", "n1"))))
        if gone:
            lost_nodes[name] = gone
        if gone or draw(st.sampled_from((False, False, False, True))):
            losses[name] = 1
    history = History(lost_nodes=lost_nodes, losses=losses)
    return Situation(
        request=draw(REQUESTS),
        pools=tuple(pool for pool, _ in drawn),
        snapshot=Snapshot(
            taken_at=NOW, pools={pool.name: signals for pool, signals in drawn if signals is not None}
        ),
        history=history,
    )


@st.composite
def contests(draw: st.DrawFn) -> Situation:
    """Draw pools that all fit and differ only in price, losses and name: only the order is in question."""
    names = [f"pool-{index}" for index in range(draw(st.integers(2, 4)))]
    node = NodeCapacity(name="n0", gpu=GPUS[0], capacity=8, allocatable=8, free=8)
    return Situation(
        request=GpuRequest(gpus_per_node=8),
        pools=tuple(
            GpuPool(
                name=name,
                kubernetes_conn_id=name,
                gpu_hour_usd=draw(st.sampled_from((None, 0.0, 1.5, 2.0, 3.25))),
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
    )
