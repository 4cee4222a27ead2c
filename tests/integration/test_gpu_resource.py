"""A pool of another vendor needs no word in the catalogue: jobs ask for GPUs by the name that nodes have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from aiohttp import web

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.cycle import decide
from airflow_gpu_placement.engine.place import replay
from airflow_gpu_placement.launch.manifest import manifest
from airflow_gpu_placement.model.decision import Decision, History
from airflow_gpu_placement.model.request import GpuRequest
from tests.integration.cluster_support import spec_of, utc_now
from tests.integration.test_signals_client import talking_to

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_gpu_placement.clusters.client import ClusterClient

pytestmark = pytest.mark.asyncio

NODE = {
    "metadata": {"name": "mi300x-1", "labels": {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}},
    "spec": {"taints": [{"key": "amd.com/gpu", "value": "present", "effect": "NoSchedule"}]},
    "status": {
        "capacity": {"amd.com/gpu": "8"},
        "allocatable": {"amd.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


async def _cluster(request: web.Request) -> web.StreamResponse:
    if request.path == "/api/v1/namespaces/kube-system":
        return web.json_response({"metadata": {"uid": "u"}})
    if request.path == "/api/v1/nodes":
        return web.json_response({"metadata": {}, "items": [NODE]})
    if request.path == "/api/v1/pods":
        return web.json_response({"metadata": {}, "items": []})
    return web.json_response({"code": 404, "message": "no such thing"}, status=404)


async def test_the_job_asks_for_the_resource_that_the_nodes_have(tmp_path: Path) -> None:
    """From the cluster's answer to the Job, its toleration included; the record is decided again alike."""
    path = tmp_path / "catalog.yaml"
    path.write_text("version: 1\npools:\n- {name: amd, kubernetes_conn_id: c}\n")
    async with talking_to(_cluster) as client:

        async def open_cluster(_: str, __: str | None) -> ClusterClient:
            return client

        decision = await decide(
            GpuRequest(models=("MI300X",), gpus_per_node=8),
            load(path),
            History(),
            subject="llm.train",
            open_cluster=open_cluster,
            deadline_seconds=10,
            clock=utc_now,
        )
    pool = decision.chosen_pool
    assert pool is not None
    assert decision.verdicts[0].free_gpus == 8
    pod = manifest(spec_of(pool, "true", gpus_per_node=8))[0]["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"] == {"amd.com/gpu": "8"}
    assert [one["key"] for one in pod["tolerations"]] == ["amd.com/gpu"]
    stored = msgspec.json.decode(msgspec.json.encode(decision), type=Decision)
    assert replay(stored).verdicts == decision.verdicts
