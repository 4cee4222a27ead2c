"""Pools of the same nodes: what one takes is no longer free in the other."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from airflow_gpu_placement.catalog.discover import select_exactly
from airflow_gpu_placement.cli.doctor.finding import Finding, FindingId, FixKind, Severity, entry_lines
from airflow_gpu_placement.engine.view import few

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_gpu_placement.catalog.seen_nodes import SeenNodes
    from airflow_gpu_placement.cli.doctor.read import ClusterReading
    from airflow_gpu_placement.model.pool import GpuPool


class _Covered(NamedTuple):
    pool: GpuPool
    names: frozenset[str]
    seen: SeenNodes


def check_overlap(readings: Iterable[ClusterReading]) -> list[Finding]:
    """Return a finding for each two pools of one cluster that share nodes by the same path.

    Two paths to the same nodes (a plain job and a queue) are meant to share them. Clusters are told apart by
    their uid, so two connections to the same cluster are seen through.
    """
    by_cluster: dict[str, list[_Covered]] = {}
    for reading in readings:
        if reading.uid is not None and reading.seen is not None:
            by_cluster.setdefault(reading.uid, []).extend(_covered(reading.pools, reading.seen))
    return [
        _finding(*sorted(pair, key=lambda one: (-len(one.names), one.pool.name)))
        for covered in by_cluster.values()
        for pair in combinations(covered, 2)
        if _clash(*pair)
    ]


def _covered(pools: Iterable[GpuPool], seen: SeenNodes) -> Iterable[_Covered]:
    for pool in pools:
        yield _Covered(pool, frozenset(one.name for one in seen.of_pool(pool)), seen)


def _clash(one: _Covered, other: _Covered) -> bool:
    return bool(one.names & other.names) and one.pool.execution is other.pool.execution


def _finding(broad: _Covered, narrow: _Covered) -> Finding:
    shared = few(sorted(broad.names & narrow.names))
    selector = _without(broad, narrow.names)
    if selector is None:
        fix, kind = f"take pool {narrow.pool.name!r} out of the catalogue", FixKind.ADVICE
    else:
        fix = entry_lines("pools", {"name": broad.pool.name, "node_selector": selector})
        kind = FixKind.CATALOG
    return Finding(
        id=FindingId.POOLS_OVERLAP,
        severity=Severity.WARNING,
        where=f"pools {broad.pool.name!r} and {narrow.pool.name!r}",
        what=f"both have {shared}: the same GPUs are offered twice, at two prices",
        fix=fix,
        kind=kind,
        pool=broad.pool.name if selector is not None else narrow.pool.name,
    )


def _without(broad: _Covered, names: frozenset[str]) -> dict[str, str] | None:
    rest: Sequence[str] = sorted(broad.names - names)
    return select_exactly(rest, broad.seen.nodes) if rest else None
