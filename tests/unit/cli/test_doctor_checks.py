"""What the doctor concludes from what it read; each finding's lines, written, take it away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.catalog.seen_nodes import SeenNodes
from airflow_gpu_placement.cli.doctor.check_cluster import check_cluster
from airflow_gpu_placement.cli.doctor.check_overlap import check_overlap
from airflow_gpu_placement.cli.doctor.check_pool import check_pool
from airflow_gpu_placement.cli.doctor.finding import FixKind
from airflow_gpu_placement.cli.doctor.read import ClusterKey, ClusterReading
from airflow_gpu_placement.cli.doctor.rights import (
    needed,
)
from airflow_gpu_placement.model.signals import GapKind, SignalGap
from tests.unit.cli.nodes import node

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from airflow_gpu_placement.cli.doctor.finding import Finding
    from airflow_gpu_placement.model.kube import Node
    from airflow_gpu_placement.model.pool import GpuPool

KNOWN = {"<USD>": "2.5", "<MODEL>": "A100-80GB"}
A100 = {"cloud.google.com/gke-accelerator": "nvidia-a100-80gb"}
SPOT = {"cloud.google.com/gke-spot": "true"}
GOOD = {
    "name": "a",
    "kubernetes_conn_id": "c",
    "node_selector": A100,
    "price": {"gpu_hour_usd": 5},
}


def read_pools(folder: Path, *entries: dict[str, Any]) -> tuple[GpuPool, ...]:
    """Write a catalogue of these entries and load it."""
    path = folder / "catalogue.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "pools": list(entries)}))
    return load(path).pools


def mended(entry: dict[str, Any], finding: Finding) -> dict[str, Any]:
    """Write a finding's lines into the pool that it is about."""
    assert finding.kind is FixKind.CATALOG
    assert {place for place, _ in finding.fill_in} <= set(KNOWN)
    text = finding.fix
    for place, value in KNOWN.items():
        text = text.replace(place, value)
    (given,) = yaml.safe_load(text)["pools"]
    assert finding.pool == entry["name"] == given["name"]
    return {**entry, **given}


def fleet(*nodes: Node) -> SeenNodes:
    """Build what is seen of a cluster with these nodes."""
    return SeenNodes(nodes)


def reading(pools: Sequence[GpuPool], **values: Any) -> ClusterReading:
    """Build what a healthy cluster answers."""
    healthy: dict[str, Any] = {"server": "https://s", "user": "u", "uid": "uid-1", "version": "v1.34.2"}
    return ClusterReading(key=ClusterKey("c"), pools=tuple(pools), **{**healthy, **values})


