"""What is wrong with a pool: provoked on a real cluster, mended by the lines that are told, and gone."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.integration.cli_support import H100, write_catalog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab import Cluster, Node
    from tests.integration.doctor.support import Doctor

pytestmark = pytest.mark.lab

OTHER_UID = "11111111-2222-3333-4444-555555555555"
NAMELESS = {
    "metadata": {
        "labels": {
            "nvidia.com/gpu.product": None,
            "nvidia.com/gpu.machine": None,
            "node.kubernetes.io/instance-type": None,
        }
    }
}


def entry_of(catalog: Path) -> dict[str, Any]:
    """Return the only pool of a catalogue, as it is written."""
    (entry,) = yaml.safe_load(catalog.read_text())["pools"]
    return dict(entry)


def test_nothing_is_found_where_nothing_is_wrong(healthy: Path, ask: Callable[..., Doctor]) -> None:
    """The other tests start from here."""
    assert ask(healthy).findings() == []


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        pytest.param(
            {"cluster_uid": OTHER_UID},
            "WrongCluster",
            marks=pytest.mark.provokes("WrongCluster"),
            id="another cluster",
        ),
        pytest.param(
            {"node_selector": {"gpu": "yes"}},
            "NoNodeMatches",
            marks=pytest.mark.provokes("NoNodeMatches"),
            id="no such label",
        ),
        pytest.param(
            {"gpu": {"model": "A100"}},
            "SignalContradictsCatalog",
            marks=pytest.mark.provokes("SignalContradictsCatalog"),
            id="another model",
        ),
        pytest.param(
            {"gpu": {"model": "H100", "memory_gb": 94, "per_node": 4}},
            "SignalContradictsCatalog",
            id="another memory and size",
        ),
        pytest.param({"region": "moon"}, "SignalContradictsCatalog", id="another region"),
    ],
)
def test_a_pool_is_mended_by_the_lines_that_are_told(
    healthy: Path, ask: Callable[..., Doctor], changes: dict[str, Any], want: str
) -> None:
    """One mistake in the catalogue makes one finding."""
    asked = ask(write_catalog(healthy, {**entry_of(healthy), **changes}))
    (finding,) = asked.findings()
    assert finding["id"] == want
    asked.write(finding)
    assert asked.findings() == []


@pytest.mark.provokes("PriceMissing")
def test_a_price_is_asked_for(healthy: Path, ask: Callable[..., Doctor]) -> None:
    """Only a person knows it: the rest of the lines is pasted as it is, and unfilled they are refused."""
    asked = ask(write_catalog(healthy, {**entry_of(healthy), "price": None}))
    (finding,) = asked.findings()
    assert finding["id"] == "PriceMissing"
    assert finding["fix"]["fill_in"]["<USD>"].startswith("what one GPU costs for an hour in USD")
    asked.write(finding, USD="<USD>")
    assert [one["id"] for one in asked.findings()] == ["CatalogInvalid"]
    asked.write(finding, USD="2.5")
    assert asked.findings() == []
    assert entry_of(healthy)["price"] == {"gpu_hour_usd": 2.5}


@pytest.mark.provokes("GpuUnknown")
def test_a_model_is_asked_for(
    cluster: Cluster, healthy: Path, spare_node: Callable[[], Node], ask: Callable[..., Doctor]
) -> None:
    """What the program that is named prints on the node can be pasted as it is."""
    node = spare_node()
    cluster.api.patch(f"/api/v1/nodes/{node.name}", NAMELESS)
    spare = {**entry_of(healthy), "node_selector": {"kubernetes.io/hostname": node.name}}
    asked = ask(write_catalog(healthy, spare))
    (finding,) = asked.findings()
    assert finding["id"] == "GpuUnknown"
    assert f"prints on {node.name}" in finding["fix"]["fill_in"]["<MODEL>"]
    asked.write(finding, MODEL="<MODEL>")
    assert [one["id"] for one in asked.findings()] == ["CatalogInvalid"]
    asked.write(finding, MODEL="NVIDIA H100 80GB HBM3")
    assert asked.findings() == []


@pytest.mark.provokes("TaintNotTolerated")
def test_a_taint_is_tolerated_by_the_lines_that_are_told(
    cluster: Cluster, healthy: Path, spare_node: Callable[[], Node], ask: Callable[..., Doctor]
) -> None:
    """The node is changed as its owner would change it; the catalogue follows."""
    node = spare_node()
    taint = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    cluster.api.patch(f"/api/v1/nodes/{node.name}", {"spec": {"taints": [taint]}})
    spare = {**entry_of(healthy), "node_selector": {"kubernetes.io/hostname": node.name}}
    asked = ask(write_catalog(healthy, spare))
    (finding,) = asked.findings()
    assert finding["id"] == "TaintNotTolerated"
    asked.write(finding)
    assert asked.findings() == []


@pytest.mark.parametrize(
    ("said", "told"),
    [
        pytest.param("on_demand", {"karpenter.sh/capacity-type": "spot"}, id="Karpenter"),
        pytest.param("reserved", {"cloud.google.com/gke-spot": "true"}, id="GKE"),
        pytest.param("on_demand", {"cloud.google.com/gke-provisioning": "spot"}, id="GKE, the newer label"),
        pytest.param("spot", {"eks.amazonaws.com/capacityType": "ON_DEMAND"}, id="EKS"),
        pytest.param("on_demand", {"kubernetes.azure.com/scalesetpriority": "spot"}, id="AKS"),
    ],
)
@pytest.mark.provokes("SignalContradictsCatalog")
def test_a_pool_is_bought_as_its_nodes_say(
    cluster: Cluster,
    healthy: Path,
    spare_node: Callable[[], Node],
    ask: Callable[..., Doctor],
    said: str,
    told: dict[str, str],
) -> None:
    """The labels of each cloud are read."""
    node = spare_node()
    cluster.api.patch(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": told}})
    here = {"kubernetes.io/hostname": node.name}
    asked = ask(write_catalog(healthy, {**entry_of(healthy), "capacity_type": said, "node_selector": here}))
    (finding,) = asked.findings()
    assert finding["what"].startswith(f"capacity_type is {said}, but the labels of its nodes say ")
    asked.write(finding)
    assert asked.findings() == []


def label_apart(
    cluster: Cluster, spare_node: Callable[[], Node], key: str, *values: str | None
) -> dict[str, str]:
    """Add a node for each value of a label; return what selects all of them and no other."""
    team = {"team": f"t-{uuid.uuid4().hex[:6]}"}
    for value in values:
        node = spare_node()
        cluster.api.patch(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": {**team, key: value}}})
    return team


@pytest.mark.parametrize(
    ("key", "firm", "spot"),
    [
        pytest.param("karpenter.sh/capacity-type", "on-demand", "spot", id="Karpenter"),
        pytest.param("cloud.google.com/gke-provisioning", "standard", "spot", id="GKE"),
        pytest.param("eks.amazonaws.com/capacityType", "ON_DEMAND", "SPOT", id="EKS"),
        pytest.param("kubernetes.azure.com/scalesetpriority", "regular", "spot", id="AKS"),
    ],
)
@pytest.mark.provokes("CapacityTypesMixed")
def test_a_pool_of_spot_and_other_nodes_is_split(
    cluster: Cluster,
    healthy: Path,
    spare_node: Callable[[], Node],
    ask: Callable[..., Doctor],
    key: str,
    firm: str,
    spot: str,
) -> None:
    """The lines can be pasted as they are but for the price of the new pool, which is refused until then."""
    team = label_apart(cluster, spare_node, key, firm, spot)
    asked = ask(write_catalog(healthy, {**entry_of(healthy), "node_selector": team}))
    (finding,) = asked.findings()
    assert (finding["id"], finding["fix"]["kind"]) == ("CapacityTypesMixed", "catalog")
    asked.write(finding, USD_SPOT="<USD_SPOT>")
    assert [one["id"] for one in asked.findings()] == ["CatalogInvalid"]
    asked.write(finding, USD_SPOT="0.8")
    assert asked.findings() == []
    first, second = yaml.safe_load(healthy.read_text())["pools"]
    assert (first["name"], first["node_selector"]) == ("h100", {**team, key: firm})
    assert (second["name"], second["capacity_type"]) == ("h100-spot", "spot")
    assert (second["namespace"], second["node_selector"]) == (first["namespace"], {**team, key: spot})


@pytest.mark.provokes("RegionsMixed")
def test_a_pool_of_nodes_in_two_regions_is_split(
    cluster: Cluster, healthy: Path, spare_node: Callable[[], Node], ask: Callable[..., Doctor]
) -> None:
    """Nothing could be said of where its jobs run."""
    team = label_apart(cluster, spare_node, "topology.kubernetes.io/region", "north", "south")
    asked = ask(write_catalog(healthy, {**entry_of(healthy), "node_selector": team}))
    (finding,) = asked.findings()
    assert finding["id"] == "RegionsMixed"
    asked.write(finding, USD_SOUTH="3")
    assert asked.findings() == []
    regions = {one["name"]: one["region"] for one in yaml.safe_load(healthy.read_text())["pools"]}
    assert regions == {"h100": "north", "h100-south": "south"}


@pytest.mark.provokes("PoolsOverlap")
def test_pools_of_the_same_nodes_are_told_apart(
    cluster: Cluster, healthy: Path, spare_node: Callable[[], Node], ask: Callable[..., Doctor]
) -> None:
    """The wider pool is narrowed to the nodes that the other leaves."""
    node = spare_node()
    labels = {"node.kubernetes.io/instance-type": "dgx-b"}
    cluster.api.patch(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": labels}})
    entry = entry_of(healthy)
    asked = ask(write_catalog(healthy, entry, {**entry, "name": "spare", "node_selector": labels}))
    (finding,) = asked.findings()
    assert (finding["id"], finding["fix"]["pool"]) == ("PoolsOverlap", "h100")
    asked.write(finding)
    assert asked.findings() == []
    (wide, _) = yaml.safe_load(healthy.read_text())["pools"]
    assert wide["node_selector"] == {**H100, "node.kubernetes.io/instance-type": "dgx-h100"}
