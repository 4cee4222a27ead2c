"""Answers about prices and about the choice between pools of which a case gives only rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.catalog.pricing import gpu_hour_usd
from airflow_gpu_placement.engine.budget import admit_in_order
from airflow_gpu_placement.engine.gpu_models import normalised
from airflow_gpu_placement.engine.place import place
from airflow_gpu_placement.model.decision import History, Setting
from airflow_gpu_placement.model.estimate import Estimate, Knowledge
from airflow_gpu_placement.model.money import Dataset, EgressRoute
from airflow_gpu_placement.model.pool import ClusterRef, DeclaredGpu, GpuPool, Place, Price
from airflow_gpu_placement.model.reasons import ReasonCode
from airflow_gpu_placement.model.request import GpuRequest, TimeNeed
from airflow_gpu_placement.model.signals import GapKind, NodeCapacity, PoolSignals, SignalGap, Snapshot
from tests.cases.adapters.answer import Answer, AnyOf
from tests.cases.adapters.fit import NOW, request_from
from tests.cases.adapters.reading import by_key, by_type, named_after, with_keys, without, without_keys
from tests.cases.adapters.units import AT_ONCE_GBPS, gib, price_cell, usd_per_gpu
from tests.cases.fake_clock import seconds_to_read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_gpu_placement.model.decision import Decision, PoolVerdict
    from tests.cases.adapters.reading import Facts

DATASET = "the-dataset"
SIGNAL_TIMEOUT_SECONDS = 10.0

WORDS_OF_REASON: dict[ReasonCode, tuple[str, ...]] = {
    ReasonCode.ARCHITECTURE_MISMATCH: ("architecture", "arch"),
    # The text of a case's error is not read: it may be silence, a refusal or an answer that makes no sense.
    ReasonCode.CLUSTER_UNREACHABLE: ("unreachable", "timeout", "signal", "error", "malformed", "invalid"),
    ReasonCode.SIGNALS_MISSING: ("signal", "no signal", "unknown"),
    ReasonCode.SIGNALS_TOO_OLD: ("stale", "too old"),
    ReasonCode.INSUFFICIENT_FREE_GPUS: ("free", "full", "no free GPUs", "capacity"),
    ReasonCode.GANG_DOES_NOT_FIT: ("gang", "fragmentation", "capacity"),
    ReasonCode.NODES_NOT_SCHEDULABLE: ("taint", "nodes", "capacity"),
    ReasonCode.EXCEEDS_POOL_SIZE: ("size", "too small", "capacity"),
    ReasonCode.BUDGET_EXHAUSTED: ("budget",),
    ReasonCode.PRICE_CAP_EXCEEDED: ("price", "price cap"),
    ReasonCode.PRICE_UNKNOWN: ("price", "price unknown", "unknown"),
    ReasonCode.REGION_NOT_ALLOWED: ("region",),
    ReasonCode.EGRESS_DENIED: ("egress",),
    ReasonCode.GPU_MODEL_NOT_OFFERED: ("model", "gpu"),
    ReasonCode.GPU_MEMORY_TOO_SMALL: ("memory",),
    ReasonCode.QUEUE_STOPPED: ("queue stopped", "queue"),
    ReasonCode.QUOTA_EXHAUSTED: ("quota",),
    ReasonCode.CAPACITY_TYPE_NOT_ALLOWED: ("capacity type", "spot"),
    ReasonCode.DEADLINE_UNREACHABLE: ("deadline",),
    ReasonCode.TENANT_NOT_ALLOWED: ("tenant",),
    ReasonCode.NETWORK_NOT_OFFERED: ("network",),
}


def decision_of(facts: Facts) -> Decision:
    """Decide between the pools of a case; a row says the price of the whole request."""
    wanted = _request(facts)
    gpus = wanted.total_gpus
    rows: Mapping[str, Any] = facts["pools"]
    pools = [_pool(name, row, gpus) for name, row in rows.items()]
    signals = {name: _signals(name, row, gpus) for name, row in rows.items()}
    return _place(wanted, pools, Snapshot(taken_at=NOW, pools=signals), _setting(facts, rows))


def _place(request: GpuRequest, pools: list[GpuPool], snapshot: Snapshot, setting: Setting) -> Decision:
    return place(request, pools, snapshot, History(), setting, now=NOW, subject="a case", catalog_hash="")


def _request(facts: Facts) -> GpuRequest:
    size = request_from(by_key(facts, {"request": lambda one: one, "request_gpus": int}, default=1), facts)
    rows = by_key(facts, {"pools": dict}, default={})
    hours = {_model_of(name): by_key(row, {"hours": float}, default=None) for name, row in rows.items()}
    return size.model_copy(
        update={
            "data": by_key(facts, {"dataset_gb": lambda _: (DATASET,)}, default=()),
            "time": TimeNeed(runtime_hours_by_model=without(hours, None)),
        }
    )


def _model_of(name: str) -> str:
    """Return a GPU model of the pool's own: a case gives runtimes by pool, the product by model."""
    return normalised(f"model-{name}")


