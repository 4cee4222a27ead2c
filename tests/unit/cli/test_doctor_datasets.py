"""What the doctor says of data that is in a region where no pool is said to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.catalog.seen_nodes import SeenNodes
from airflow_gpu_placement.cli.doctor.check_datasets import check_datasets
from airflow_gpu_placement.cli.doctor.read import ClusterKey, ClusterReading
from tests.unit.cli.nodes import node

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_gpu_placement.cli.doctor.finding import Finding

IN_US = "us-central1"  # what the labels of the nodes say


def found(
    folder: Path, locations: list[str], *pools: dict[str, Any], uid: str = "uid-1", silent: bool = False
) -> list[Finding]:
    """Check one dataset in these locations beside pools of one cluster, one of whose nodes may be silent."""
    path = folder / "gpu.yaml"
    entries = [{"kubernetes_conn_id": "c", **pool} for pool in pools]
    data = [{"name": "images", "size_gib": 1, "locations": locations}]
    path.write_text(yaml.safe_dump({"version": 1, "pools": entries, "datasets": data}))
    catalog = load(path)
    quiet = {"topology.kubernetes.io/region": ""} if silent else {}
    seen = SeenNodes((node("n"), node("m", labels=quiet)))
    reading = ClusterReading(key=ClusterKey("c"), pools=catalog.pools, uid=uid, seen=seen)
    return check_datasets(catalog, [reading])


def test_pools_get_the_region_of_their_nodes(tmp_path: Path) -> None:
    """Where one node does not tell it; each location is a finding of its own, in the order of the file."""
    pools = ({"name": "a"}, {"name": "b"}, {"name": "e", "region": "eu"})
    first, second = found(tmp_path, [IN_US, "eu", "moon"], *pools, silent=True)
    region = {"region": IN_US}
    assert yaml.safe_load(first.fix) == {"pools": [{"name": "a", **region}, {"name": "b", **region}]}
    assert first.where == f"{tmp_path / 'gpu.yaml'}:datasets[0].locations[0]"
    assert second.where.endswith("datasets[0].locations[2]")
    assert found(tmp_path, [IN_US], {"name": "a", **region}, silent=True) == []


def test_data_where_the_nodes_are_is_near(tmp_path: Path) -> None:
    """A decision takes their word when all of them tell, so that there is nothing to write."""
    assert found(tmp_path, [IN_US], {"name": "a"}) == []
    (finding,) = found(tmp_path, [IN_US], {"name": "a", "region": "eu"})
    assert finding.id == "CatalogDoubtful"


@pytest.mark.parametrize(
    ("location", "pools", "want", "asked"),
    [
        pytest.param("EU_West_1", [{"name": "a", "region": "eu-west-1"}], "eu-west-1", [], id="a slip"),
        pytest.param(
            "eu-west-2",
            [{"name": "a", "region": "eu-west-1"}],
            "<REGION>",
            [("<REGION>", f"region that really has the data; regions of pools: eu-west-1, home, {IN_US}")],
            id="another region of nearly the same name",
        ),
        pytest.param(
            "moon",
            [{"name": "a"}],
            "<REGION>",
            [("<REGION>", f"region that really has the data; regions of pools: home, {IN_US}")],
            id="a pool whose nodes are elsewhere",
        ),
    ],
)
def test_the_location_is_corrected_or_asked_for(
    tmp_path: Path, location: str, pools: list[dict[str, Any]], want: str, asked: list[tuple[str, str]]
) -> None:
    """The other locations stay; a region is only replaced by itself in another spelling."""
    (finding,) = found(tmp_path, ["home", location], {"name": "h", "region": "home"}, *pools)
    assert yaml.safe_load(finding.fix) == {"datasets": [{"name": "images", "locations": ["home", want]}]}
    assert list(finding.fill_in) == asked


def test_nodes_of_another_cluster_say_nothing(tmp_path: Path) -> None:
    """Then a person has to say which pool is there."""
    pools = ({"name": "a", "cluster_uid": "uid-2"}, {"name": "b", "cluster_uid": "uid-2"})
    (finding,) = found(tmp_path, [IN_US], *pools)
    assert yaml.safe_load(finding.fix) == {"pools": [{"name": "<POOL>", "region": IN_US}]}
    assert finding.fill_in == (("<POOL>", f"name of the pool that is in {IN_US}: a or b"),)
