"""``airflow gpu-placement discover``: write the pools of a live cluster as a catalogue."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_gpu_placement.catalog import fields
from airflow_gpu_placement.catalog.discover import Discovery, discover
from airflow_gpu_placement.catalog.discovered_yaml import catalogue_yaml
from airflow_gpu_placement.catalog.problems import Problems
from airflow_gpu_placement.catalog.seen_nodes import SeenNodes
from airflow_gpu_placement.cli.output import print_error, print_text
from airflow_gpu_placement.cli.process import command, user_path
from airflow_gpu_placement.exceptions import GpuPlacementError
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.model.dra import DraObjects
from airflow_gpu_placement.model.pool import ClusterRef
from airflow_gpu_placement.signals.state import read_state

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

    from airflow_gpu_placement.clusters.connect import OpenCluster

FOUND, NOTHING_FOUND = 0, 1
_AS_IN_THE_CATALOGUE = {"conn_id": fields.conn_id, "namespace": fields.namespace}
"""Flags whose values are written into the catalogue, each with what reads it there."""


def discover_pools(args: argparse.Namespace, open_cluster: OpenCluster = open_on_worker) -> int:
    """Read a cluster's nodes and write its pools; return 0, or 1 when it offers no GPU."""
    out = _new_file(args.out) if args.out else None
    for name, reader in _AS_IN_THE_CATALOGUE.items():
        problems = Problems(f"--{name.replace('_', '-')}")
        reader(getattr(args, name), "", problems)
        problems.raise_any()
    found, text = asyncio.run(_read(args, open_cluster))
    if not found.pools:
        for reason in found.left_out or ("no node offers a GPU",):
            print_error(reason)
        return NOTHING_FOUND
    if out is None:
        print_text(text.rstrip("\n"))
    else:
        out.write_text(text, encoding="utf-8")
        count = f"{len(found.pools)} pool{'s' if found.pools[1:] else ''}"
        print_text(f"{out}: {count}; look for 'fill in'")
    return FOUND


def _new_file(given: str) -> Path:
    """Return the file to write, which must not be there yet; said before a cluster is asked."""
    out = user_path(given, "--out")
    if out.exists():
        raise GpuPlacementError(f"{out} exists already; name another file with --out")
    if not out.parent.is_dir():
        raise GpuPlacementError(f"--out: there is no folder {out.parent}; make it, or name another")
    return out


async def _read(args: argparse.Namespace, open_cluster: OpenCluster) -> tuple[Discovery, str]:
    async with await open_cluster(args.conn_id, args.context) as client:
        state = await read_state(client, lambda: datetime.now(UTC))
    cluster = ClusterRef(
        kubernetes_conn_id=args.conn_id, context=args.context, uid=state.uid, namespace=args.namespace
    )
    found = discover(SeenNodes(tuple(state.nodes), state.dra or DraObjects()), cluster)
    return found, catalogue_yaml(found, server=state.server, at=state.observed_at)


discover_command = command(discover_pools)
