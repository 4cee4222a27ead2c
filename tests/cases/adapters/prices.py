"""Answers about prices and about the choice between pools of which a case gives only rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.catalog.prices import PriceList, PriceRow, priced
from airflow_gpu_placement.catalog.pricing import gpu_hour_usd
from airflow_gpu_placement.catalog.problems import Problems
from airflow_gpu_placement.engine.budget import admit_in_order
from airflow_gpu_placement.engine.place import place
from airflow_gpu_placement.model.decision import History, Setting
from airflow_gpu_placement.model.estimate import Estimate, Knowledge
from airflow_gpu_placement.model.money import Dataset, EgressRoute
from airflow_gpu_placement.model.pool import ClusterRef, GpuPool, Price
from airflow_gpu_placement.model.reasons import ReasonCode, Verdict
from airflow_gpu_placement.model.request import GpuRequest, TimeNeed
from airflow_gpu_placement.model.signals import Snapshot
from tests.cases.adapters.answer import Answer, AnyOf
from tests.cases.adapters.fit import NOW, request_from
from tests.cases.adapters.pool_rows import model_of, offered_by, row_signals, rows_of
from tests.cases.adapters.reading import (
    by_key,
    by_type,
    named_after,
    with_keys,
    without,
    without_keys,
)
from tests.cases.adapters.units import AT_ONCE_GBPS, REJECTED, gib, price_cell
from tests.cases.fake_clock import seconds_to_read

if TYPE_CHECKING:
    from collections.abc import Callable

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
    offered = [offered_by(facts, name, row, gpus) for name, row in rows_of(facts).items()]
    signals = {seen.pool: seen for _, seen in offered}
    return _place(
        wanted, [pool for pool, _ in offered], Snapshot(taken_at=NOW, pools=signals), _setting(facts)
    )


def _place(request: GpuRequest, pools: list[GpuPool], snapshot: Snapshot, setting: Setting) -> Decision:
    return place(request, pools, snapshot, History(), setting, now=NOW, subject="a case", catalog_hash="")


def _request(facts: Facts) -> GpuRequest:
    size = request_from(
        by_key(
            facts,
            {"request": lambda one: one, "request_gpus": int, "requests": lambda many: many[0]},
            default=1,
        ),
        facts,
    )
    rows = rows_of(facts)
    hours = {model_of(name): by_key(row, {"hours": float}, default=None) for name, row in rows.items()}
    # A row says nothing of its model: whatever is asked for is what it has.
    nothing: dict[tuple[str, ...], tuple[str, ...]] = {(): ()}
    models = nothing.get(size.models, (*size.models, *hours))
    return size.model_copy(
        update={
            "models": models,
            "data": by_key(facts, {"dataset_gb": lambda _: (DATASET,)}, default=()),
            "time": TimeNeed(runtime_hours_by_model=without(hours, None)),
        }
    )


def _setting(facts: Facts) -> Setting:
    rows = rows_of(facts)
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


def _routes(usd_per_gb: float | None) -> tuple[EgressRoute, ...]:
    routes: tuple[EgressRoute, ...] = by_type(
        usd_per_gb,
        {
            type(None): lambda _: (),
            object: lambda usd: (EgressRoute(source="*", target="*", usd_per_gib=usd, gbps=AT_ONCE_GBPS),),
        },
    )
    return routes


# What the decision says


def _verdicts(facts: Facts) -> dict[str, PoolVerdict]:
    return {verdict.pool: verdict for verdict in decision_of(facts).verdicts}


def verdict_on(facts: Facts, pool: str, request: Any) -> Verdict:
    """Return the decision's verdict on one pool for a request."""
    return _verdicts({**facts, "request": request})[pool].verdict


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
        _verdicts(facts)[name].usd_per_hour,
        {type(None): lambda _: AnyOf(("unknown", None)), float: lambda usd: usd},
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
    signals = {pool.name: row_signals(pool.name, {}, 1) for pool in pools}
    return _place(GpuRequest(), pools, Snapshot(taken_at=NOW, pools=signals), Setting())


# Rows of a price list


def _cells(facts: Facts) -> dict[str, Any]:
    """Return the price that each pool gets from the rows, or the word for what is refused."""
    rows = {str(number): row for number, row in enumerate(facts["rows"])}
    good = without({number: price_cell(row.get("price")) for number, row in rows.items()}, REJECTED)
    listed = tuple(PriceRow(int(number), {"pool": rows[number]["pool"]}, usd) for number, usd in good.items())
    return {
        row["pool"]: by_key(good, {number: partial(_listed, row["pool"], listed)}, default=REJECTED)
        for number, row in rows.items()
    }


def _listed(pool: str, rows: tuple[PriceRow, ...], _: Any) -> float | str | None:
    """Let the catalogue price a pool; rows that contradict each other are refused."""
    problems = Problems("the rows")
    prices = PriceList(rows, path="the rows", source="a case", per_node=False)
    found = priced([GpuPool(name=pool, cluster=ClusterRef(kubernetes_conn_id=pool))], {}, [prices], problems)
    return {0: found[0].price.gpu_hour_usd}.get(len(problems.found), REJECTED)


def _cheapest(facts: Facts, _: Any) -> str | None:
    """Let the decision choose among pools that differ in nothing but these prices."""
    prices = without(_cells(facts), REJECTED)
    pools = [
        GpuPool(name=name, cluster=ClusterRef(kubernetes_conn_id=name), price=Price(gpu_hour_usd=price))
        for name, price in prices.items()
    ]
    signals = {pool.name: row_signals(pool.name, {}, 1) for pool in pools}
    return _place(GpuRequest(), pools, Snapshot(taken_at=NOW, pools=signals), Setting()).chosen


# Budget


def _admitted(facts: Facts) -> Any:
    return admit_in_order(facts.get("cap"), facts.get("spent", 0.0), facts["requests"])


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
