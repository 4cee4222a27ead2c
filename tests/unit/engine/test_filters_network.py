"""The network between the nodes of a gang."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gpu_placement.engine.capacity import node_capacities
from airflow_gpu_placement.model.pool import PoolNetwork
from tests.unit.engine.builders import codes, judged, kube_node, pool, seen, verdict_of

PCIE = "NVIDIA-H100-PCIe"
ONE = {"gpus_per_node": 8}
GANG = {"gpus_per_node": 8, "nodes": 2}


INFINIBAND = PoolNetwork(kind="infiniband", gbps=400, fabric_label="island")


@pytest.mark.parametrize(
    ("need", "nodes", "fields", "want"),
    [
        pytest.param(
            {"kinds": ["infiniband"]}, [seen("a"), seen("b")], {"network": INFINIBAND}, [], id="kind"
        ),
        pytest.param(
            {"kinds": ["roce"]},
            [seen("a"), seen("b")],
            {"network": INFINIBAND},
            ["NetworkNotOffered"],
            id="other",
        ),
        pytest.param(
            {"kinds": ["roce"]}, [seen("a"), seen("b")], {}, ["NetworkNotOffered"], id="unknown kind"
        ),
        pytest.param(
            {"min_gbps": 400}, [seen("a"), seen("b")], {"network": INFINIBAND}, [], id="fast enough"
        ),
        pytest.param(
            {"min_gbps": 800},
            [seen("a"), seen("b")],
            {"network": INFINIBAND},
            ["NetworkNotOffered"],
            id="slow",
        ),
        pytest.param({"min_gbps": 1}, [seen("a"), seen("b")], {}, ["NetworkNotOffered"], id="unknown speed"),
        pytest.param(
            {"same_zone": True}, [seen("a", zone="x"), seen("b", zone="x")], {}, [], id="one zone has room"
        ),
        pytest.param(
            {"same_zone": True},
            [seen("a", zone="x"), seen("b", zone="y")],
            {},
            ["NetworkNotOffered", "GangDoesNotFit"],
            id="the sum of two zones is not one zone",
        ),
        pytest.param(
            {"same_zone": True},
            [seen("a", zone="x"), seen("b", zone="x", used=8), seen("c", zone="y")],
            {},
            ["GangDoesNotFit"],
            id="one zone is large enough, but not now",
        ),
        pytest.param(
            {"same_zone": True},
            [seen("a"), seen("b")],
            {"zone": "x"},
            [],
            id="the pool's zone stands for its nodes'",
        ),
        pytest.param(
            {"same_fabric": True}, [seen("a", fabric="x"), seen("b", fabric="x")], {}, [], id="one fabric"
        ),
        pytest.param(
            {"same_fabric": True},
            [seen("a", fabric="x"), seen("b", fabric="y")],
            {},
            ["NetworkNotOffered", "GangDoesNotFit"],
            id="two fabrics",
        ),
        pytest.param(
            {"same_fabric": True},
            [seen("a"), seen("b")],
            {},
            ["NetworkNotOffered", "GangDoesNotFit"],
            id="unknown is never the same",
        ),
        pytest.param(
            {"same_fabric": True}, [seen("a", gpus=16)], {}, [], id="two pods on one node are on one fabric"
        ),
        pytest.param(
            {"same_zone": True, "same_fabric": True},
            [seen("a", zone="x", fabric="f"), seen("b", zone="y", fabric="f")],
            {},
            ["NetworkNotOffered", "GangDoesNotFit"],
            id="both at once",
        ),
        pytest.param(
            {"same_zone": True},
            [seen("a", zone="x")],
            {"zone": "x", "max_nodes": 2, "per_node": 8},
            [],
            id="a growing pool adds to its zone",
        ),
        pytest.param(
            {"same_fabric": True},
            [seen("a", fabric="x")],
            {"max_nodes": 4, "per_node": 8},
            ["NetworkNotOffered", "InsufficientFreeGpus"],
            id="nobody knows the fabric of a new node",
        ),
    ],
)
def test_a_gang_needs_its_network(
    need: dict[str, Any], nodes: list[Any], fields: dict[str, Any], want: list[str]
) -> None:
    """Kind, speed, and room inside one zone or fabric, never over the sum."""
    assert codes(judged({**GANG, "network": need}, *nodes, **fields)) == want


FABRIC = "backend.coreweave.cloud/fabric"


@pytest.mark.parametrize(
    ("need", "nodes", "fields", "advice"),
    [
        pytest.param(
            {"same_zone": True},
            [seen("a", used=8, zone="x")],
            {"max_nodes": 8, "per_node": 8},
            "; set zone of the pool in the catalogue, if the nodes that it adds are all in one",
            id="the zone of new nodes",
        ),
        pytest.param(
            {"same_zone": True},
            [seen("a"), seen("b")],
            {},
            "; set zone of the pool in the catalogue, if all its nodes are in one",
            id="the zone of all nodes",
        ),
        pytest.param({"same_zone": True}, [seen("a", zone="x"), seen("b", zone="y")], {}, "", id="two zones"),
        pytest.param(
            {"same_fabric": True},
            [seen("a", fabric="f", labels={FABRIC: "f"}), seen("b", fabric="g", labels={FABRIC: "g"})],
            {},
            f"; the fabric of a node is told by its label {FABRIC}: if another label tells it, set "
            "network.fabric_label of the pool in the catalogue",
            id="the label of the fabric",
        ),
        pytest.param(
            {"same_fabric": True},
            [seen("a", fabric="f", labels={"island": "f"}), seen("b", fabric="g", labels={"island": "g"})],
            {"network": INFINIBAND},
            "; the fabric of a node is told by its label island: if another label tells it, set "
            "network.fabric_label of the pool in the catalogue",
            id="the label that the catalogue names",
        ),
        pytest.param(
            {"same_fabric": True},
            [seen("a", used=8)],
            {"max_nodes": 2},
            "; set network.fabric_label of the pool in the catalogue; no label tells the fabric of a node "
            "that the pool has yet to add",
            id="the fabric of new nodes",
        ),
    ],
)
def test_what_to_write_where_no_zone_or_fabric_is_large_enough(
    need: dict[str, Any], nodes: list[Any], fields: dict[str, Any], advice: str
) -> None:
    """The label that was used, and the key of the catalogue that would tell it."""
    reason = verdict_of(judged({**GANG, "network": need}, *nodes, **fields)).reasons[0]
    assert reason.code == "NetworkNotOffered"
    assert reason.message.partition(reason.observed)[2] == advice


def test_more_nodes_never_take_a_fit_away() -> None:
    """Nodes that carry other labels than those that are there change nothing about these."""
    domain = [kube_node(f"n{index}", labels={"nvidia.com/gpu.clique": "u.1"}) for index in range(2)]
    others = [
        kube_node(f"m{index}", labels={"topology.k8s.aws/network-node-layer-3": f"x{index}"})
        for index in range(3)
    ]
    for nodes in (domain, domain + others):
        found = node_capacities(nodes, [], pool())
        assert codes(judged({**GANG, "network": {"same_fabric": True}}, *found)) == []


def test_a_gang_is_kept_inside_the_zone_that_it_fits_into() -> None:
    """The nodes of other zones are named, for the launch to avoid them."""
    nodes = [seen("a", zone="x"), seen("b", zone="y"), seen("c", zone="y"), seen("d", zone=None)]
    verdict = verdict_of(judged({**GANG, "network": {"same_zone": True}}, *nodes))
    assert (verdict.avoid_nodes, verdict.gang_fits) == (("a", "d"), 2)
