"""``airflow gpu-placement pools``: every pool with what it has now."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.cli.output import print_rows
from airflow_gpu_placement.cli.process import command, load_catalog, signal_deadline_seconds
from airflow_gpu_placement.engine.capacity import gang_fits
from airflow_gpu_placement.engine.identity import effective_gpu
from airflow_gpu_placement.engine.leaving import closed_from
from airflow_gpu_placement.engine.own_models import recognise_all
from airflow_gpu_placement.engine.staying import horizon
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.signals.collect import collect
from airflow_gpu_placement.signals.count import report_of_pool

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.engine.capacity_report import CapacityReport
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity, PoolSignals
    from airflow_gpu_placement.signals.state import ClusterState


def pools(args: argparse.Namespace, open_cluster: OpenCluster = open_on_worker) -> int:
    """Read every pool's signals and list them."""
    catalog = load_catalog(args)
    reports: dict[str, CapacityReport] = {}

    def keep_report(pool: GpuPool, state: ClusterState) -> None:
        reports[pool.name] = report_of_pool(pool, state)

    snapshot = asyncio.run(
        collect(
            catalog.pools,
            open_cluster,
            deadline_seconds=signal_deadline_seconds(args),
            clock=lambda: datetime.now(UTC),
            observe=keep_report,
        )
    )
    snapshot = recognise_all(snapshot, catalog.gpu_models)
    now = datetime.now(UTC)
    rows = [
        pool_row(pool, snapshot.pools[pool.name], reports.get(pool.name), args.gpus_per_node, now)
        for pool in catalog.pools
    ]
    if args.output != "table":
        rows = [{**row, "report": _plain(reports.get(row["pool"]))} for row in rows]
    print_rows(rows, args.output)
    return 0


def pool_row(
    pool: GpuPool,
    signals: PoolSignals,
    report: CapacityReport | None,
    gpus_per_node: int,
    now: datetime,
) -> dict[str, Any]:
    """Return one pool as a record; numbers are ``None`` where nothing is known.

    :param report: all that is known of its GPUs; ``None``: nothing.
    :param gpus_per_node: size of the gang's members, for the largest gang.
    """
    until = horizon(signals.observed_at)
    nodes = tuple(closed_from(node, until) for node in signals.nodes)
    known = signals.gap is None
    usable = [node for node in nodes if node.unusable_because is None]
    return {
        "pool": pool.name,
        "gpu": _gpu_words(pool, signals),
        "nodes": len(nodes) if known else None,
        "usable": len(usable) if known else None,
        "gpus": sum(node.capacity for node in nodes) if known else None,
        "used": sum(node.used for node in nodes) if known else None,
        "free": sum(node.free for node in nodes) if known else None,
        "waiting": None if report is None else report.pending_demand,
        "gang": gang_fits(nodes, gpus_per_node, ()) if known else None,
        "usd_gpu_hour": pool.price.gpu_hour_usd,
        "age_seconds": round((now - signals.observed_at).total_seconds(), 1),
        "source": signals.source,
        "problem": _problem(signals, nodes),
    }


def _gpu_words(pool: GpuPool, signals: PoolSignals) -> str | None:
    seen = {effective_gpu(pool, node.gpu) for node in signals.nodes} or {effective_gpu(pool, None)}
    return ", ".join(sorted(str(gpu) for gpu in seen if gpu is not None)) or None


def _problem(signals: PoolSignals, nodes: Sequence[NodeCapacity]) -> str | None:
    if signals.gap is not None:
        return f"{signals.gap.kind}: {signals.gap.message}"
    unusable = [f"{node.name}: {node.unusable_because}" for node in nodes if node.unusable_because]
    return _few(unusable) or None


def _plain(report: CapacityReport | None) -> Any:
    return None if report is None else msgspec.to_builtins(report)


def _few(texts: Sequence[str], most: int = 2) -> str:
    more = f"; and {len(texts) - most} more" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more


pools_command = command(pools)
