"""The network between the nodes of a gang."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gpu_placement.model.pool import PoolNetwork
from tests.unit.engine.builders import codes, judged, seen, verdict_of

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


def test_a_gang_is_kept_inside_the_zone_that_it_fits_into() -> None:
    """The nodes of other zones are named, for the launch to avoid them."""
    nodes = [seen("a", zone="x"), seen("b", zone="y"), seen("c", zone="y"), seen("d", zone=None)]
    verdict = verdict_of(judged({**GANG, "network": {"same_zone": True}}, *nodes))
    assert (verdict.avoid_nodes, verdict.gang_fits) == (("a", "d"), 2)
