"""What is wrong with a pool: provoked on a real cluster, mended by the lines that are told, and gone."""

from __future__ import annotations

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
