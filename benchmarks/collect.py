"""How long it takes, and costs, to read the signals of many clusters: ``python -m benchmarks.collect``.

Servers run in another process, so CPU seconds are the client's own. Every round reads everything anew. Times
are told, never judged: a shared machine says little about a good one.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import msgspec
from rich.console import Console
from rich.table import Table

from airflow_gpu_placement.clusters.connect import client_from_kubeconfig
from airflow_gpu_placement.model.kube import ListPage, Node, Pod
from airflow_gpu_placement.model.pool import ClusterRef, GpuPool
from airflow_gpu_placement.signals.collect import collect
from benchmarks.fake_api import Server, serving
from benchmarks.loop_watch import LoopWatch
from benchmarks.synthetic import PAGE, node_page, pod_page
from lab import pki

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_gpu_placement.clusters.client import ClusterClient

SCENARIOS = ((1, 1_000), (1, 5_000), (10, 1_000), (10, 5_000), (100, 200))


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement.

    :param megabytes: decoded size of everything that was read.
    :param cpu_seconds: of the client's process.
    :param raw_wall_seconds: reading the same pages and throwing them away: delays and transfer alone.
    :param longest_block_seconds: longest time in which the event loop ran nothing else, and the CPU time of
        the process in such a time.
    """

    what: str
    endpoints: int
    nodes: int
    encoding: str
    megabytes: float
    cpu_seconds: float
    wall_seconds: float
    raw_wall_seconds: float | None = None
    longest_block_seconds: float | None = None
    longest_block_cpu_seconds: float | None = None
    free_gpus: int | None = None


class Collected(NamedTuple):
    """One reading of everything."""

    cpu_seconds: float
    wall_seconds: float
    longest_seconds: float
    longest_cpu_seconds: float
    free_gpus: int


async def ours(server: Server, endpoints: int, nodes: int) -> Collected:
    """Collect as the product does."""
    pools = [
        GpuPool(name=f"pool-{index}", cluster=ClusterRef(kubernetes_conn_id=str(index)))
        for index in range(endpoints)
    ]

    async def open_cluster(conn_id: str, _: str | None) -> ClusterClient:
        return await client_from_kubeconfig(_kubeconfig(server.base(int(conn_id), nodes)))

    watch = LoopWatch()
    cpu, wall = time.process_time(), time.monotonic()
    snapshot = await collect(pools, open_cluster, deadline_seconds=600, clock=lambda: datetime.now(UTC))
    cpu, wall = time.process_time() - cpu, time.monotonic() - wall
    watch.stop()
    gaps = [one.gap.message for one in snapshot.pools.values() if one.gap is not None]
    if gaps:
        raise SystemExit(f"not everything was read: {gaps[0]}")
    free = sum(node.free for one in snapshot.pools.values() for node in one.nodes)
    return Collected(cpu, wall, watch.longest_seconds, watch.longest_cpu_seconds, free)


async def raw(server: Server, endpoints: int, nodes: int) -> tuple[float, float]:
    """Read the same pages and throw them away; return megabytes (decoded) and wall seconds."""
    async with aiohttp.ClientSession(read_bufsize=2**20) as session:

        async def list_all(base: str, path: str) -> int:
            size, token = 0, "0"
            while token:
                url = f"{base}{path}?limit={PAGE}&continue={token}"
                async with session.get(url) as response:
                    body = await response.read()
                size += len(body)
                at = body.find(b'"continue": "') + len(b'"continue": "')
                token = body[at : body.find(b'"', at)].decode()
            return size

        async def cluster(index: int) -> int:
            base = server.base(index, nodes)
            async with session.get(f"{base}/api/v1/namespaces/kube-system") as response:
                await response.read()
            return sum(await asyncio.gather(list_all(base, "/api/v1/nodes"), list_all(base, "/api/v1/pods")))

        began = time.monotonic()
        sizes = await asyncio.gather(*(cluster(index) for index in range(endpoints)))
        return sum(sizes) / 1e6, time.monotonic() - began


def official(server: Server, nodes: int) -> tuple[float, float, int]:
    """Read one cluster with the official typed client; return CPU and wall seconds and free GPUs."""
    from kubernetes.client import ApiClient, Configuration, CoreV1Api

    api = CoreV1Api(ApiClient(Configuration(host=server.base(0, nodes))))
    cpu, wall = time.process_time(), time.monotonic()
    read: dict[str, list[Any]] = {}
    for kind, call in (("nodes", api.list_node), ("pods", api.list_pod_for_all_namespaces)):
        items: list[Any] = []
        token = None
        while True:
            page = call(limit=PAGE, _continue=token)
            items += page.items
            token = page.metadata._continue
            if not token:
                break
        read[kind] = items
    free = sum(int(node.status.allocatable["nvidia.com/gpu"]) for node in read["nodes"]) - sum(
        int(one.resources.requests["nvidia.com/gpu"]) for pod in read["pods"] for one in pod.spec.containers
    )
    return time.process_time() - cpu, time.monotonic() - wall, free