@pytest.mark.parametrize(
    ("entry", "nodes", "want"),
    [
        pytest.param({**GOOD, "price": None}, [node("n")], "PriceMissing", id="no price"),
        pytest.param(
            {**GOOD, "node_selector": {"gpu": "yes"}}, [node("n")], "NoNodeMatches", id="no node matches"
        ),
        pytest.param(
            {**GOOD, "node_selector": {"kubernetes.io/os": "linux"}},
            [
                node(
                    "n",
                    labels={"cloud.google.com/gke-accelerator": "", "node.kubernetes.io/instance-type": ""},
                )
            ],
            "GpuUnknown",
            id="no label names the GPU",
        ),
        pytest.param(
            {**GOOD, "gpu": {"model": "A100", "memory_gb": 40}},
            [node("n")],
            "SignalContradictsCatalog",
            id="another memory",
        ),
        pytest.param(
            {**GOOD, "gpu": {"model": "H100", "per_node": 4}},
            [node("n")],
            "SignalContradictsCatalog",
            id="another model and size",
        ),
        pytest.param(
            {**GOOD, "gpu": {"per_node": 8}},
            [node("n"), node("m", gpus=4), node("k", gpus=2)],
            "SignalContradictsCatalog",
            id="nodes of several sizes",
        ),
        pytest.param(
            {**GOOD, "capacity_type": "reserved"},
            [node("n", labels={"cloud.google.com/gke-provisioning": "spot"})],
            "SignalContradictsCatalog",
            id="spot called reserved",
        ),
        pytest.param(
            {**GOOD, "capacity_type": "spot"},
            [node("n", labels={"cloud.google.com/gke-provisioning": "standard"})],
            "SignalContradictsCatalog",
            id="on demand called spot",
        ),
        pytest.param(
            GOOD,
            [node("n", labels={"cloud.google.com/gke-provisioning": "spot"}), node("m", labels=SPOT)],
            "SignalContradictsCatalog",
            id="spot of which nothing is said",
        ),
        pytest.param(
            {**GOOD, "region": "us-west1"}, [node("n")], "SignalContradictsCatalog", id="another region"
        ),
        pytest.param(
            GOOD,
            [node("n", taints=[{"key": "team", "value": "v", "effect": "NoSchedule"}])],
            "TaintNotTolerated",
            id="a taint on every node",
        ),
    ],
)
def test_a_mended_pool_has_no_finding(
    entry: dict[str, Any], nodes: list[Node], want: str, tmp_path: Path
) -> None:
    """Each finding about a pool comes with lines for the catalogue that end it."""
    (pool,) = read_pools(tmp_path, entry)
    (finding,) = check_pool(pool, fleet(*nodes))
    assert finding.id == want
    (again,) = read_pools(tmp_path, mended(entry, finding))
    assert check_pool(again, fleet(*nodes)) == []


def test_a_good_pool_has_no_finding(tmp_path: Path) -> None:
    """Neither has one that may be empty, nor one whose taint is on some nodes only."""
    repair = {"key": "repair", "effect": "NoSchedule"}
    (pool,) = read_pools(tmp_path, GOOD)
    assert check_pool(pool, fleet(node("n"), node("m", taints=[repair]))) == []
    grows = {**GOOD, "max_nodes": 4, "gpu": {"model": "A100-80GB", "per_node": 8}}
    (pool,) = read_pools(tmp_path, grows)
    assert check_pool(pool, fleet()) == []
    assert check_pool(pool, None) == []


def test_when_several_pools_could_be_meant_the_doctor_does_not_guess(tmp_path: Path) -> None:
    """It then says how to see what is there."""
    (pool,) = read_pools(tmp_path, {**GOOD, "node_selector": {"gpu": "yes"}})
    (finding,) = check_pool(pool, fleet(node("n"), node("m", "gke-l4")))
    assert finding.fix == "airflow gpu-placement discover --conn-id c"
    assert finding.kind is FixKind.COMMAND


def test_pools_of_the_same_nodes_are_found_and_told_apart(tmp_path: Path) -> None:
    """The wider pool is narrowed to what the other leaves, by labels that match just that."""
    nodes = (node("a1"), node("l1", "gke-l4"), node("c1", "cpu"))
    wide = {**GOOD, "name": "wide", "node_selector": {"topology.kubernetes.io/region": "us-central1"}}
    pools = read_pools(tmp_path, wide, GOOD)
    (finding,) = check_overlap([reading(pools, seen=fleet(*nodes))])
    assert finding.id == "PoolsOverlap"
    selector = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    assert yaml.safe_load(finding.fix) == {"pools": [{"name": "wide", "node_selector": selector}]}
    pools = read_pools(tmp_path, mended(wide, finding), GOOD)
    assert check_overlap([reading(pools, seen=fleet(*nodes))]) == []


def test_the_same_pool_twice_is_told_to_be_taken_out(tmp_path: Path) -> None:
    """Also when the two lead to one cluster through two connections."""
    twin = {**GOOD, "name": "b", "kubernetes_conn_id": "d"}
    one, other = read_pools(tmp_path, GOOD, twin)
    seen = fleet(node("a1"))
    (finding,) = check_overlap([reading([one], seen=seen), reading([other], seen=seen)])
    assert (finding.kind, finding.fix) == (FixKind.ADVICE, "take pool 'b' out of the catalogue")
    assert check_overlap([reading([one], seen=seen), reading([other], seen=seen, uid="uid-2")]) == []