def _pool(name: str, row: Mapping[str, Any], gpus: int) -> GpuPool:
    return GpuPool(
        name=name,
        cluster=ClusterRef(kubernetes_conn_id=name),
        place=Place(region=row.get("region")),
        gpu=DeclaredGpu(model=_model_of(name)),
        architecture=row.get("arch"),
        price=Price(gpu_hour_usd=usd_per_gpu(row.get("price_per_hour"), gpus)),
        interruptions_per_gpu_hour=0.0,
    )


def _signals(name: str, row: Mapping[str, Any], gpus: int) -> PoolSignals:
    """Read what is free: one node with that many GPUs, and one that is full."""
    free = by_key(row, {"free": int}, default=gpus)
    gap = by_key(
        row, {"signal": lambda text: SignalGap(kind=GapKind.UNREACHABLE, message=text)}, default=None
    )
    nodes = (
        NodeCapacity(name="free", capacity=free, allocatable=free, free=free, architecture=row.get("arch")),
        NodeCapacity(name="full", capacity=gpus, allocatable=gpus, used=gpus, architecture=row.get("arch")),
    )
    return PoolSignals(
        pool=name,
        observed_at=NOW,
        source="a case",
        nodes=by_key(row, {"signal": lambda _: ()}, default=nodes),
        gap=gap,
    )


def _setting(facts: Facts, rows: Mapping[str, Any]) -> Setting:
    waits = {name: by_key(row, {"queue_estimate_s": _given}, default=None) for name, row in rows.items()}
    return Setting(
        datasets=by_key(facts, {"dataset_gb": lambda size: {DATASET: _dataset(facts, size)}}, default={}),
        egress=by_key(facts, {"egress_per_gb": _routes}, default=()),
        knowledge=Knowledge(wait_seconds=without(waits, None)),
    )


def _given(value: float) -> Estimate:
    return Estimate(value=float(value), source="given")


def _dataset(facts: Facts, size_gb: float) -> Dataset:
    return Dataset(name=DATASET, size_gib=gib(size_gb), locations=(facts["dataset_region"],))


def _routes(usd_per_gb: float) -> tuple[EgressRoute, ...]:
    return (EgressRoute(source="*", target="*", usd_per_gib=usd_per_gb, gbps=AT_ONCE_GBPS),)


# What the decision says


def _verdicts(facts: Facts) -> dict[str, PoolVerdict]:
    return {verdict.pool: verdict for verdict in decision_of(facts).verdicts}


def _total_cost(facts: Facts, _: Any) -> dict[str, Any]:
    """Return the money for every pool; one that is full now costs the same later."""
    rows = {name: {**row, "free": _request(facts).total_gpus} for name, row in facts["pools"].items()}
    found = _verdicts({**facts, "pools": rows})
    return {
        name: by_type(one.cost, {type(None): _same, object: lambda cost: cost.cash_usd})
        for name, one in found.items()
    }