def decoding(nodes: int, pods_per_node: int) -> dict[str, float]:
    """Return CPU seconds for decoding alone, for 1,000 nodes and for 1,000 pods."""
    pages = [node_page(first, PAGE, nodes) for first in range(0, nodes, PAGE)]
    pods = nodes * pods_per_node
    pod_pages = [pod_page(first, PAGE, pods, pods_per_node=pods_per_node) for first in range(0, pods, PAGE)]
    found = {}
    for name, bodies, decoder in (
        ("nodes", pages, msgspec.json.Decoder(ListPage[Node])),
        ("pods", pod_pages, msgspec.json.Decoder(ListPage[Pod])),
    ):
        began = time.process_time()
        kept = [decoder.decode(body) for body in bodies]
        spent = time.process_time() - began
        found[name] = spent * 1000 / sum(len(page.items) for page in kept)
    return found


@contextmanager
def with_one_ca() -> Iterator[None]:
    """Let clients find one CA, as in a kubeconfig with its own; over plain HTTP they load all there are."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"SSL_CERT_FILE": str(pki.create(Path(folder), "bench").ca), "SSL_CERT_DIR": folder}
        yield


def _kubeconfig(server: str) -> dict[str, Any]:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "c", "user": {"token": "t"}}],
    }


def measure(scenarios: list[tuple[int, int]], pods_per_node: int, rounds: int) -> Iterator[Row]:
    """Measure every scenario, each as the fastest of its rounds, plain and in gzip."""
    sizes = sorted({nodes for _, nodes in scenarios})
    for encoding in ("plain", "gzip"):
        with serving(sizes, pods_per_node, compress=encoding == "gzip") as server:
            for endpoints, nodes in scenarios:
                readings = [asyncio.run(raw(server, endpoints, nodes)) for _ in range(rounds)]
                megabytes, raw_wall = min(readings, key=lambda one: one[1])
                found = []
                for _ in range(rounds):
                    gc.collect()
                    found.append(asyncio.run(ours(server, endpoints, nodes)))
                best = min(found, key=lambda one: one.wall_seconds)
                yield Row(
                    what="collect",
                    endpoints=endpoints,
                    nodes=nodes,
                    encoding=encoding,
                    megabytes=megabytes,
                    cpu_seconds=best.cpu_seconds,
                    wall_seconds=best.wall_seconds,
                    raw_wall_seconds=raw_wall,
                    longest_block_seconds=min(one.longest_seconds for one in found),
                    longest_block_cpu_seconds=min(one.longest_cpu_seconds for one in found),
                    free_gpus=best.free_gpus,
                )
                if (endpoints, nodes) == (1, 1_000):
                    cpu, wall, free = official(server, nodes)
                    yield Row(
                        what="official client",
                        endpoints=1,
                        nodes=nodes,
                        encoding=encoding,
                        megabytes=megabytes,
                        cpu_seconds=cpu,
                        wall_seconds=wall,
                        longest_block_seconds=wall,
                        free_gpus=free,
                    )


def table_of(rows: list[Row]) -> Table:
    """Lay the rows out for people."""
    table = Table(
        title="Reading the signals of clusters",
        caption="floor: the same pages, thrown away; block: longest time in which the event loop stood still",
    )
    for name in ("what", "clusters", "nodes", "as", "MB", "CPU s", "wall s", "floor s", "block ms", "CPU ms"):
        table.add_column(name, justify="left" if name in {"what", "as"} else "right", no_wrap=True)
    for row in rows:
        table.add_row(
            row.what,
            str(row.endpoints),
            f"{row.nodes:,}",
            row.encoding,
            f"{row.megabytes:,.0f}",
            f"{row.cpu_seconds:.2f}",
            f"{row.wall_seconds:.2f}",
            "" if row.raw_wall_seconds is None else f"{row.raw_wall_seconds:.2f}",
            "" if row.longest_block_seconds is None else f"{row.longest_block_seconds * 1000:.0f}",
            "" if row.longest_block_cpu_seconds is None else f"{row.longest_block_cpu_seconds * 1000:.0f}",
        )
    return table


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.collect", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--pods-per-node", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", metavar="ENDPOINTSxNODES", nargs="*", help="scenarios, such as 10x1000")
    chosen = parser.parse_args()
    scenarios = list(SCENARIOS)
    if chosen.only:
        pairs = [text.split("x") for text in chosen.only]
        scenarios = [(int(endpoints), int(nodes)) for endpoints, nodes in pairs]
    decode = decoding(1_000, chosen.pods_per_node)
    with with_one_ca():
        rows = list(measure(scenarios, chosen.pods_per_node, chosen.rounds))
    if chosen.json:
        found = {"decode_cpu_seconds_per_1000": decode, "rows": msgspec.to_builtins(rows)}
        print(json.dumps(found, indent=1))
        return
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table_of(rows))
    console.print(
        f"Decoding alone: {decode['nodes']:.3f} CPU s for 1,000 nodes, {decode['pods']:.3f} for 1,000 pods."
    )


if __name__ == "__main__":
    main()
