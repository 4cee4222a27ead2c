"""What is wrong with a file, the catalogue or a DAG: provoked, mended as told, and gone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.integration.cli_support import AirflowHome, connection, pool_entry, write_catalog
from tests.integration.doctor.support import paste

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab import Cluster, Node
    from tests.integration.doctor.support import Answers, Doctor

pytestmark = pytest.mark.lab

REGION = "topology.kubernetes.io/region"
DAG = """
from airflow.sdk import dag

from airflow_gpu_placement.operators import GpuTrainingJobOperator


@dag(schedule=None, default_args={"retries": 0})
def llm():
    GpuTrainingJobOperator(task_id="pretrain", gpu={}, image="i", command=["c"], retries=0)
    GpuTrainingJobOperator(
        task_id="tune",
        gpu={"gpus_per_node": 8},
        image="i",
        command=["c"],
    )


llm()
"""


@pytest.mark.provokes("CatalogMissing")
def test_a_missing_catalogue_is_made_by_the_command_that_is_told(
    cluster: Cluster, tmp_path: Path, ask: Callable[..., Doctor]
) -> None:
    """What the real discover writes lacks nothing but what only a person knows."""
    asked = ask(tmp_path / "none.yaml")
    (finding,) = asked.findings()
    assert finding["id"] == "CatalogMissing"
    airflow = AirflowHome(tmp_path / "airflow", {"gpu": connection(cluster)})
    paste(airflow, finding, cluster, CONN_ID="gpu")
    assert {one["id"] for one in asked.findings()} == {"PriceMissing"}


@pytest.mark.provokes("CatalogInvalid")
def test_a_misspelt_key_is_mended_by_the_command_that_is_told(
    cluster: Cluster, healthy: Path, airflow: AirflowHome, ask: Callable[..., Doctor]
) -> None:
    """The file is changed in its place."""
    healthy.write_text(healthy.read_text().replace("node_selector", "node_selektor"))
    asked = ask(healthy)
    (finding,) = asked.findings()
    assert finding["id"] == "CatalogInvalid"
    paste(airflow, finding, cluster)
    assert asked.findings() == []


def region_of(cluster: Cluster, node: str = "h100-1") -> str:
    """Return the region that a node's label tells."""
    return str(cluster.api.get(f"/api/v1/nodes/{node}")["metadata"]["labels"][REGION])


def with_data(catalog: Path, location: str, **changes: Any) -> Path:
    """Add a dataset to a catalogue of one pool, and change that pool."""
    document = yaml.safe_load(catalog.read_text())
    document["pools"][0].update(changes)
    document["datasets"] = [{"name": "images", "size_gib": 10, "locations": [location]}]
    catalog.write_text(yaml.safe_dump(document, sort_keys=False))
    return catalog


@pytest.mark.provokes("CatalogDoubtful")
def test_a_pool_gets_the_region_that_its_nodes_tell(
    cluster: Cluster, healthy: Path, spare_node: Callable[[], Node], ask: Callable[..., Doctor]
) -> None:
    """Data looks far away when a pool does not say where it is, nor does one of its nodes."""
    region = region_of(cluster)
    asked = ask(with_data(healthy, region))
    assert asked.findings() == []
    node = spare_node()
    cluster.api.patch(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": {REGION: None}}})
    (finding,) = asked.findings()
    assert (finding["id"], finding["where"]) == ("CatalogDoubtful", f"{healthy}:datasets[0].locations[0]")
    assert yaml.safe_load(finding["fix"]["text"]) == {"pools": [{"name": "h100", "region": region}]}
    asked.write(finding)
    assert asked.findings() == []


@pytest.mark.provokes("CatalogDoubtful")
def test_a_region_in_another_spelling_is_written_as_the_pool_has_it(
    cluster: Cluster, healthy: Path, ask: Callable[..., Doctor]
) -> None:
    """Regions are compared letter by letter."""
    region = region_of(cluster)
    asked = ask(with_data(healthy, region.upper(), region=region))
    (finding,) = asked.findings()
    assert (finding["id"], "fill_in" in finding["fix"]) == ("CatalogDoubtful", False)
    asked.write(finding)
    assert asked.findings() == []


@pytest.mark.provokes("CatalogDoubtful")
def test_a_region_far_from_every_pool_is_asked_for(
    cluster: Cluster, healthy: Path, ask: Callable[..., Doctor]
) -> None:
    """Nobody but a person knows where the data really is."""
    region = region_of(cluster)
    asked = ask(with_data(healthy, "moon", region=region))
    (finding,) = asked.findings()
    assert finding["fix"]["fill_in"] == {
        "<REGION>": f"region that really has the data; regions of pools: {region}"
    }
    asked.write(finding, REGION="<REGION>")
    assert [one["id"] for one in asked.findings()] == ["CatalogInvalid"]
    asked.write(finding, REGION=region)
    assert asked.findings() == []


@pytest.mark.provokes("CatalogDoubtful")
def test_a_pool_whose_region_nobody_tells_is_asked_for(
    cluster: Cluster, healthy: Path, spare_node: Callable[[], Node], ask: Callable[..., Doctor]
) -> None:
    """A data centre of one's own often has no such label."""
    node = spare_node()
    cluster.api.patch(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": {REGION: None}}})
    here = {"kubernetes.io/hostname": node.name}
    asked = ask(with_data(healthy, "cellar", node_selector=here))
    (finding,) = asked.findings()
    assert finding["fix"]["fill_in"] == {"<POOL>": "name of the pool that is in cellar: h100"}
    asked.write(finding, POOL="h100")
    assert asked.findings() == []


@pytest.mark.timeout(300)  # two Airflow commands
@pytest.mark.provokes("RetriesZero")
def test_retries_are_given_by_the_commands_that_are_told(
    cluster: Cluster, namespace: str, tmp_path: Path, answers: Answers
) -> None:
    """The real command parses the DAG file: one task says 0 itself, one takes it from the DAG's defaults."""
    airflow = AirflowHome(tmp_path / "airflow", {"gpu": connection(cluster)})
    file = airflow.home / "dags" / "llm.py"
    file.write_text(DAG)
    path = write_catalog(tmp_path / "c.yaml", pool_entry("h100", namespace=namespace))

    ran = airflow.run("doctor", "--dags", "--catalog", str(path), "-o", "json")

    assert ran.returncode == 1, ran.stderr
    findings = json.loads(ran.stdout)
    answers.note(findings)
    assert [(one["id"], one["where"]) for one in findings] == [
        ("RetriesZero", f"task llm.{task} in {file}") for task in ("pretrain", "tune")
    ]
    for finding in findings:
        paste(airflow, finding, cluster)
    ran = airflow.run("doctor", "--dags", "--catalog", str(path), "-o", "json")
    assert ran.returncode == 0, ran.stderr
    answers.note(json.loads(ran.stdout))
    assert answers.ids[-1] == []