def _same(value: Any) -> Any:
    return value


def _excluded(facts: Facts, _: Any) -> dict[str, AnyOf]:
    return {
        name: AnyOf(tuple(word for reason in one.reasons for word in WORDS_OF_REASON.get(reason.code, ())))
        for name, one in _verdicts(facts).items()
        if one.reasons
    }


def _price_of(facts: Facts, name: str) -> Any:
    return by_type(
        _verdicts(facts)[name].usd_per_hour, {type(None): lambda _: "unknown", float: lambda usd: usd}
    )


def _nothing_raised(facts: Facts, _: Any) -> bool:
    """Decide once; when that raises there is no answer."""
    decision_of(facts)
    return False


def _seconds(facts: Facts, _: Any) -> float:
    """Return how long reading takes when every pool with an error instead of signals never answers."""
    return seconds_to_read(
        without_keys(facts["pools"], "signal"),
        with_keys(facts["pools"], "signal"),
        timeout_seconds=by_key(facts, {"signal_timeout_s": float}, default=SIGNAL_TIMEOUT_SECONDS),
    )


# Offers of which the parts are priced apart


def _offers(facts: Facts) -> Decision:
    pools = [
        GpuPool(
            name=name,
            cluster=ClusterRef(kubernetes_conn_id=name),
            price=Price(
                gpu_hour_usd=gpu_hour_usd(
                    {"gpu_hour_usd": offer["gpus"], "machine_hour_usd": offer["machine"]}, per_node=1
                )
            ),
        )
        for name, offer in facts["offers"].items()
    ]
    signals = {pool.name: _signals(pool.name, {}, 1) for pool in pools}
    return _place(GpuRequest(), pools, Snapshot(taken_at=NOW, pools=signals), Setting())


# Rows of a price list


def _cells(facts: Facts) -> dict[str, Any]:
    return {row["pool"]: price_cell(row["price"]) for row in facts["rows"]}


def _cheapest(facts: Facts, _: Any) -> str | None:
    """Let the decision choose among pools that differ in nothing but these prices."""
    prices = without(_cells(facts), "rejected")
    pools = [
        GpuPool(name=name, cluster=ClusterRef(kubernetes_conn_id=name), price=Price(gpu_hour_usd=price))
        for name, price in prices.items()
    ]
    signals = {pool.name: _signals(pool.name, {}, 1) for pool in pools}
    return _place(GpuRequest(), pools, Snapshot(taken_at=NOW, pools=signals), Setting()).chosen


# Budget


def _admitted(facts: Facts) -> Any:
    return admit_in_order(facts["cap"], facts["spent"], facts["requests"])


ANSWERS: dict[str, Answer] = {
    "chosen": lambda facts, _: decision_of(facts).chosen,
    "excluded": _excluded,
    "total_cost": _total_cost,
    "raised": _nothing_raised,
    "decision_within_s": _seconds,
    "best_region": lambda facts, _: _offers(facts).chosen,
    "best_price": lambda facts, _: _offers(facts).verdicts[0].usd_per_hour,
    "impossible_price": lambda facts, _: [one.usd_per_hour for one in _offers(facts).verdicts],
    "price": lambda facts, _: _cells(facts),
    "cheapest_known": _cheapest,
    "admitted_count": lambda facts, _: _admitted(facts).admitted,
    "committed_after": lambda facts, _: _admitted(facts).spent_usd,
}
"""Key of ``expect`` -> answer about prices, money and choice."""

PREFIXES: dict[str, Callable[[Facts, str], Any]] = {
    "price_of_": lambda facts, key: _price_of(facts, named_after(key, "price_of_"))
}
"""Keys of ``expect`` that end with the name of a pool."""
