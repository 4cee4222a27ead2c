"""From nodes to pools: what belongs together, how it is selected, and that the YAML is a catalogue."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.catalog.discover import Discovery, discover, select_exactly
from airflow_gpu_placement.catalog.discovered_yaml import catalogue_yaml
from airflow_gpu_placement.catalog.seen_nodes import SeenNodes
from airflow_gpu_placement.engine.bought import capacity_type_of
from airflow_gpu_placement.model.dra import DraObjects
from airflow_gpu_placement.model.kube import NodeStatus, Toleration
from airflow_gpu_placement.model.pool import CapacityType
from tests.unit.cli.nodes import CLUSTER, matched, node

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_gpu_placement.model.kube import Node

AT = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
SPOT = {"cloud.google.com/gke-provisioning": "spot", "cloud.google.com/gke-spot": "true"}
FLEET = [
    node("a1"),
    node("a2"),
    node("b1", zone="us-central1-b"),
    node("s1", labels=SPOT),
    node("h1", "gke-h100"),
    node("l1", "gke-l4", taints=[{"key": "team", "value": "vision", "effect": "NoSchedule"}]),
    node("c1", "cpu"),
]


def found_in(nodes: list[Node], dra: DraObjects | None = None) -> Discovery:
    """Discover the pools of a cluster with these nodes."""
    return discover(SeenNodes(tuple(nodes), dra or DraObjects()), CLUSTER)


def test_nodes_of_one_kind_make_one_pool() -> None:
    """GPU, zone and the way of being bought tell pools apart, and each is named by what tells it apart."""
    found = found_in(FLEET)
    assert {one.pool.name: one.nodes for one in found.pools} == {
        "gpu-us-a100-on-demand-us-central1-a": ("a1", "a2"),
        "gpu-us-a100-on-demand-us-central1-b": ("b1",),
        "gpu-us-a100-spot": ("s1",),
        "gpu-us-h100": ("h1",),
        "gpu-us-l4": ("l1",),
    }
    spot = next(one.pool for one in found.pools if one.nodes == ("s1",))
    assert spot.capacity_type is CapacityType.SPOT
    assert (spot.place.cloud, spot.place.region, spot.place.zone) == ("gcp", "us-central1", "us-central1-a")
    assert spot.cluster == CLUSTER


def test_one_pool_gets_a_short_name() -> None:
    """What tells nothing apart is not in the name."""
    (found,) = found_in([node("a1"), node("a2")]).pools
    assert found.pool.name == "gpu-us-a100"
    assert found.pool.node_selector == {"cloud.google.com/gke-accelerator": "nvidia-a100-80gb"}


def test_each_selector_matches_its_nodes_and_no_other() -> None:
    """A selector is checked against every node of the cluster."""
    found = found_in(FLEET)
    for one in found.pools:
        assert matched(FLEET, one.pool.node_selector) == set(one.nodes), one.pool.name


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["gke-a100-80", "gke-h100", "onprem-h100-sxm", "onprem-l40s", "cpu"]),
            st.sampled_from(["z1", "z2"]),
            st.sampled_from([{}, SPOT, {"karpenter.sh/capacity-type": "spot"}]),
            st.sampled_from([{}, {"karpenter.sh/nodepool": "a"}, {"karpenter.sh/nodepool": "b"}]),
        ),
        max_size=12,
    )
)
def test_every_gpu_node_is_in_one_pool_that_selects_it_exactly(
    kinds: list[tuple[str, str, dict[str, str], dict[str, str]]],
) -> None:
    """Over random clusters: no node is lost or taken twice, names differ, and a selector is exact or told."""
    fleet = [
        node(f"n{at}", profile, zone=zone, labels={**bought, **grouped})
        for at, (profile, zone, bought, grouped) in enumerate(kinds)
    ]
    found = found_in(fleet)
    taken = sorted(name for one in found.pools for name in one.nodes)
    assert taken == sorted(f"n{at}" for at, (profile, *_) in enumerate(kinds) if profile != "cpu")
    assert len({one.pool.name for one in found.pools}) == len(found.pools)
    for one in found.pools:
        exact = matched(fleet, one.pool.node_selector) == set(one.nodes)
        assert exact != any("tell its nodes from the others" in remark for remark in one.remarks)


def test_nodes_that_no_label_tells_apart_are_said_to_be_so() -> None:
    """A selector that would take too many nodes is not written as if it were right."""
    fleet = [node("a1"), node("a2", gpus=4, labels={"cloud.google.com/gke-accelerator-count": "8"})]
    assert select_exactly(["a1"], fleet) is None
    (found,) = found_in(fleet).pools
    assert found.per_node == (4, 8)


def test_taints_of_all_nodes_are_tolerated_and_those_of_some_are_told() -> None:
    """A taint on one node of several may be there to keep jobs off; states come and go."""
    team = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    gone = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    repair = {"key": "repair", "effect": "NoSchedule"}
    gpu = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    (found,) = found_in([node("a1", taints=[gpu, team, gone]), node("a2", taints=[gpu, team, repair])]).pools
    assert found.pool.tolerations == (
        Toleration(key="team", operator="Equal", value="vision", effect="NoSchedule"),
    )
    assert found.remarks == ("node a2 has the taint repair:NoSchedule, which is not tolerated",)


def test_what_is_no_whole_gpu_makes_no_pool() -> None:
    """Shares, and labels without a device plugin, are told and left out."""
    shared = {"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}
    found = found_in([node("s1", "onprem-l40s", labels=shared), node("x1", gpus=0), node("c1", "cpu")])
    assert found.pools == ()
    assert [text.split(":")[0] for text in found.left_out] == ["node s1", "node x1"]
    assert "device plugin" in found.left_out[1]


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param({"cloud.google.com/gke-spot": "true"}, "spot", id="GKE spot"),
        pytest.param({"cloud.google.com/gke-preemptible": "true"}, "spot", id="GKE preemptible"),
        pytest.param({"cloud.google.com/gke-provisioning": "standard"}, "on_demand", id="GKE standard"),
        pytest.param(
            {"cloud.google.com/gke-provisioning": "standard", "cloud.google.com/reservation-name": "r"},
            "reserved",
            id="GKE reservation",
        ),
        pytest.param({"eks.amazonaws.com/capacityType": "SPOT"}, "spot", id="EKS spot"),
        pytest.param({"eks.amazonaws.com/capacityType": "ON_DEMAND"}, "on_demand", id="EKS on demand"),
        pytest.param({"eks.amazonaws.com/capacityType": "CAPACITY_BLOCK"}, "reserved", id="EKS block"),
        pytest.param({"karpenter.sh/capacity-type": "spot"}, "spot", id="Karpenter spot"),
        pytest.param({"karpenter.sh/capacity-type": "on-demand"}, "on_demand", id="Karpenter on demand"),
        pytest.param({"karpenter.sh/capacity-type": "reserved"}, "reserved", id="Karpenter reserved"),
        pytest.param({"kubernetes.azure.com/scalesetpriority": "spot"}, "spot", id="AKS spot"),
        pytest.param({"kubernetes.io/os": "linux"}, None, id="nothing said"),
    ],
)
def test_capacity_types_are_read_as_the_clouds_write_them(labels: dict[str, str], want: str | None) -> None:
    """Each cloud has a word of its own for the same thing."""
    assert capacity_type_of(labels) == want


@pytest.mark.parametrize(
    "fleet",
    [
        pytest.param(FLEET, id="a mixed cluster"),
        pytest.param([node("h1", "onprem-h100-sxm"), node("l1", "onprem-l40s")], id="own hardware"),
        pytest.param(
            [node("x1", labels={"cloud.google.com/gke-accelerator": ""})], id="a GPU without a name"
        ),
    ],
)
def test_the_yaml_is_a_catalogue_of_the_same_pools(fleet: list[Node], tmp_path: Path) -> None:
    """What was written is read back unchanged; the comments say what a person must fill in."""
    found = found_in(fleet)
    text = catalogue_yaml(found, server="https://10.0.0.1:6443", at=AT)
    path = tmp_path / "found.yaml"
    path.write_text(text)
    assert load(path).pools == tuple(one.pool for one in found.pools)
    assert text.count("fill in: USD") == len(found.pools)
    assert ("model:            # fill in" in text) == any(one.gpu is None for one in found.pools)


def test_gpus_offered_through_dra_make_a_pool() -> None:
    """Where a DRA driver offers the devices, the nodes have none of their own to count."""
    labelled = node("d1", "gke-h100")
    bare = msgspec.structs.replace(labelled, status=NodeStatus(conditions=labelled.status.conditions))
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}
    offered = msgspec.convert(
        {
            "slices": [
                {
                    "spec": {
                        "driver": "gpu.nvidia.com",
                        "pool": {"name": "d1"},
                        "nodeName": "d1",
                        "devices": [device, {**device, "name": "gpu-1"}],
                    }
                }
            ],
            "classes": [{"spec": {"extendedResourceName": "nvidia.com/gpu"}}],
        },
        DraObjects,
    )
    (found,) = found_in([bare], offered).pools
    assert (found.per_node, found.nodes) == ((2,), ("d1",))
    assert found_in([bare]).pools == ()
