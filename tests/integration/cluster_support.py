"""What tests against a real cluster share: attempts, clients, and a proxy that counts and cuts."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.clusters.connect import client_from_kubeconfig
from airflow_gpu_placement.launch.spec import LaunchSpec
from airflow_gpu_placement.model.attempt import Attempt, LogicalTask
from airflow_gpu_placement.model.pool import ClusterRef, GpuPool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.clusters.connect import OpenCluster
    from lab import Cluster, Node

RENEW_SECONDS = 1.0
SHARED_NODE = "h100-1"
"""The node of the fleet that all tests use; who harms a node adds one."""
POD_END_SECONDS = 60.0


def pool_of(cluster: Cluster, namespace: str, **changes: Any) -> GpuPool:
    """Return a pool of the shared node.

    Not of every node: a scheduler that has not yet heard of a node's deletion, as after a restart of its API
    server, binds pods to it.
    """
    ref = ClusterRef(kubernetes_conn_id=cluster.name, namespace=namespace)
    selector = {"kubernetes.io/hostname": SHARED_NODE}
    values: dict[str, Any] = {"name": "h100", "cluster": ref, "node_selector": selector}
    return GpuPool(**{**values, **changes})


def spec_of(pool: GpuPool, script: str, **changes: Any) -> LaunchSpec:
    """Return what launches a shell script as a new attempt of a new logical task."""
    task = LogicalTask(dag_id="llm", run_id=uuid.uuid4().hex, task_id="train")
    attempt = Attempt(task=task, attempt_id=str(uuid.uuid4()), try_number=1, fence=1)
    values: dict[str, Any] = {"attempt": attempt, "pool": pool, "image": "training"}
    return LaunchSpec(**{**values, "command": ("sh", "-c", script), **changes})


def opener(cluster: Cluster, user: str = "admin") -> OpenCluster:
    """Return a function that opens the cluster, as the hook does for an Airflow connection."""

    async def open_cluster(_: str, context: str | None) -> ClusterClient:
        return await client_from_kubeconfig(cluster.kubeconfig(user), context)

    return open_cluster


def texts(log: list[str]) -> Callable[[datetime, str], None]:
    """Return what takes the lines of a remote log and keeps their texts."""
    return lambda _, line: log.append(line)


def remove_node(node: Node) -> None:
    """Switch a node off for good and let go of its pods, which would hold up their namespace."""
    api = node.cluster.api
    node.power_off()
    if api.get("/api/v1/nodes", fieldSelector=f"metadata.name={node.name}")["items"]:
        node.delete_object()
    for pod in api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node.name}")["items"]:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        api.patch(path, {"metadata": {"finalizers": None}})
        api.delete(path, gracePeriodSeconds="0")


def remove_namespace(cluster: Cluster, name: str) -> None:
    """Delete a namespace and wait until its pods have left the shared node, whose GPUs others may want."""
    cluster.api.delete(f"/api/v1/namespaces/{name}")
    path = f"/api/v1/namespaces/{name}/pods"
    on_shared_node = f"spec.nodeName={SHARED_NODE}"
    cluster.api.delete(path, fieldSelector=on_shared_node, gracePeriodSeconds="1")
    cluster.api.wait(
        path,
        lambda pods: not pods["items"],
        POD_END_SECONDS,
        f"no pod of {name} is on {SHARED_NODE}",
        fieldSelector=on_shared_node,
    )


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


async def until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Wait until something holds."""
    try:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - what is awaited happens in another process
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not within {seconds:g} s: {what}") from None


class CountingProxy:
    """A TCP proxy before a server that counts connections, can cut them all, and can swallow everything."""

    def __init__(self, server: str) -> None:
        self._host, port = server.removeprefix("https://").split(":")
        self._port = int(port)
        self.opened = 0
        self.url = ""
        self._writers: set[asyncio.StreamWriter] = set()
        self._swallowing = False
        self._dead: set[asyncio.StreamWriter] = set()  # nothing passes on these any more, and nobody says so

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[CountingProxy]:
        """Listen on a free port of the loopback interface."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for writer in self._writers:
                writer.transport.abort()
            await server.wait_closed()
            await until(lambda: not self._writers, seconds=10, what="no connection is left")

    @property
    def open_now(self) -> int:
        """Return how many connections are open."""
        return len(self._writers) // 2

    def cut(self) -> None:
        """Close every connection."""
        for writer in self._writers:
            writer.close()

    @contextlib.contextmanager
    def black_hole(self) -> Iterator[None]:
        """Let nothing pass; connections of before are dead for good, and nobody closes them."""
        self._swallowing = True
        self._dead |= self._writers
        try:
            yield
        finally:
            self._swallowing = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        upstream_reader, upstream_writer = await asyncio.open_connection(self._host, self._port)
        pair = {writer, upstream_writer}
        if self._swallowing:
            self._dead |= pair
        self._writers |= pair
        try:
            await asyncio.gather(self._pass(reader, upstream_writer), self._pass(upstream_reader, writer))
        finally:
            for one in pair:
                one.close()
            self._writers -= pair

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(65536):
                if writer not in self._dead:
                    writer.write(chunk)
                    await writer.drain()
        if writer not in self._dead:
            writer.close()
