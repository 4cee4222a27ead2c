"""Data that is far from every pool, as far as the catalogue and the labels of nodes say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.catalog.checks import FarLocation, far_locations
from airflow_gpu_placement.cli.doctor.finding import Finding, FindingId, FixKind, Severity, entry_lines
from airflow_gpu_placement.engine.located import region_agreed_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_gpu_placement.catalog import Catalog
    from airflow_gpu_placement.cli.doctor.read import ClusterReading
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity

FillIn = tuple[tuple[str, str], ...]


def check_datasets(catalog: Catalog, readings: Iterable[ClusterReading]) -> list[Finding]:
    """Return one finding for each location of data in a region that no pool is in, as far as is told.

    A pool whose catalogue entry says no region is where its nodes agree that it is, as for a decision.
    """
    seen = [(pool, nodes) for reading in readings for pool, nodes in _seen(reading)]
    there = {region_agreed_on(nodes) for pool, nodes in seen if pool.place.region is None}
    told = {pool.name: region for pool, nodes in seen if (region := _only_region(nodes)) is not None}
    far = far_locations(catalog.pools, catalog.datasets)
    return [
        _finding(one, warning, catalog.pools, told)
        for one, warning in zip(far, catalog.warnings, strict=True)
        if one.region not in there
    ]


def _seen(reading: ClusterReading) -> Iterable[tuple[GpuPool, Sequence[NodeCapacity]]]:
    """Show the nodes of each pool; those of another cluster say nothing of it."""
    for pool in reading.pools:
        if reading.seen is not None and pool.cluster.uid in {None, reading.uid}:
            yield pool, reading.seen.of_pool(pool)


def _only_region(nodes: Iterable[NodeCapacity]) -> str | None:
    """Return the region that all nodes name which name any; only a person knows about the others."""
    regions = {node.region for node in nodes} - {None}
    return regions.pop() if len(regions) == 1 else None


def _finding(far: FarLocation, warning: str, pools: Sequence[GpuPool], told: Mapping[str, str]) -> Finding:
    where, _, what = warning.partition(": ")
    fix, fill_in = _mending(far, pools, told)
    return Finding(
        id=FindingId.CATALOG_DOUBTFUL,
        severity=Severity.WARNING,
        where=where,
        what=f"{what}; where that is meant, leave it: jobs then pay for moving the data",
        fix=fix,
        kind=FixKind.CATALOG,
        fill_in=fill_in,
    )


def _mending(far: FarLocation, pools: Sequence[GpuPool], told: Mapping[str, str]) -> tuple[str, FillIn]:
    """Return the lines that bring data and pools together: by what the nodes say, else by a person's word."""
    nowhere = [pool.name for pool in pools if pool.place.region is None]
    there = [name for name in nowhere if told.get(name) == far.region]
    if there:
        return _in_region(there, far.region), ()
    regions = sorted({pool.place.region for pool in pools if pool.place.region is not None})
    for region in regions:
        if _folded(region) == _folded(far.region):
            return _moved(far, region), ()
    silent = [name for name in nowhere if name not in told]
    if silent:
        meaning = f"name of the pool that is in {far.region}: {' or '.join(silent)}"
        return _in_region(["<POOL>"], far.region), (("<POOL>", meaning),)
    known = ", ".join(sorted({*regions, *told.values()})) or "none is known"
    meaning = f"region that really has the data; regions of pools: {known}"
    return _moved(far, "<REGION>"), (("<REGION>", meaning),)


def _in_region(names: Iterable[str], region: str) -> str:
    return entry_lines("pools", *({"name": name, "region": region} for name in names))


def _moved(far: FarLocation, region: str) -> str:
    locations = [region if one == far.region else one for one in far.dataset.locations]
    return entry_lines("datasets", {"name": far.dataset.name, "locations": locations})


def _folded(region: str) -> str:
    """Reduce a region to its letters and digits: ``us-east-1`` is no slip of ``us-west-1``."""
    return "".join(letter for letter in region.casefold() if letter.isalnum())
