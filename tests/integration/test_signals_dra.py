"""GPUs that a real cluster offers through Dynamic Resource Allocation, and clusters that have none of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from aiohttp import web

from airflow_gpu_placement.model.pool import ClusterRef, GpuPool
from airflow_gpu_placement.signals.collect import collect
from airflow_gpu_placement.signals.state import read_state
from tests.integration.cluster_support import pool_of, utc_now
from tests.integration.test_signals import signals_of
from tests.integration.test_signals_client import talking_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.clusters.client import ClusterClient
    from lab import Cluster, Node

pytestmark = pytest.mark.asyncio

DRIVER = "gpu.nvidia.com"
API = "/apis/resource.k8s.io/v1"


def resource_slice(name: str, node: str, *, count: int = 1) -> dict[str, Any]:
    """Build a slice with two GPUs as NVIDIA's driver writes them."""
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {"type": {"string": "gpu"}, "productName": {"string": "NVIDIA H100 80GB HBM3"}},
            "capacity": {"memory": {"value": "81559Mi"}},
        }
        for index in range(2)
    ]
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": count},
            "devices": devices,
        },
    }


def device_class(name: str, resource: str) -> dict[str, Any]:
    """Build the class of whole GPUs under the name of an extended resource."""
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"
    selectors = [{"cel": {"expression": expression}}]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors, "extendedResourceName": resource}}


@pytest.mark.lab
async def test_slices_of_a_real_api_server_are_read(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """On a node without the resource of a device plugin; a claim that has a device takes it."""
    node = spare_node()
    resource = f"dra-{namespace}.example/gpu"
    pool = pool_of(cluster, namespace, node_selector={"kubernetes.io/hostname": node.name})
    pool = msgspec.structs.replace(pool, gpu=msgspec.structs.replace(pool.gpu, resource_name=resource))
    try:
        cluster.api.post(f"{API}/deviceclasses", device_class(namespace, resource))
        cluster.api.post(f"{API}/resourceslices", resource_slice(namespace, node.name))
        signals = await signals_of(cluster, pool)
        (seen,) = signals.nodes
        assert (seen.capacity, seen.free, seen.unusable_because) == (2, 2, None)
        assert signals.source.startswith("nodes, resource slices and pods of ")
        assert signals.latency_seconds is not None
        assert signals.latency_seconds > 0
        await asyncio.to_thread(_claim, cluster, namespace, node.name)
        (seen,) = (await signals_of(cluster, pool)).nodes
        assert (seen.used, seen.free) == (1, 1)
    finally:
        cluster.api.delete(f"{API}/resourceslices/{namespace}")
        cluster.api.delete(f"{API}/deviceclasses/{namespace}")


def _claim(cluster: Cluster, namespace: str, node: str) -> None:
    """Make a claim and allocate a device to it, as the scheduler would."""
    exactly = {"deviceClassName": namespace}
    claim = {
        "metadata": {"name": "mine"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    path = f"{API}/namespaces/{namespace}/resourceclaims"
    cluster.api.post(path, claim)
    result = {"request": "gpu", "driver": DRIVER, "pool": node, "device": "gpu-0"}
    cluster.api.patch(f"{path}/mine/status", {"status": {"allocation": {"devices": {"results": [result]}}}})


async def _plain_cluster(request: web.Request) -> web.StreamResponse:
    """Answer as an old API server: nodes and pods, and no such API."""
    path = request.path
    if path == "/api/v1/namespaces/kube-system":
        return web.json_response({"metadata": {"uid": "u"}})
    if path in {"/api/v1/nodes", "/api/v1/pods"}:
        return web.json_response({"metadata": {}, "items": []})
    return web.json_response({"code": 404, "message": "no such API"}, status=404)


async def test_a_cluster_without_dra_has_none() -> None:
    """Not found is an answer."""
    async with talking_to(_plain_cluster) as client:
        state = await read_state(client, utc_now)
    assert state.dra is not None
    assert (state.dra.slices, state.dra_problem) == ((), None)


@pytest.mark.parametrize(
    ("served", "asked"), [(("v1", "v1beta1"), "v1"), (("v1beta1", "v1beta2"), "v1beta2")]
)
async def test_the_best_version_that_is_served_is_asked(served: tuple[str, ...], asked: str) -> None:
    """And where there are no slices nothing else is."""
    paths: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/apis/resource.k8s.io"):
            paths.append(request.path)
        if request.path == "/apis/resource.k8s.io":
            return web.json_response({"versions": [{"version": one} for one in served]})
        if request.path.endswith("/resourceslices"):
            return web.json_response({"metadata": {}, "items": []})
        return await _plain_cluster(request)

    async with talking_to(handle) as client:
        await read_state(client, utc_now)
    assert paths == ["/apis/resource.k8s.io", f"/apis/resource.k8s.io/{asked}/resourceslices"]


async def test_dra_that_may_not_be_read_takes_nothing_else_along() -> None:
    """Nodes and pods are there, and the problem is told."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/apis/resource.k8s.io"):
            return web.json_response({"code": 403, "message": "you may not"}, status=403)
        return await _plain_cluster(request)

    async with talking_to(handle) as client:
        state = await read_state(client, utc_now)
    assert state.dra is None
    assert "you may not" in (state.dra_problem or "")


@pytest.mark.parametrize(("offered", "warned"), [("8", False), ("0", True)])
async def test_unread_dra_is_told_only_where_it_may_matter(offered: str, warned: bool) -> None:
    """A node with a GPU label and no devices may have them there; one with a device plugin has not."""
    node = {
        "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": "NVIDIA-L4"}},
        "status": {
            "capacity": {"nvidia.com/gpu": offered},
            "allocatable": {"nvidia.com/gpu": offered},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path == "/api/v1/nodes":
            return web.json_response({"metadata": {}, "items": [node]})
        if request.path.startswith("/apis/resource.k8s.io"):
            return web.json_response({"code": 403, "message": "you may not"}, status=403)
        return await _plain_cluster(request)

    async with talking_to(handle) as client:

        async def open_cluster(_: str, __: str | None) -> ClusterClient:
            return client

        pool = GpuPool(name="p", cluster=ClusterRef(kubernetes_conn_id="c"))
        snapshot = await collect([pool], open_cluster, deadline_seconds=10, clock=utc_now)
    warnings = snapshot.pools["p"].warnings
    assert any(text.startswith("GPUs offered through DRA are not seen: ") for text in warnings) is warned
