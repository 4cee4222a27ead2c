"""What one more remote job costs a triggerer that watches many."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from airflow_gpu_placement.triggers.remote_job import RemoteJobTrigger
from tests.integration.cluster_support import until
from tests.integration.scripted_api import NAMESPACE, ScriptedApi

pytestmark = pytest.mark.asyncio

JOBS = 300
MOST_BYTES = 8_500
"""Of Python's objects alone; the memory of the process grows by some three thousand more."""

NOT_OF_THE_SERVER = tracemalloc.Filter(inclusive=False, filename_pattern="*aiohttp/web*")
"""The scripted server is part of this process."""

running: list[str] = []


class Trigger(RemoteJobTrigger):
    """A trigger that tells how far it has come."""

    def _tell(self, line: str) -> None:
        if " is running " in line:
            running.append(self.job_name)


def trigger(name: str, namespace: str) -> Trigger:
    """Return the trigger of a job of that name."""
    return Trigger(
        kubernetes_conn_id="scripted",
        context=None,
        cluster_uid="scripted",
        namespace=namespace,
        job_name=name,
        job_uid=f"uid-of-{name}",
        node_grace_seconds=120,
        cluster_grace_seconds=900,
        node_deletion_is_proof=False,
    )


def pod(name: str, namespace: str) -> dict[str, Any]:
    """Return a running pod as large as the API makes them."""
    began = "2026-01-05T10:00:00Z"
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "metadata": {
            "name": f"{name}-x",
            "namespace": namespace,
            "uid": f"uid-of-the-pod-of-{name}",
            "labels": {"batch.kubernetes.io/controller-uid": f"uid-of-{name}", "app": "training"},
            "annotations": {"words": "of somebody else " * 50},
            "creationTimestamp": began,
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": "main", "env": [{"name": "A", "value": "B" * 900}]}],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": one, "status": "True", "lastTransitionTime": began} for one in types],
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": began}}}],
        },
    }


def serve(api: ScriptedApi, names: list[str], namespace: str) -> None:
    """Let the cluster have these jobs, all of them running on one node."""
    api.items["nodes"] = [
        {"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    ]
    api.items["jobs"] = [
        {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-of-{name}"}} for name in names
    ]
    api.items["pods"] = [pod(name, namespace) for name in names]


async def test_a_job_that_runs_takes_a_few_kilobytes() -> None:
    """The first one, in a namespace of its own, loads what any number of them needs."""
    api = ScriptedApi()
    running.clear()
    serve(api, ["warm"], "other")
    async with api.running():
        watching = [asyncio.create_task(trigger("warm", "other").event(api.open_cluster))]
        await until(lambda: running == ["warm"], seconds=60, what="the first one is seen to run")
        names = [f"gp-{number:04}" for number in range(JOBS)]
        serve(api, names, NAMESPACE)
        gc.collect()
        tracemalloc.start()
        try:
            watching += [
                asyncio.create_task(trigger(name, NAMESPACE).event(api.open_cluster)) for name in names
            ]
            await until(lambda: len(running) == JOBS + 1, seconds=60, what="all are seen to run")
            await until(lambda: api.is_watched("pods"), seconds=60, what="the lists are let go of")
            gc.collect()
            ours = tracemalloc.take_snapshot().filter_traces([NOT_OF_THE_SERVER])
        finally:
            tracemalloc.stop()
            for task in watching:
                task.cancel()
            await asyncio.wait(watching)
    assert sum(one.size for one in ours.traces) / JOBS < MOST_BYTES
