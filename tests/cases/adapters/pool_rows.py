"""Pools of which a case gives a row instead of nodes, or beside them: price, place, and what is free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.gpu_models import normalised
from airflow_gpu_placement.model.pool import ClusterRef, DeclaredGpu, GpuPool, Place, Price
from airflow_gpu_placement.model.signals import GapKind, NodeCapacity, PoolSignals, SignalGap
from tests.cases.adapters.clusters import clusters_of
from tests.cases.adapters.fit import NOW, signals_of
from tests.cases.adapters.reading import by_key, by_type, without_nulls
from tests.cases.adapters.units import processor, usd_per_gpu

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cases.adapters.reading import Facts

_NOT_KNOWN = {"signal": "nobody knows what is free"}


def rows_of(facts: Facts) -> Mapping[str, Any]:
    """Return the pools of a case, without what is null in them; what is free then is not known at all."""
    pools = by_key(facts, {"pools": dict}, default={})
    return {name: by_type(row, {type(None): lambda _: {}, dict: _row}) for name, row in pools.items()}


def _row(given: Mapping[str, Any]) -> dict[str, Any]:
    unknown = by_key(
        given,
        {"free": lambda free: by_type(free, {type(None): lambda _: _NOT_KNOWN, object: lambda _: {}})},
        default={},
    )
    return {**unknown, **without_nulls(given)}


def _with_row(pool: GpuPool, row: Mapping[str, Any], gpus: int) -> GpuPool:
    """Lay what a row says over a pool of which the nodes are known."""
    return msgspec.structs.replace(
        pool,
        place=Place(region=row.get("region")),
        architecture=processor(row.get("arch")),
        price=Price(gpu_hour_usd=usd_per_gpu(row.get("price_per_hour"), gpus)),
    )


def offered_by(facts: Facts, name: str, row: Mapping[str, Any], gpus: int) -> tuple[GpuPool, PoolSignals]:
    """Read a pool of which a case gives a row, or its nodes, or both."""
    read: tuple[GpuPool, PoolSignals] = by_key(
        clusters_of(facts),
        {name: lambda cluster: (_with_row(cluster[2], row, gpus), signals_of(facts, name))},
        otherwise=lambda: (_pool(name, row, gpus), row_signals(name, row, gpus)),
    )
    return read


def model_of(name: str) -> str:
    """Return a GPU model of the pool's own: a case gives runtimes by pool, the product by model."""
    return normalised(f"model-{name}")


def _pool(name: str, row: Mapping[str, Any], gpus: int) -> GpuPool:
    return GpuPool(
        name=name,
        cluster=ClusterRef(kubernetes_conn_id=name),
        place=Place(region=row.get("region")),
        gpu=DeclaredGpu(model=model_of(name)),
        architecture=processor(row.get("arch")),
        price=Price(gpu_hour_usd=usd_per_gpu(row.get("price_per_hour"), gpus)),
        interruptions_per_gpu_hour=0.0,
    )


def row_signals(name: str, row: Mapping[str, Any], gpus: int) -> PoolSignals:
    """Read what is free: one node with that many GPUs, and one that is full."""
    free = by_key(row, {"free": int}, default=gpus)
    gap = by_key(
        row, {"signal": lambda text: SignalGap(kind=GapKind.UNREACHABLE, message=text)}, default=None
    )
    nodes = (
        NodeCapacity(
            name="free", capacity=free, allocatable=free, free=free, architecture=processor(row.get("arch"))
        ),
        NodeCapacity(
            name="full", capacity=gpus, allocatable=gpus, used=gpus, architecture=processor(row.get("arch"))
        ),
    )
    return PoolSignals(
        pool=name,
        observed_at=NOW,
        source="a case",
        nodes=by_key(row, {"signal": lambda _: ()}, default=nodes),
        gap=gap,
    )
