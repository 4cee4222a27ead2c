"""How long a decision takes, explanation rendered: p50 and p99 at 10, 50 and 500 pools.

    python benchmarks/decide.py [--repetitions 200] [--json] [--cpu]

Every reason code is present from 50 pools on, at least three in ten pools fit, and nothing is kept from one
repetition to the next: request, pools and signals are built anew from JSON before the clock starts.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from airflow_gpu_placement.engine.explain import details, line, table_text
from airflow_gpu_placement.engine.place import place
from airflow_gpu_placement.model.decision import Decision, History, Setting
from airflow_gpu_placement.model.estimate import Knowledge
from airflow_gpu_placement.model.money import Dataset, Egress, EgressRoute, Profile, Tenant
from airflow_gpu_placement.model.pool import CapacityType, GpuPool
from airflow_gpu_placement.model.reasons import ReasonCode, Verdict
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
SIZES = (10, 50, 500)
GOALS_MS = {50: 5.0, 500: 50.0}
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
    (ReasonCode.INSUFFICIENT_FREE_GPUS, _nodes(used=8, free=0)),
    (ReasonCode.GANG_DOES_NOT_FIT, _scattered),
    (ReasonCode.NODES_NOT_SCHEDULABLE, _nodes(free=0, unusable_because="cordoned")),
)


_TAUGHT: dict[ReasonCode, tuple[str, Callable[[Json], Any]]] = {
    ReasonCode.EXCLUDED_BY_HISTORY: ("excluded_pools", lambda _: "ImagePullFailed"),
    ReasonCode.NODES_LOST: ("lost_nodes", lambda signals: [node["name"] for node in signals["nodes"][1:]]),
    ReasonCode.START_TIMED_OUT: ("start_timeouts", lambda _: NOW.isoformat()),
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


def once(what: Scene, clock: Callable[[], float]) -> tuple[Decision, dict[str, float]]:
    """Decide once on values that were never seen before, and tell it.

    :param clock: seconds of wall time, or of processor time.
    :return: milliseconds of the decision and of each form of the explanation.
    """
    request = GpuRequest.model_validate_json(what.request)
    pools = msgspec.json.decode(what.pools, type=list[GpuPool])
    snapshot = msgspec.json.decode(what.snapshot, type=Snapshot)
    history = msgspec.json.decode(what.history, type=History)
    setting = msgspec.json.decode(msgspec.json.encode(SETTING), type=Setting)
    gc.collect()
    start = clock()
    decision = place(
        request,
        pools,
        snapshot,
        history,
        setting,
        now=NOW + timedelta(seconds=3),
        subject="llm.train",
        catalog_hash="abc",
    )
    decided = clock()
    line(decision)
    details(decision)
    told = clock()
    table_text(decision)
    drawn = clock()
    spans = {
        "decide": decided - start,
        "line and text": told - decided,
        "table": drawn - told,
        "all": drawn - start,
    }
    return decision, {name: seconds * 1000 for name, seconds in spans.items()}


def check(decision: Decision, size: int) -> None:
    """Refuse to measure anything else than what the numbers claim."""
    fitting = sum(one.verdict is Verdict.FIT for one in decision.verdicts)
    if fitting < 0.3 * size:
        raise SystemExit(f"only {fitting} of {size} pools fit")
    missing = set(ReasonCode) - {reason.code for one in decision.verdicts for reason in one.reasons}
    if size >= len(ReasonCode) * 5 / 3 and missing:
        raise SystemExit(f"reasons that do not occur: {sorted(missing)}")


def percentile(values: list[float], share: float) -> float:
    """Return the smallest value that is not below this share of all."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="processor time, for a machine with other work")
    arguments = parser.parse_args()
    clock = time.process_time if arguments.cpu else time.perf_counter
    found = []
    for size in SIZES:
        what = scene(size)
        check(once(what, clock)[0], size)
        samples = [once(what, clock)[1] for _ in range(arguments.repetitions)]
        for part in samples[0]:
            values = [sample[part] for sample in samples]
            found.append(
                {
                    "pools": size,
                    "part": part,
                    "p50_ms": round(percentile(values, 0.5), 3),
                    "p99_ms": round(percentile(values, 0.99), 3),
                    "goal_p99_ms": GOALS_MS.get(size) if part == "all" else None,
                }
            )
    if arguments.json:
        print(json.dumps(found, indent=2))
        return
    for row in found:
        goal = f"  (goal {row['goal_p99_ms']:g})" if row["goal_p99_ms"] else ""
        times = f"p50 {row['p50_ms']:>8.3f} ms  p99 {row['p99_ms']:>8.3f} ms"
        print(f"{row['pools']:>4} pools  {row['part']:<14} {times}{goal}")


if __name__ == "__main__":
    main()
