"""What tests of streams share: a followed job on a scripted server, and what is known of it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.watch.cluster import ClusterKey, shared_watch
from airflow_gpu_placement.watch.followed import JobRef
from tests.integration.scripted_api import NAMESPACE, ScriptedApi

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.watch.cluster import ClusterWatch


REF = JobRef(NAMESPACE, "gp-a", "uid-a")
PATIENCE_SECONDS = 20.0


def pod(name: str, phase: str = "Running", **status: Any) -> dict[str, Any]:
    """Return a pod of the followed job on node n1."""
    labels = {"batch.kubernetes.io/controller-uid": REF.uid}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}", "labels": labels},
        "spec": {"nodeName": "n1"},
        "status": {"phase": phase, **status},
    }


def node(name: str, **status: Any) -> dict[str, Any]:
    """Return a node that is ready."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "status": {**ready, **status}}


@contextlib.asynccontextmanager
async def watching(api: ScriptedApi, open_cluster: OpenCluster | None = None) -> AsyncIterator[ClusterWatch]:
    """Follow the job, with its streams open or on their way."""
    api.items["jobs"] = [{"metadata": {"name": REF.name, "namespace": NAMESPACE, "uid": REF.uid}}]
    key = ClusterKey("scripted")
    async with (
        api.running(),
        shared_watch(key, open_cluster or api.open_cluster) as watch,
    ):
        with watch.track(REF):
            yield watch


def phases(watch: ClusterWatch) -> dict[str, str]:
    """Return the phase of every pod that is known of the job."""
    return {one.metadata.name: one.status.phase for one in watch.observe(REF).pods}
