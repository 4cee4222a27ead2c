"""A fleet of any size as JSON texts: pools that fit, and for every reason code pools that do not."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_gpu_placement.model.decision import Setting
from airflow_gpu_placement.model.estimate import Knowledge
from airflow_gpu_placement.model.money import Dataset, Egress, EgressRoute, Profile, Tenant
from airflow_gpu_placement.model.pool import CapacityType
from airflow_gpu_placement.model.reasons import ReasonCode

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
NODES_PER_POOL = 8

Json = dict[str, Any]

REQUEST: Json = {
    "gpus_per_node": 8,
    "nodes": 2,
    "models": ["H100", "H200"],
    "min_memory_gb": 80,
    "form_factors": ["SXM"],
    "interconnect": "nvlink",
    "architecture": "amd64",
    "network": {"kinds": ["infiniband"], "min_gbps": 200, "same_fabric": True},
    "where": {"denied_regions": ["moon"]},
    "data": ["corpus"],
    "checkpoint": {"uri": "s3://bucket/llm", "interval_minutes": 30, "size_gib": 100},
    "time": {"runtime_hours": 10, "complete_within_hours": 24, "deadline_is_hard": True},
    "price_cap_usd_per_gpu_hour": 8,
}

SETTING = Setting(
    pod_resources={"cpu": "64", "memory": "400Gi"},
    profile=Profile(
        name="thrifty",
        value_of_time_usd_per_hour=2.0,
        capacity_types=(CapacityType.ON_DEMAND, CapacityType.SPOT),
    ),
    tenant=Tenant(name="research", pools=("pool-*",), max_gpus=64, monthly_budget_usd=5000.0),
    datasets={
        "corpus": Dataset(
            name="corpus",
            size_gib=500.0,
            locations=("east",),
            egress=Egress.ALLOW,
            residency=("west", "moon"),
        )
    },
    egress=(EgressRoute(source="east", target="west", usd_per_gib=0.02, gbps=50.0, origin="given"),),
    knowledge=Knowledge(spent_usd={"research": 3000.0}, held_gpus={"research": 8}),
)


def _node(name: str) -> Json:
    return {
        "name": name,
        "gpu": {"model": "H100", "memory_gb": 80, "form_factor": "SXM"},
        "capacity": 8,
        "allocatable": 8,
        "free": 8,
        "spare": {"pods": 90, "cpu": 160_000, "memory": 1500 * 2**30},
        "fabric": "island-1",
        "architecture": "amd64",
        "labels": {
            "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
            "nvidia.com/gpu.memory": "81559",
            "kubernetes.io/arch": "amd64",
        },
    }


def _pool(name: str, index: int) -> Json:
    return {
        "name": name,
        "cluster": {"kubernetes_conn_id": f"cluster-{index % 20}"},
        "place": {"region": "east" if index % 3 else "west"},
        "capacity_type": "on_demand" if index % 2 else "spot",
        "network": {"kind": "infiniband", "gbps": 400},
        "node_selector": {"pool": name},
        "price": {"gpu_hour_usd": 2 + index % 7 / 4},
    }


def _signals(name: str) -> Json:
    return {
        "pool": name,
        "observed_at": NOW.isoformat(),
        "source": "nodes and pods of https://10.0.0.1:6443",
        "nodes": [_node(f"{name}-node-{number}") for number in range(NODES_PER_POOL)],
    }


def _nodes(**values: Any) -> Callable[[Json, Json], None]:
    def spoil(_: Json, signals: Json) -> None:
        for node in signals["nodes"]:
            node.update(values)

    return spoil


def _gpus(**values: Any) -> Callable[[Json, Json], None]:
    def spoil(_: Json, signals: Json) -> None:
        for node in signals["nodes"]:
            node["gpu"].update(values)

    return spoil


def _pools(**values: Any) -> Callable[[Json, Json], None]:
    return lambda pool, _: pool.update(values)


def _seen(**values: Any) -> Callable[[Json, Json], None]:
    return lambda _, signals: signals.update(values)


def _gap(kind: str) -> Callable[[Json, Json], None]:
    return _seen(nodes=[], gap={"kind": kind, "message": f"it is {kind}"})


def _queue(**values: Any) -> Callable[[Json, Json], None]:
    quota = {"local_queue": "lq", "cluster_queue": "cq", "flavor": "h100", "available": 64, "potential": 64}

    def spoil(pool: Json, signals: Json) -> None:
        pool.update(execution="kueue", kueue={"local_queues": {"*": "lq"}})
        signals["quota"] = {"lq": quota | values}

    return spoil


def _scattered(_: Json, signals: Json) -> None:
    for node in signals["nodes"]:
        node.update(used=4, free=4)


SPOILERS: tuple[tuple[ReasonCode, Callable[[Json, Json], None]], ...] = (
    (ReasonCode.CONNECTION_MISSING, _gap("connection_missing")),
    (ReasonCode.WRONG_CLUSTER, _gap("wrong_cluster")),
    (ReasonCode.CREDENTIALS_REFUSED, _gap("unauthorized")),
    (ReasonCode.ACCESS_FORBIDDEN, _gap("forbidden")),
    (ReasonCode.CLUSTER_UNREACHABLE, _gap("timeout")),
    (ReasonCode.SIGNALS_MISSING, _gap("invalid")),
    (ReasonCode.SIGNALS_TOO_OLD, _seen(observed_at=(NOW - timedelta(minutes=10)).isoformat())),
    (ReasonCode.GPU_MODEL_NOT_OFFERED, _gpus(model="L40S", memory_gb=48, form_factor="PCIe")),
    (ReasonCode.GPU_MEMORY_TOO_SMALL, _gpus(memory_gb=64)),
    (ReasonCode.FORM_FACTOR_NOT_OFFERED, _gpus(form_factor="PCIe")),
    (ReasonCode.INTERCONNECT_NOT_OFFERED, _pools(gpu={"interconnect": "pcie"})),
    (ReasonCode.NETWORK_NOT_OFFERED, _pools(network={"kind": "ethernet", "gbps": 100})),
    (ReasonCode.ARCHITECTURE_MISMATCH, _nodes(architecture="arm64")),
    (ReasonCode.CAPACITY_TYPE_NOT_ALLOWED, _pools(capacity_type="reserved")),
    (ReasonCode.REGION_NOT_ALLOWED, _pools(place={"region": "moon"})),
    (ReasonCode.EGRESS_DENIED, _pools(place={"region": "south"})),
    (ReasonCode.TENANT_NOT_ALLOWED, _pools(name="private")),
    (ReasonCode.PRICE_CAP_EXCEEDED, _pools(price={"gpu_hour_usd": 9.0})),
    (ReasonCode.PRICE_UNKNOWN, _pools(price={})),
    (ReasonCode.BUDGET_EXHAUSTED, _pools(price={"gpu_hour_usd": 7.9}, interruptions_per_gpu_hour=0.5)),
    (ReasonCode.DEADLINE_UNREACHABLE, _pools(interruptions_per_gpu_hour=1.0)),
    (ReasonCode.QUOTA_EXHAUSTED, _queue(available=8)),
    (ReasonCode.QUEUE_STOPPED, _queue(stopped_because="ClusterQueue cq is held")),
    (ReasonCode.EXCEEDS_POOL_SIZE, lambda _, signals: signals.update(nodes=signals["nodes"][:1])),
    (ReasonCode.EXCLUDED_BY_HISTORY, _pools()),
    (ReasonCode.NODES_LOST, _pools()),
    (ReasonCode.START_TIMED_OUT, _pools()),
    (ReasonCode.JOB_REFUSED, _pools()),
    (ReasonCode.INSUFFICIENT_FREE_GPUS, _nodes(used=8, free=0)),
    (ReasonCode.GANG_DOES_NOT_FIT, _scattered),
    (ReasonCode.NODE_RESOURCES_TAKEN, _nodes(spare={"pods": 90, "cpu": 4_000, "memory": 1500 * 2**30})),
    (ReasonCode.NODES_NOT_SCHEDULABLE, _nodes(free=0, unusable_because="cordoned")),
)


_TAUGHT: dict[ReasonCode, tuple[str, Callable[[Json], Any]]] = {
    ReasonCode.EXCLUDED_BY_HISTORY: ("excluded_pools", lambda _: "ImagePullFailed"),
    ReasonCode.NODES_LOST: ("lost_nodes", lambda signals: [node["name"] for node in signals["nodes"][1:]]),
    ReasonCode.START_TIMED_OUT: ("start_timeouts", lambda _: NOW.isoformat()),
    ReasonCode.JOB_REFUSED: (
        "refusals",
        lambda _: {"at": NOW.isoformat(), "times": 1, "why": "exceeded quota: jobs"},
    ),
}
"""What only the task's history tells of a pool."""


