"""Pools whose nodes are bought in several ways, or lie in several regions: the lines told split them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.catalog.pool_entry import whole_entry
from airflow_gpu_placement.catalog.seen_nodes import SeenNodes
from airflow_gpu_placement.cli.doctor.check_mixed import check_mixed
from airflow_gpu_placement.cli.doctor.check_overlap import check_overlap
from airflow_gpu_placement.cli.doctor.check_pool import check_pool
from airflow_gpu_placement.cli.doctor.finding import FixKind
from airflow_gpu_placement.cli.doctor.read import ClusterKey, ClusterReading
from tests.unit.cli.nodes import matched, node

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_gpu_placement.cli.doctor.finding import Finding
    from airflow_gpu_placement.model.kube import Node
    from airflow_gpu_placement.model.pool import GpuPool

A100 = {"cloud.google.com/gke-accelerator": "nvidia-a100-80gb"}
GOOD: dict[str, Any] = {
    "name": "a",
    "kubernetes_conn_id": "c",
    "node_selector": A100,
    "price": {"gpu_hour_usd": 5, "source": "ours"},
}
KARPENTER = "karpenter.sh/capacity-type"
GKE_SPOT = "cloud.google.com/gke-spot"
GKE_KIND = "cloud.google.com/gke-provisioning"
NODE_POOL = "cloud.google.com/gke-nodepool"
REGION = "topology.kubernetes.io/region"


def bare(name: str, **labels: str) -> Node:
    """Build a node whose labels tell nothing of how it is bought beside these."""
    keys = {"karpenter": KARPENTER, "eks": "eks.amazonaws.com/capacityType", "pool": NODE_POOL}
    keys |= {"spot": GKE_SPOT, "kind": GKE_KIND, "aks": "kubernetes.azure.com/scalesetpriority"}
    keys |= {"region": REGION}
    told = {keys[key]: value for key, value in labels.items()}
    return node(name, labels={GKE_SPOT: "", GKE_KIND: "", NODE_POOL: "", **told})


def read(folder: Path, *entries: dict[str, Any]) -> tuple[GpuPool, ...]:
    """Write a catalogue of these entries and load it."""
    path = folder / "catalogue.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "pools": list(entries)}))
    return load(path).pools


def found(folder: Path, entry: dict[str, Any], *nodes: Node, taken: tuple[str, ...] = ()) -> list[Finding]:
    """Check one pool beside these nodes."""
    (pool,) = read(folder, entry)
    return check_mixed(pool, SeenNodes(nodes), ("a", *taken))


def split(entry: dict[str, Any], finding: Finding, **known: Any) -> list[dict[str, Any]]:
    """Carry the lines of a finding out: keys of the pool are replaced, and the new ones are added."""
    assert finding.kind is FixKind.CATALOG
    text = finding.fix
    assert {f"<{word}>" for word in known} == {place for place, _ in finding.fill_in}
    for word, value in known.items():
        text = text.replace(f"<{word}>", str(value))
    first, *others = yaml.safe_load(text)["pools"]
    assert first["name"] == entry["name"]
    return [{**entry, **first}, *others]


def all_findings(pools: tuple[GpuPool, ...], *nodes: Node) -> list[Finding]:
    """Return what the doctor says of pools and nodes."""
    seen = SeenNodes(nodes)
    names = [pool.name for pool in pools]
    reading = ClusterReading(key=ClusterKey("c"), pools=pools, uid="uid-1", seen=seen)
    each = [one for pool in pools for one in (*check_pool(pool, seen), *check_mixed(pool, seen, names))]
    return [*each, *check_overlap([reading])]


@pytest.mark.parametrize(
    ("said", "nodes", "parts"),
    [
        pytest.param(
            "on_demand",
            [bare("n1", karpenter="on-demand"), bare("n2", karpenter="spot"), bare("n3", karpenter="spot")],
            {"a": ("on_demand", {KARPENTER: "on-demand"}), "a-spot": ("spot", {KARPENTER: "spot"})},
            id="Karpenter",
        ),
        pytest.param(
            "spot",
            [bare("n1", eks="ON_DEMAND"), bare("n2", eks="SPOT")],
            {
                "a": ("spot", {"eks.amazonaws.com/capacityType": "SPOT"}),
                "a-on-demand": ("on_demand", {"eks.amazonaws.com/capacityType": "ON_DEMAND"}),
            },
            id="EKS, called spot",
        ),
        pytest.param(
            "on_demand",
            [bare("n1", aks="regular"), bare("n2", aks="spot")],
            {
                "a": ("on_demand", {"kubernetes.azure.com/scalesetpriority": "regular"}),
                "a-spot": ("spot", {"kubernetes.azure.com/scalesetpriority": "spot"}),
            },
            id="AKS",
        ),
        pytest.param(
            "on_demand",
            [bare("n1", pool="firm"), bare("n2", pool="cheap", spot="true", kind="spot")],
            {"a": ("on_demand", {NODE_POOL: "firm"}), "a-spot": ("spot", {GKE_SPOT: "true"})},
            id="GKE, of which only spot nodes say so",
        ),
        pytest.param(
            "reserved",
            [bare("n1", kind="standard"), bare("n2", kind="spot")],
            {"a": ("reserved", {GKE_KIND: "standard"}), "a-spot": ("spot", {GKE_KIND: "spot"})},
            id="a reservation that no label shows",
        ),
        pytest.param(
            "reserved",
            [
                bare("n1", karpenter="reserved"),
                bare("n2", karpenter="on-demand"),
                bare("n3", karpenter="spot"),
            ],
            None,
            id="three kinds, two of them as the catalogue says",
        ),
    ],
)
def test_a_pool_is_split_by_how_its_nodes_are_bought(
    tmp_path: Path, said: str, nodes: list[Node], parts: dict[str, tuple[str, dict[str, str]]] | None
) -> None:
    """The kind that the catalogue means keeps the name and the price; each other gets an entry of its own."""
    entry = {**GOOD, "capacity_type": said, "namespace": "training", "interruptions_per_gpu_hour": 0.1}
    results = found(tmp_path, entry, *nodes)
    (finding,) = results
    assert finding.id == "CapacityTypesMixed"
    if parts is None:
        assert finding.kind is FixKind.ADVICE
        assert "no lasting labels tell these nodes apart: reserved (n1, n2); spot (n3)" in finding.fix
        return
    (place,) = [place for place, _ in finding.fill_in]
    written = split(entry, finding, **{place.strip("<>"): 1.25})
    assert {one["name"]: (one["capacity_type"], one["node_selector"]) for one in written} == {
        name: (kind, {**A100, **labels}) for name, (kind, labels) in parts.items()
    }
    first, second = read(tmp_path, *written)
    assert (first.price.gpu_hour_usd, first.interruptions_per_gpu_hour) == (5, 0.1)
    assert (second.price.gpu_hour_usd, second.interruptions_per_gpu_hour) == (1.25, None)
    assert second.cluster == first.cluster
    assert all_findings((first, second), *nodes) == []


def test_a_pool_that_grows_is_told_how_far_each_part_may(tmp_path: Path) -> None:
    """Twice the old number would be promised else."""
    entry = {**GOOD, "max_nodes": 8, "gpu": {"model": "A100-80GB", "per_node": 8}}
    nodes = [bare("n1", karpenter="on-demand"), bare("n2", karpenter="spot")]
    (finding,) = found(tmp_path, entry, *nodes)
    written = split(entry, finding, NODES_ON_DEMAND=3, NODES_SPOT=5, USD_SPOT=1)
    assert [pool.growth.max_nodes for pool in read(tmp_path, *written)] == [3, 5]
    assert all_findings(read(tmp_path, *written), *nodes) == []


def test_a_new_name_is_new(tmp_path: Path) -> None:
    """The pool may have been split in half before."""
    nodes = [bare("n1", karpenter="on-demand"), bare("n2", karpenter="spot")]
    (finding,) = found(tmp_path, GOOD, *nodes, taken=("a-spot",))
    assert [one["name"] for one in yaml.safe_load(finding.fix)["pools"]] == ["a", "a-spot-2"]
    long = {**GOOD, "name": "a" * 63}
    (finding,) = found(tmp_path, long, *nodes)
    assert [len(one["name"]) for one in yaml.safe_load(finding.fix)["pools"]] == [63, 63]


def test_nodes_that_nothing_tells_apart_are_named(tmp_path: Path) -> None:
    """Only a person can give them a label."""
    (finding,) = found(tmp_path, GOOD, bare("n1"), bare("n2", spot="true"))
    assert (finding.id, finding.kind) == ("CapacityTypesMixed", FixKind.ADVICE)
    assert finding.fix.startswith(
        "no lasting labels tell these nodes apart: on_demand (n1); spot (n2); give each of these groups"
    )


def test_a_pool_is_split_by_region(tmp_path: Path) -> None:
    """Its largest part keeps the name when the catalogue says no region; nodes that do not tell stay out."""
    nodes = [bare("n1", region="us"), bare("n2", region="eu"), bare("n3", region="eu"), bare("n4", region="")]
    entry = {**GOOD, "cloud": "gcp"}
    (finding,) = found(tmp_path, entry, *nodes)
    assert (finding.id, finding.fill_in[0][0]) == ("RegionsMixed", "<USD_US>")
    written = split(entry, finding, USD_US=4)
    assert {one["name"]: (one["region"], one["node_selector"][REGION]) for one in written} == {
        "a": ("eu", "eu"),
        "a-us": ("us", "us"),
    }
    assert all_findings(read(tmp_path, *written), *nodes) == []
    (finding,) = found(tmp_path, {**entry, "region": "us"}, *nodes)
    assert [one["name"] for one in split(entry, finding, USD_EU=4)] == ["a", "a-eu"]


@pytest.mark.parametrize(
    ("entry", "nodes"),
    [
        pytest.param(GOOD, [bare("n1"), bare("n2")], id="nothing is told"),
        pytest.param(GOOD, [bare("n1", karpenter="on-demand"), bare("n2")], id="it is as it is said"),
        pytest.param(
            {**GOOD, "capacity_type": "spot"}, [bare("n1", karpenter="spot"), bare("n2")], id="all spot"
        ),
        pytest.param(
            {**GOOD, "capacity_type": "reserved"},
            [bare("n1", karpenter="on-demand"), bare("n2")],
            id="a reservation that no label shows",
        ),
        pytest.param({**GOOD, "max_nodes": 2, "gpu": {"per_node": 1}}, [], id="no node"),
    ],
)
def test_a_pool_of_one_kind_has_no_finding(tmp_path: Path, entry: dict[str, Any], nodes: list[Node]) -> None:
    """Neither has one that could not be looked at."""
    assert all_findings(read(tmp_path, entry), *nodes) == []
    assert check_mixed(read(tmp_path, entry)[0], None, ()) == []


def test_what_the_lines_select_is_what_they_name(tmp_path: Path) -> None:
    """Nodes of other pools with the same label stay where they are."""
    mine = [bare("n1", karpenter="on-demand"), bare("n2", karpenter="spot")]
    other = node("l4", "gke-l4", labels={KARPENTER: "spot"})
    (finding,) = found(tmp_path, GOOD, *mine, other)
    selectors = [one["node_selector"] for one in yaml.safe_load(finding.fix)["pools"]]
    assert [matched([*mine, other], one) for one in selectors] == [{"n1"}, {"n2"}]


@pytest.mark.parametrize(
    "section",
    [
        pytest.param({}, id="nothing"),
        pytest.param(
            {
                "context": "prod",
                "cluster_uid": "u",
                "namespace": "training",
                "cloud": "gcp",
                "region": "eu",
                "zone": "eu-a",
                "capacity_type": "spot",
                "architecture": "arm64",
                "gpu": {
                    "model": "H100",
                    "per_node": 8,
                    "interconnect": "nvswitch",
                    "resource_name": "x.y/gpu",
                },
                "network": {"kind": "infiniband", "gbps": 400, "fabric_label": "x.y/fabric"},
                "tolerations": [{"key": "team", "operator": "Exists", "effect": "NoSchedule"}],
                "price": {"gpu_hour_usd": 2, "source": "s", "rank_gpu_hour_usd": 3, "preference_usd": -1},
                "max_nodes": 4,
                "provisioning_seconds": 60,
                "interruptions_per_gpu_hour": 0.1,
                "max_signal_age_seconds": 30,
                "node_grace_seconds": 10,
                "cluster_grace_seconds": 20,
                "node_deletion_is_proof": True,
                "start_timeout_seconds": 30,
                "unschedulable_timeout_seconds": 5,
                "execution": "kueue",
                "kueue": {"local_queues": {"*": "training"}, "flavor": "h100"},
            },
            id="everything",
        ),
    ],
)
def test_a_whole_entry_is_read_as_the_same_pool(tmp_path: Path, section: dict[str, Any]) -> None:
    """Whatever a pool says is written again."""
    (pool,) = read(tmp_path, {"name": "a", "kubernetes_conn_id": "c", **section})
    assert read(tmp_path, whole_entry(pool)) == (pool,)
    assert set(whole_entry(pool)) >= section.keys()
