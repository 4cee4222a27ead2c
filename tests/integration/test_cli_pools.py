"""The live table of pools."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.cli.pools import pools
from tests.integration.cli_support import (
    AirflowHome,
    arguments,
    connection,
    pool_entry,
    write_catalog,
)
from tests.integration.cluster_support import opener

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab import Cluster, Node

pytestmark = pytest.mark.lab


def test_each_pool_has_a_row_of_what_is_there(
    cluster: Cluster, spare_node: Callable[[], Node], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A cordoned node counts among the GPUs but not among the free ones; a wrong cluster is a problem."""
    node = spare_node()
    cluster.api.patch(f"/api/v1/nodes/{node.name}", {"spec": {"unschedulable": True}})
    path = write_catalog(
        tmp_path / "c.yaml",
        pool_entry("spare", node_selector={"kubernetes.io/hostname": node.name}, price=None),
        pool_entry("first", node_selector={"kubernetes.io/hostname": "h100-1"}),
        pool_entry("elsewhere", cluster_uid="11111111-2222-3333-4444-555555555555"),
    )
    assert pools(arguments(catalog=str(path), gpus_per_node=3), opener(cluster)) == 0
    spare, first, elsewhere = json.loads(capsys.readouterr().out)
    assert (spare["nodes"], spare["usable"], spare["gpus"], spare["free"]) == (1, 0, 8, 0)
    assert (spare["gang"], spare["usd_gpu_hour"]) == (0, None)
    assert spare["problem"] == f"{node.name}: cordoned"
    assert (first["nodes"], first["usable"], first["gpus"]) == (1, 1, 8)
    assert first["gang"] == first["free"] // 3
    assert first["gpu"] == "H100 80 GB SXM"
    assert (elsewhere["nodes"], elsewhere["free"], elsewhere["gang"]) == (None, None, None)
    assert (elsewhere["waiting"], elsewhere["report"]) == (None, None)
    assert first["report"]["models"] == {"h100-1": "H100"}
    assert spare["report"]["reasons"] == [f"{node.name}: cordoned"]
    assert elsewhere["problem"].startswith("wrong_cluster: ")


def test_the_command_prints_a_table(cluster: Cluster, tmp_path: Path) -> None:
    """The real command in a process of its own."""
    home = AirflowHome(tmp_path / "airflow", {"gpu": connection(cluster)})
    path = write_catalog(tmp_path / "c.yaml", pool_entry("onprem-h100"))
    ran = home.run("pools", "--catalog", str(path))
    assert ran.returncode == 0, ran.stderr
    heading, _, row = ran.stdout.splitlines()[:3]
    assert heading.split("|")[0].strip() == "pool"
    assert row.split("|")[0].strip() == "onprem-h100"
    assert "H100 80 GB SXM" in row