class Scene(NamedTuple):
    """A fleet as JSON texts, so that each repetition starts from nothing."""

    request: str
    pools: bytes
    snapshot: bytes
    history: bytes


def scene(size: int) -> Scene:
    """Make a fleet of so many pools: three in ten fit, the others fail for one reason each, in turn."""
    pools: list[Json] = []
    seen: dict[str, Json] = {}
    taught: dict[ReasonCode, Json] = {code: {} for code in _TAUGHT}
    turn = 0
    for index in range(size):
        name = f"pool-{index:03d}"
        pool, signals = _pool(name, index), _signals(name)
        if index % 5 > 1:
            code, spoil = SPOILERS[turn % len(SPOILERS)]
            turn += 1
            spoil(pool, signals)
            pool["name"] = signals["pool"] = name if pool["name"] == name else f"{pool['name']}-{index:03d}"
            if code in taught:
                taught[code][name] = _TAUGHT[code][1](signals)
        pools.append(pool)
        seen[pool["name"]] = signals
    claims = [
        {"pool": f"pool-{index:03d}", "attempt_id": str(index), "gpus_per_node": 8, "nodes": 1}
        for index in range(0, size, 10)
    ]
    random.Random(0).shuffle(pools)
    return Scene(
        json.dumps(REQUEST),
        json.dumps(pools).encode(),
        json.dumps({"taken_at": NOW.isoformat(), "pools": seen, "claims": claims}).encode(),
        json.dumps(
            {"losses": {"pool-001": 1}} | {_TAUGHT[code][0]: by_pool for code, by_pool in taught.items()}
        ).encode(),
    )
