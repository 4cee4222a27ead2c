"""Read, check, and print the findings."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_gpu_placement.cli.doctor.check_catalog import check_catalog, no_catalog
from airflow_gpu_placement.cli.doctor.check_cluster import check_cluster
from airflow_gpu_placement.cli.doctor.check_datasets import check_datasets
from airflow_gpu_placement.cli.doctor.check_mixed import check_mixed
from airflow_gpu_placement.cli.doctor.check_overlap import check_overlap
from airflow_gpu_placement.cli.doctor.check_pool import check_pool
from airflow_gpu_placement.cli.doctor.finding import FIX_WORDS, Finding, Severity
from airflow_gpu_placement.cli.doctor.read import read_clusters
from airflow_gpu_placement.cli.output import print_data, print_rows, print_text
from airflow_gpu_placement.cli.process import (
    catalog_path,
    command,
    load_catalog,
    signal_deadline_seconds,
)
from airflow_gpu_placement.exceptions import CatalogError, GpuPlacementError
from airflow_gpu_placement.hooks.clusters import open_on_worker

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from airflow_gpu_placement.catalog import Catalog
    from airflow_gpu_placement.clusters.connect import OpenCluster

HEALTHY, FOUND = 0, 1
_FIRST = {Severity.ERROR: 0, Severity.WARNING: 1}


def doctor(
    args: argparse.Namespace,
    open_cluster: OpenCluster = open_on_worker,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> int:
    """Check everything, print the findings, and return 0 without any, else 1."""
    if args.bundle_name and not args.dags:
        raise GpuPlacementError("--bundle-name says which DAGs are parsed; give --dags too, or leave it out")
    findings = _catalog_findings(catalog_path(args), args, open_cluster, clock)
    if args.dags:
        from airflow_gpu_placement.cli.doctor.check_dags import check_dags

        findings += check_dags(args.bundle_name)
    _print(sorted(findings, key=lambda one: (_FIRST[one.severity], one.id, one.where)), args.output)
    return FOUND if findings else HEALTHY


def _catalog_findings(
    path: Path, args: argparse.Namespace, open_cluster: OpenCluster, clock: Callable[[], datetime]
) -> list[Finding]:
    if not path.exists():
        return [no_catalog(path)]
    try:
        catalog = load_catalog(args)
    except CatalogError as error:
        return check_catalog(error.problems)
    examined = examine(catalog, open_cluster, deadline_seconds=signal_deadline_seconds(args), clock=clock)
    return asyncio.run(examined)


async def examine(
    catalog: Catalog,
    open_cluster: OpenCluster,
    *,
    deadline_seconds: float,
    clock: Callable[[], datetime],
) -> list[Finding]:
    """Return everything that is wrong with what a catalogue says, and with its clusters."""
    readings = await read_clusters(
        catalog.pools, open_cluster, deadline_seconds=deadline_seconds, clock=clock
    )
    findings = [finding for reading in readings for finding in check_cluster(reading)]
    names = [pool.name for pool in catalog.pools]
    for reading in readings:
        for pool in reading.pools:
            # The nodes of another cluster say nothing about this pool.
            seen = reading.seen if pool.cluster.uid in {None, reading.uid} else None
            findings += check_pool(pool, seen, catalog.gpu_models)
            findings += check_mixed(pool, seen, names)
    return [*findings, *check_overlap(readings), *check_datasets(catalog, readings)]


def _print(findings: Sequence[Finding], output: str) -> None:
    if output != "table":
        print_data([finding.as_record() for finding in findings], output)
        return
    if not findings:
        print_text("Nothing found.")
        return
    print_rows(
        [
            {"#": number, "severity": one.severity, "id": one.id, "where": one.where, "what": one.what}
            for number, one in enumerate(findings, start=1)
        ],
        output,
    )
    for number, one in enumerate(findings, start=1):
        print_text(f"# {number} {one.id}, {one.where}: {FIX_WORDS[one.kind]}\n{one.as_text()}\n")


doctor_command = command(doctor)
