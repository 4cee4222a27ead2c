"""A process that answers as many API servers would: pages that were rendered before, after a delay.

``/<endpoint>/<delay in ms>/<nodes>/api/v1/...``: the client's base address says how large the cluster is and
how far away. Its own CPU time is therefore not in what the client measures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import zlib
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import web

from benchmarks.synthetic import PAGE, node_page, pod_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DELAYS_MS = (20, 80, 145)
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class Server(NamedTuple):
    """Where the fake clusters are."""

    port: int
    pods_per_node: int

    def base(self, endpoint: int, nodes: int) -> str:
        """Return the address of one cluster; its distance depends on its number."""
        delay = DELAYS_MS[endpoint % len(DELAYS_MS)]
        return f"http://127.0.0.1:{self.port}/{endpoint}/{delay}/{nodes}"


@contextmanager
def serving(sizes: list[int], pods_per_node: int, *, compress: bool) -> Iterator[Server]:
    """Run the server process."""
    command = [sys.executable, "-m", "benchmarks.fake_api", "--pods-per-node", str(pods_per_node)]
    command += ["--prepare", *map(str, sizes), *(["--gzip"] if compress else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdin is None or process.stdout is None:
            raise AssertionError("unreachable: both are pipes")
        try:
            yield Server(json.loads(process.stdout.readline())["port"], pods_per_node)
        finally:
            process.stdin.close()
            process.wait(timeout=30)


class FakeApi:
    """Pages of nodes and pods; everything else does not exist.

    :param compress: answer in gzip, level 1, as an API server does when the client accepts it.
    """

    def __init__(self, pods_per_node: int, *, compress: bool) -> None:
        self._pods_per_node = pods_per_node
        self._compress = compress
        self._nodes = cache(self._node_page)
        self._pods = cache(self._pod_page)

    def prepare(self, nodes: int) -> None:
        """Render everything of clusters of this size."""
        for total, render in ((nodes, self._nodes), (nodes * self._pods_per_node, self._pods)):
            for first in range(0, total, PAGE):
                render(first, total)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer one call after the endpoint's delay."""
        nodes = int(request.match_info["nodes"])
        await asyncio.sleep(int(request.match_info["delay"]) / 1000)
        path = request.match_info["path"]
        if path == "api/v1/namespaces/kube-system":
            return web.json_response({"metadata": {"uid": f"uid-{request.match_info['endpoint']}"}})
        kinds: dict[str, tuple[int, Callable[[int, int], bytes]]] = {
            "api/v1/nodes": (nodes, self._nodes),
            "api/v1/pods": (nodes * self._pods_per_node, self._pods),
        }
        if path not in kinds:
            return web.json_response({"code": 404, "message": "no such thing"}, status=404)
        total, render = kinds[path]
        encoding = {"Content-Encoding": "gzip"} if self._compress else {}
        body = render(int(request.query.get("continue") or 0), total)
        return web.Response(body=body, content_type="application/json", headers=encoding)

    def _node_page(self, first: int, total: int) -> bytes:
        return self._packed(node_page(first, min(PAGE, total - first), total))

    def _pod_page(self, first: int, total: int) -> bytes:
        count = min(PAGE, total - first)
        return self._packed(pod_page(first, count, total, pods_per_node=self._pods_per_node))

    def _packed(self, body: bytes) -> bytes:
        if not self._compress:
            return body
        packer = zlib.compressobj(1, wbits=_GZIP_WINDOW)
        return packer.compress(body) + packer.flush()


async def serve(api: FakeApi) -> None:
    """Serve until the parent ends; the port is printed as JSON once everything is ready."""
    app = web.Application()
    app.router.add_get("/{endpoint}/{delay}/{nodes}/{path:.*}", api.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(json.dumps({"port": runner.addresses[0][1]}), flush=True)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    await reader.read()  # ends when the parent closes its end, also by dying
    await runner.cleanup()


def main() -> None:
    """Run the process; it ends when its standard input is closed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods-per-node", type=int, default=2)
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--prepare", type=int, nargs="*", default=[], help="cluster sizes to render first")
    chosen = parser.parse_args()
    api = FakeApi(chosen.pods_per_node, compress=chosen.gzip)
    for nodes in chosen.prepare:
        api.prepare(nodes)
    asyncio.run(serve(api))


if __name__ == "__main__":
    main()