@pytest.mark.parametrize(
    ("values", "want", "told"),
    [
        pytest.param({"version": "v1.30.4"}, "KubernetesTooOld", "1.31", id="too old"),
        pytest.param({"version": "v1.9.0"}, "KubernetesTooOld", "1.31", id="much too old"),
        pytest.param({"clock_ahead_seconds": 61.0}, "ClockSkew", "61 s ahead of ours", id="ahead"),
        pytest.param({"clock_ahead_seconds": -30.0}, "ClockSkew", "30 s behind ours", id="behind"),
        pytest.param({"uid": "uid-2"}, "WrongCluster", "cluster_uid: uid-2", id="another cluster"),
        pytest.param(
            {"gap": SignalGap(kind=GapKind.UNAUTHORIZED, message="401")},
            "CredentialsRefused",
            "airflow connections delete c",
            id="credentials",
        ),
        pytest.param(
            {"gap": SignalGap(kind=GapKind.TIMEOUT, message="silent")},
            "ClusterUnreachable",
            "airflow connections delete c",
            id="no answer",
        ),
        pytest.param(
            {"gap": SignalGap(kind=GapKind.CONNECTION_MISSING, message="it does not exist")},
            "ConnectionMissing",
            "airflow connections add c",
            id="no connection",
        ),
    ],
)
def test_what_is_wrong_with_a_cluster(values: dict[str, Any], want: str, told: str, tmp_path: Path) -> None:
    """Each trouble has its own id, and the text says what to do."""
    pools = read_pools(tmp_path, {**GOOD, "cluster_uid": "uid-1"})
    (finding,) = check_cluster(reading(pools, **values))
    assert finding.id == want
    assert told in f"{finding.what}\n{finding.fix}"


def test_a_healthy_cluster_has_no_finding(tmp_path: Path) -> None:
    """A version that is new enough, a clock within a few seconds, every right."""
    pools = read_pools(tmp_path, GOOD)
    assert check_cluster(reading(pools, clock_ahead_seconds=-2.0)) == []
    assert check_cluster(reading(pools, version="v1.31.0-gke.1")) == []
    assert check_cluster(reading(pools, version="v2.0.0")) == []


def test_missing_rights_are_told_once_for_each_place(tmp_path: Path) -> None:
    """The mending grants all that is needed there, to the user that the cluster sees."""
    pools = read_pools(tmp_path, {**GOOD, "namespace": "training"})
    denied = tuple(one for one in needed(["training"]) if one.verb == "list")
    found = check_cluster(reading(pools, denied=denied))
    assert [one.id for one in found] == ["RightsMissing"] * 3
    assert "may not, in the whole cluster: list nodes, list pods" in found[0].what
    first, _, manifest = found[2].fix.partition("<<'EOF'\n")
    assert first.endswith("kubectl apply -f - ")
    kinds = [made["kind"] for made in yaml.safe_load_all(manifest.removesuffix("EOF"))]
    assert kinds == ["Namespace", "Role", "RoleBinding"]


def test_a_missing_namespace_is_told_once(tmp_path: Path) -> None:
    """The rights in it are granted by the same mending."""
    pools = read_pools(tmp_path, {**GOOD, "namespace": "training"})
    denied = tuple(one for one in needed(["training"]) if one.namespace == "training")
    (finding,) = check_cluster(reading(pools, denied=denied, absent_namespaces=("training",)))
    assert finding.id == "NamespaceMissing"
    assert "kind: RoleBinding" in finding.fix
    (finding,) = check_cluster(reading(pools, absent_namespaces=("training",)))
    assert "kind: RoleBinding" not in finding.fix
