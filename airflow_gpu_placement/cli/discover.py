"""``airflow gpu-placement discover``: write the pools of a live cluster as a catalogue."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_gpu_placement.catalog.discover import Discovery, discover
from airflow_gpu_placement.catalog.discovered_yaml import catalogue_yaml
from airflow_gpu_placement.catalog.seen_nodes import SeenNodes
from airflow_gpu_placement.cli.process import command, print_text
from airflow_gpu_placement.exceptions import GpuPlacementError
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.model.dra import DraObjects
from airflow_gpu_placement.model.pool import ClusterRef
from airflow_gpu_placement.signals.state import read_state

if TYPE_CHECKING:
    import argparse

    from airflow_gpu_placement.clusters.connect import OpenCluster

FOUND, NOTHING_FOUND = 0, 1


def discover_pools(args: argparse.Namespace, open_cluster: OpenCluster = open_on_worker) -> int:
    """Read a cluster's nodes and write its pools; return 0, or 1 when it offers no GPU."""
    out = Path(args.out).expanduser() if args.out else None
    if out is not None and out.exists():
        raise GpuPlacementError(f"{out} exists already; name another file with --out")
    found, text = asyncio.run(_read(args, open_cluster))
    if not found.pools:
        for reason in found.left_out or ("no node offers a GPU",):
            sys.stderr.write(f"{reason}\n")
        return NOTHING_FOUND
    if out is None:
        print_text(text.rstrip("\n"))
    else:
        out.write_text(text, encoding="utf-8")
        print_text(f"{out}: {len(found.pools)} pools; look for 'fill in'")
    return FOUND


async def _read(args: argparse.Namespace, open_cluster: OpenCluster) -> tuple[Discovery, str]:
    async with await open_cluster(args.conn_id, args.context) as client:
        state = await read_state(client, lambda: datetime.now(UTC))
    cluster = ClusterRef(
        kubernetes_conn_id=args.conn_id, context=args.context, uid=state.uid, namespace=args.namespace
    )
    found = discover(SeenNodes(tuple(state.nodes), state.dra or DraObjects()), cluster)
    return found, catalogue_yaml(found, server=state.server, at=state.observed_at)


discover_command = command(discover_pools)
