"""The reaper as a task of a DAG, against a real cluster and one that does not answer."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import msgspec
import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from airflow_gpu_placement.exceptions import GpuPlacementError
from airflow_gpu_placement.launch.job import jobs_path
from airflow_gpu_placement.launch.manifest import manifest
from airflow_gpu_placement.operators.reaper_task import reap_in_task
from tests.integration.cli_support import connection, pool_entry, write_catalog
from tests.integration.cluster_support import pool_of, spec_of

if TYPE_CHECKING:
    from pathlib import Path

    from lab import Cluster

pytestmark = pytest.mark.lab

GONE_SECONDS = 30.0


def test_what_can_be_reaped_is_before_the_task_fails_for_the_rest(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that cannot be read is an error that names it, told when all others are done."""
    dark = cluster.kubeconfig()
    dark["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:9"  # discard: nothing listens there
    off = {"conn_type": "kubernetes", "extra": {"kube_config": json.dumps(dark)}}
    catalog = write_catalog(
        tmp_path / "c.yaml",
        pool_entry("dark", kubernetes_conn_id="dark", namespace=namespace),
        pool_entry("h100", namespace=namespace),
    )
    monkeypatch.setenv("AIRFLOW_CONN_GPU", json.dumps(connection(cluster)))
    monkeypatch.setenv("AIRFLOW_CONN_DARK", json.dumps(off))
    monkeypatch.setenv("AIRFLOW__GPU_PLACEMENT__CATALOG", str(catalog))
    monkeypatch.setenv("AIRFLOW__GPU_PLACEMENT__INSTALLATION", "prod")
    monkeypatch.setattr(RuntimeTaskInstance, "get_dr_count", lambda **_: 0)
    spec = spec_of(pool_of(cluster, namespace), "trap 'exit 0' TERM; sleep 600 & wait")
    body = json.loads(msgspec.json.encode(manifest(spec)[0]))
    body["metadata"]["labels"]["airflow-gpu-placement/installation"] = "prod"
    cluster.api.post(jobs_path(namespace), body)

    with pytest.raises(GpuPlacementError) as told:
        reap_in_task(delete=True, min_age_minutes=0)
    first, *problems = str(told.value).splitlines()
    assert first == "not everything could be looked at and withdrawn:"
    assert len(problems) == 1
    assert problems[0].startswith(f"connection 'dark', namespace {namespace!r} was not read: ")
    until = time.monotonic() + GONE_SECONDS
    while cluster.api.get(jobs_path(namespace))["items"]:  # its pods end first
        assert time.monotonic() < until, "the job is still there"
        time.sleep(0.1)
