"""What fleets are made of: tables of nodes, pools, requests and settings, made once and drawn from."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from hypothesis import strategies as st

from airflow_gpu_placement.model.attempt import Refusal
from airflow_gpu_placement.model.decision import History, Setting
from airflow_gpu_placement.model.estimate import Estimate, Knowledge
from airflow_gpu_placement.model.money import BUILT_IN_PROFILES, Dataset, Egress, EgressRoute, Profile, Tenant
from airflow_gpu_placement.model.pool import (
    CapacityType,
    ClusterRef,
    DeclaredGpu,
    Execution,
    GpuIdentity,
    GpuPool,
    Growth,
    KueueQueue,
    Place,
    PoolNetwork,
    Price,
)
from airflow_gpu_placement.model.request import CheckpointNeed, GpuRequest, NetworkNeed, TimeNeed, WhereNeed
from airflow_gpu_placement.model.signals import Claim, GapKind, NodeCapacity, QuotaSignals
from tests.unit.engine.builders import NOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")
GPUS = (
    GpuIdentity(model="H100", memory_gb=80, form_factor="SXM"),
    GpuIdentity(model="A100", memory_gb=40, form_factor="SXM"),
    GpuIdentity(model="A100", memory_gb=80, form_factor="PCIe"),
    GpuIdentity(model="NEW-CHIP"),
    None,
)
PRODUCT_LABEL = "nvidia.com/gpu.product"
CLOSED = ("cordoned", "not ready (Ready=Unknown)", "taint a=b:NoSchedule")
REGIONS = ("east", "west")
NAMES = ("pool-0", "pool-1", "pool-2", "pool-3", "pool-4")


class Picker(random.Random):
    """Picks the values that the tables are made of."""

    def of(self, *values: T) -> T:
        """Pick one of several values."""
        return self.choice(values)

    def mostly(self, usual: T, *others: T, one_in: int = 8) -> T:
        """Pick the usual value, and one of the others once in so many times."""
        return self.choice(others) if self.randrange(one_in) == 0 else usual


def table(make: Callable[[Picker], T], size: int) -> SearchStrategy[T]:
    """Draw from a table that is made once: a whole value costs one draw, which keeps the laws quick."""
    return st.sampled_from([make(Picker(seed)) for seed in range(size)])


def _node(pick: Picker) -> NodeCapacity:
    """Make what was seen of a node; most nodes are open and have the first GPU."""
    capacity = pick.of(8, 8, 8, 8, 4, 1)
    allocatable = pick.mostly(capacity, max(capacity - 3, 0), 0, one_in=6)
    used = pick.of(0, 0, 0, 0, capacity // 2, capacity)
    whole = pick.mostly(True, False, one_in=25)
    closed = pick.mostly(None, *CLOSED, one_in=7) if whole else "time-slicing: 8 shares"
    offered = allocatable if whole else 0
    node = NodeCapacity(
        name="",
        gpu=pick.mostly(GPUS[0], *GPUS[1:], one_in=4),
        capacity=capacity if whole else 0,
        allocatable=offered,
        used=used,
        free=max(offered - used, 0) if closed is None else 0,
        zone=pick.mostly("a", "b", None, one_in=4),
        fabric=pick.mostly("f1", "f2", None, one_in=3),
        architecture=pick.mostly("amd64", "arm64", None, one_in=10),
        capacity_type=pick.mostly(None, *CapacityType, one_in=8),
        whole=whole,
        spare=pick.mostly({"cpu": 90_000}, {"pods": 2, "cpu": 9_000}, {"pods": 0}, {}, one_in=16),
        unusable_because=closed,
    )
    labels = {PRODUCT_LABEL: node.gpu, "kubernetes.io/arch": node.architecture}
    told = {key: str(value) for key, value in labels.items() if value is not None}
    return msgspec.structs.replace(
        node,
        labels=pick.mostly(told, {}, one_in=30),
        closed=whole and closed is not None,
        region=pick.mostly("east", "west", None, one_in=12),
        leaves_at=pick.mostly(None, *(NOW + timedelta(hours=hours) for hours in (-1, 4, 8, 100)), one_in=12),
    )


def _pool(pick: Picker) -> GpuPool:
    """Make a pool; most are of the plain kind, reached directly."""
    grows = pick.mostly(False, True, one_in=5)
    declares = grows or pick.mostly(False, True, one_in=4)
    queued = pick.mostly(False, True, one_in=6)
    return GpuPool(
        name="",
        cluster=ClusterRef(kubernetes_conn_id=pick.of("one", "two")),
        place=Place(region=pick.of("east", "east", "west", None), zone=pick.mostly(None, "a")),
        capacity_type=pick.of(*CapacityType),
        gpu=DeclaredGpu(
            model="H100" if declares else None,
            memory_gb=80 if declares else None,
            per_node=8 if declares else None,
            interconnect=pick.mostly(None, "pcie", "nvswitch", one_in=3),
        ),
        network=PoolNetwork(
            kind=pick.of("infiniband", "infiniband", "ethernet", None),
            gbps=pick.of(400.0, 400.0, 100.0, None),
        ),
        architecture=pick.mostly(None, "amd64", one_in=4),
        price=Price(
            gpu_hour_usd=pick.of(None, 0.0, 1.5, 2.0, 3.25),
            rank_gpu_hour_usd=pick.mostly(None, 0.5, one_in=9),
            preference_usd=pick.mostly(0.0, -5.0, 5.0, one_in=9),
        ),
        growth=Growth(max_nodes=pick.randint(1, 6) if grows else None),
        interruptions_per_gpu_hour=pick.mostly(None, 0.0, 0.01, one_in=4),
        execution=Execution.KUEUE if queued else Execution.JOB,
        kueue=KueueQueue(
            local_queues=pick.mostly({"*": "lq"}, {"research": "lq"}, {}, one_in=5) if queued else {}
        ),
    )


def _quota(pick: Picker) -> dict[str, QuotaSignals]:
    """Make what Kueue would admit; sometimes nothing was read."""
    if pick.mostly(False, True, one_in=6):
        return {}
    potential = pick.mostly(64, 8, one_in=4)
    quota = QuotaSignals(
        local_queue="lq",
        cluster_queue="cq",
        flavor="h100",
        nominal=potential,
        available=pick.of(potential, potential, 4, 0),
        potential=potential,
        pending_ahead=pick.mostly(0, 3, one_in=4),
        wait_seconds=pick.of(None, 600.0),
        stopped_because=pick.mostly(None, "ClusterQueue cq is stopped", one_in=5),
    )
    return {"lq": quota}


def _request(pick: Picker) -> GpuRequest:
    """Make a request: its size, and rarely each of all the other needs."""
    rare = {name for name in _RARE if pick.mostly(False, True, one_in=9)}
    if pick.mostly(False, True, one_in=12):
        rare.add("time")
    if "form_factors" in rare:
        rare.discard("interconnect")  # some pairs of them contradict each other
    return GpuRequest(
        gpus_per_node=pick.mostly(pick.of(1, 1, 2, 4, 4, 8), 16, one_in=25),
        nodes=pick.of(1, 1, 1, 2, 3),
        models=pick.mostly(
            pick.of((), (), ("H100",), ("H100", "A100")), ("NEW-CHIP",), ("H1000",), ("A100",), one_in=8
        ),
        **{name: pick.choice(_RARE[name]) for name in sorted(rare)},
    )


_HARD = (False, True, True)
_RARE: dict[str, list[Any]] = {
    "min_memory_gb": [40.0, 80.0, 80.0, 96.0, 96.0],
    "form_factors": [("SXM",), ("PCIe",), ("HGX",)],
    "interconnect": ["nvlink", "nvswitch", "nvswitch"],
    "architecture": ["amd64", "amd64", "arm64"],
    "network": [
        NetworkNeed(kinds=("infiniband",)),
        NetworkNeed(kinds=("roce",)),
        NetworkNeed(min_gbps=200.0),
        NetworkNeed(same_zone=True),
        NetworkNeed(same_fabric=True),
        NetworkNeed(same_zone=True, same_fabric=True, min_gbps=50.0),
    ],
    "where": [
        WhereNeed(capacity_types=(CapacityType.SPOT,)),
        WhereNeed(capacity_types=tuple(CapacityType), regions=("east",)),
        WhereNeed(regions=("east", "west")),
        WhereNeed(denied_regions=("west",)),
    ],
    "data": [("free",), ("free",), ("held",), ("europe",), ("untold",)],
    "checkpoint": [
        CheckpointNeed(uri="s3://bucket/llm", interval_minutes=30.0, size_gib=100.0),
        CheckpointNeed(uri="s3://bucket/llm"),
    ],
    "time": [
        TimeNeed(runtime_hours=0.5),
        TimeNeed(runtime_hours=10.0),
        *(TimeNeed(runtime_hours=10.0, complete_within_hours=2.0, deadline_is_hard=hard) for hard in _HARD),
        *(TimeNeed(complete_within_hours=24.0, deadline_is_hard=hard) for hard in _HARD),
        *(
            TimeNeed(
                runtime_hours_by_model={"H100": 2.0, "A100": 5.0},
                deadline=NOW + timedelta(hours=hours),
                deadline_is_hard=hard,
            )
            for hard in _HARD
            for hours in (-1, 4)
        ),
    ],
    "price_cap_usd_per_gpu_hour": [1.75, 3.0],
}
DATASETS = {
    "free": Dataset(name="free", size_gib=1000.0, locations=("east",)),
    "held": Dataset(name="held", size_gib=10.0, locations=("east",), egress=Egress.DENY),
    "europe": Dataset(name="europe", size_gib=10.0, locations=("east",), residency=("west",)),
}
_THRIFTY = Profile(
    name="thrifty",
    value_of_time_usd_per_hour=0.0,
    capacity_types=(CapacityType.SPOT, CapacityType.RESERVED),
    price_cap_usd_per_gpu_hour=2.5,
)


def _setting(pick: Picker) -> Setting:
    """Make a profile, mostly no tenant, and things learnt."""
    tenant = Tenant(
        name="research",
        pools=pick.mostly((), ("pool-[01]",), one_in=3),
        max_gpus=pick.of(None, None, 2, 32),
        monthly_budget_usd=pick.of(None, 100.0, 100.0),
    )
    rate, wait = Estimate(value=0.02, source="history(2)"), Estimate(value=900.0, source="history(2)")
    knowledge = Knowledge(
        runtime_hours=pick.mostly({}, {"*": Estimate(value=3.0, source="history(4)")}, one_in=3),
        interruptions_per_gpu_hour={name: rate for name in NAMES if pick.mostly(False, True)},
        wait_seconds={name: wait for name in NAMES if pick.mostly(False, True)},
        spent_usd={"research": pick.of(0.0, 60.0, 99.0, 120.0)},
        held_gpus={"research": pick.of(0, 0, 20, 30)},
        checkpoint_region=pick.of(None, None, "east"),
    )
    return Setting(
        profile=pick.mostly(pick.of(*BUILT_IN_PROFILES), _THRIFTY),
        tenant=pick.mostly(None, tenant, one_in=4),
        datasets=DATASETS,
        egress=(EgressRoute(source="east", target="*", usd_per_gib=0.02, gbps=10.0, origin="given"),),
        knowledge=knowledge,
        pod_resources=pick.mostly({}, {"cpu": "8"}, {"cpu": "64", "memory": "1"}, one_in=10),
        may_wait_for_budget=pick.of(False, True),
    )


def _claims(pick: Picker) -> tuple[Claim, ...]:
    """Make claims, mostly none; some are seen, some released."""
    found = []
    for index in range(pick.of(0, 0, 0, 1, 2)):
        size, pods = pick.of(1, 4, 8), pick.of(1, 2)
        claim = Claim(
            pool=pick.of(*NAMES[:3]),
            attempt_id=f"attempt-{index}",
            gpus_per_node=size,
            nodes=pods,
            seen_gpus=pick.of(0, size, size * pods),
            released_at=pick.mostly(None, NOW - timedelta(hours=1), NOW + timedelta(seconds=1), one_in=4),
        )
        found.append(claim)
    return tuple(found)


def _history(pick: Picker) -> History:
    """Make what earlier attempts taught; mostly nothing."""
    lost = {name: pick.mostly((), ("n0",), ("n0", "n1"), one_in=6) for name in NAMES}
    return History(
        lost_nodes={name: nodes for name, nodes in lost.items() if nodes},
        losses={name: 1 for name in NAMES if lost[name] != () or pick.mostly(False, True, one_in=4)},
        excluded_pools={name: "ImagePullFailed" for name in NAMES if pick.mostly(False, True, one_in=30)},
        excluded_architectures=pick.mostly({}, {"arm64": "ExecFormatError in pool x"}, one_in=10),
        start_timeouts={
            name: NOW - timedelta(seconds=pick.of(30, 599, 601))
            for name in NAMES
            if pick.mostly(False, True, one_in=20)
        },
        refusals={
            name: Refusal(at=NOW - timedelta(seconds=pick.of(10, 100)), times=pick.of(1, 3), why="no")
            for name in NAMES
            if pick.mostly(False, True, one_in=20)
        },
        since=pick.of(None, NOW - timedelta(hours=1)),
    )


NODES = table(_node, 300)
POOLS = table(_pool, 300)
QUOTAS = table(_quota, 60)
REQUESTS = table(_request, 500)
SETTINGS = table(_setting, 300)
CLAIMS = table(_claims, 60)
HISTORIES = table(_history, 120)
WAITING = st.sampled_from(({}, {}, {}, {8: 1}, {8: 2, 4: 1, 1: 3}, {16: 9}))
GAPS = st.sampled_from(list(GapKind))
STATES = st.sampled_from(("seen",) * 16 + ("stale", "gap", "gap", "gap", "missing"))
