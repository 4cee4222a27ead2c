"""A gateway that asks for any wait at all: a worker is held by it for seconds, not for days."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from airflow_gpu_placement.clusters import errors
from airflow_gpu_placement.exceptions import ClusterError
from airflow_gpu_placement.launch import job as launching
from airflow_gpu_placement.launch.job import create
from airflow_gpu_placement.model.pool import ClusterRef, GpuPool
from tests.integration.cluster_support import spec_of
from tests.integration.test_signals_client import talking_to

if TYPE_CHECKING:
    from airflow_gpu_placement.launch.spec import LaunchSpec

pytestmark = pytest.mark.asyncio


def spec(nodes: int) -> LaunchSpec:
    """Return a launch anywhere."""
    pool = GpuPool(name="p", cluster=ClusterRef(kubernetes_conn_id="c", namespace="n"))
    return spec_of(pool, "true", nodes=nodes, gpus_per_node=1)


@pytest.mark.parametrize("wish", ["86400", "inf", "Wed, 21 Oct 2037 07:28:00 GMT", "nan", "-1", "soon"])
@pytest.mark.parametrize("refused", ["jobs", "services"])
async def test_a_create_call_waits_no_longer_than_it_may(
    monkeypatch: pytest.MonkeyPatch, wish: str, refused: str
) -> None:
    """It is tried four times with bounded pauses, whatever the server wishes, and then given up."""
    monkeypatch.setattr(errors, "LONGEST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(launching, "_PAUSE_SECONDS", 0.05)
    posts: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.json_response({"metadata": {"uid": "u"}})
        posts.append(request.path.rsplit("/", 1)[-1])
        if posts[-1] == refused:
            return web.Response(status=503, headers={"Retry-After": wish}, text="no healthy upstream")
        return web.json_response({"metadata": {"name": "j", "uid": "u"}}, status=201)

    async with talking_to(handle) as client, asyncio.timeout(10):
        with pytest.raises(ClusterError, match="no healthy upstream"):
            await create(client, spec(nodes=2), expected_uid=None)
    assert posts.count(refused) == 4


async def test_the_longest_wait_is_half_a_minute() -> None:
    """A shorter wish is obeyed."""
    asked = [errors.from_answer("GET x", 429, b"", {"Retry-After": wish}) for wish in ("7", "86400", "soon")]
    assert [errors.pause_seconds(error, 1.0) for error in asked] == [7.0, 30.0, 1.0]
