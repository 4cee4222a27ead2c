"""The pools of a live cluster as a catalogue, which then decides as one written by hand does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.cli.discover import discover_pools
from airflow_gpu_placement.cli.place import place
from airflow_gpu_placement.exceptions import GpuPlacementError
from airflow_gpu_placement.model.pool import CapacityType
from lab import ClusterSpec, Lab, LabSpec, NodeSpec
from tests.integration.cli_support import (
    AirflowHome,
    arguments,
    connection,
    pool_entry,
    write_catalog,
)
from tests.integration.cluster_support import opener

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab import Cluster

pytestmark = pytest.mark.lab

SPOT = {"cloud.google.com/gke-provisioning": "spot", "cloud.google.com/gke-spot": "true"}
SPEC = LabSpec(
    (
        ClusterSpec(
            "gke",
            (
                NodeSpec("a1", "gke-a100-80", renew_seconds=2),
                NodeSpec("a2", "gke-a100-80", renew_seconds=2),
                NodeSpec("s1", "gke-a100-80", labels=SPOT, renew_seconds=2),
                NodeSpec("l1", "gke-l4", gpus=4, renew_seconds=2),
            ),
        ),
    )
)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a cluster with three kinds of GPU nodes."""
    with Lab.up(SPEC, name="discover", home=tmp_path_factory.mktemp("labs")) as running:
        yield running.cluster("gke")


def discovered(cluster: Cluster, out: Path) -> Path:
    """Write the pools of a cluster to a file."""
    args = arguments(conn_id="gpu", context=None, namespace="training", out=str(out))
    assert discover_pools(args, opener(cluster)) == 0
    return out


def verdicts(
    cluster: Cluster, catalog: Path, capsys: pytest.CaptureFixture[str], **request: Any
) -> tuple[int, str | None, dict[str, tuple[str, list[str]]]]:
    """Decide, and return the code, the chosen pool, and each pool's verdict with its reason codes."""
    capsys.readouterr()
    code = place(arguments(catalog=str(catalog), **request), opener(cluster))
    record = json.loads(capsys.readouterr().out)
    found = {
        one["pool"]: (one["verdict"], [reason["code"] for reason in one["reasons"]])
        for one in record["verdicts"]
    }
    return code, record["chosen"], found


def by_hand(mixed: Cluster, path: Path) -> Path:
    """Write the catalogue of the same cluster as a person would, without prices."""
    on_demand = {
        "cloud.google.com/gke-accelerator": "nvidia-a100-80gb",
        "cloud.google.com/gke-provisioning": "standard",
    }
    spot = {**on_demand, "cloud.google.com/gke-provisioning": "spot"}
    l4 = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    common = {
        "price": None,
        "namespace": "training",
        "cluster_uid": mixed.uid,
        "cloud": "gcp",
        "region": "us-central1",
        "zone": "us-central1-a",
    }
    return write_catalog(
        path,
        pool_entry("gpu-a100-on-demand", node_selector=on_demand, **common),
        pool_entry("gpu-a100-spot", node_selector=spot, capacity_type="spot", **common),
        pool_entry("gpu-l4", node_selector=l4, **common),
    )


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param({"gpus_per_node": "8", "nodes": "2"}, id="two whole nodes"),
        pytest.param({"gpus_per_node": "8", "nodes": "3"}, id="more nodes than any pool has"),
        pytest.param({"gpus_per_node": "4", "model": ["L4"]}, id="a small model"),
        pytest.param({"model": ["A100"], "capacity_type": ["spot"]}, id="spot only"),
        pytest.param({"model": ["B200"]}, id="a model that is nowhere"),
        pytest.param({"min_memory_gb": "40", "denied_region": ["us-central1"]}, id="elsewhere only"),
    ],
)
def test_it_decides_as_a_catalogue_written_by_hand(
    mixed: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], request_: dict[str, Any]
) -> None:
    """Same chosen pool, same verdict and reasons for each, same exit code."""
    found = discovered(mixed, tmp_path / "found.yaml")
    written = by_hand(mixed, tmp_path / "written.yaml")
    assert verdicts(mixed, found, capsys, **request_) == verdicts(mixed, written, capsys, **request_)


def test_a_file_is_never_overwritten(mixed: Cluster, tmp_path: Path) -> None:
    """What a person filled in by hand is not lost to a second run."""
    path = discovered(mixed, tmp_path / "found.yaml")
    before = path.read_text()
    with pytest.raises(GpuPlacementError, match=r"found\.yaml exists already; name another file with --out"):
        discovered(mixed, path)
    assert path.read_text() == before


def test_the_command_writes_a_catalogue_to_standard_output(cluster: Cluster, tmp_path: Path) -> None:
    """The real command in a process of its own; what it prints can be used as it is."""
    home = AirflowHome(tmp_path / "airflow", {"gpu": connection(cluster)})
    ran = home.run("discover", "--conn-id", "gpu")
    assert ran.returncode == 0, ran.stderr
    path = tmp_path / "found.yaml"
    path.write_text(ran.stdout)
    (pool,) = load(path).pools
    assert (pool.name, pool.cluster.uid, pool.capacity_type) == (
        "gpu-h100",
        cluster.uid,
        CapacityType.RESERVED,
    )
