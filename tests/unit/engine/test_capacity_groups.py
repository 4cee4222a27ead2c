"""Zone, fabric and architecture of nodes, and the gang that fits within one of them."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.engine.capacity import Within, gang_fits, node_capacities
from airflow_gpu_placement.model.pool import PoolNetwork
from airflow_gpu_placement.model.signals import NodeCapacity
from tests.unit.engine.builders import kube_node, pool

EFA = "topology.k8s.aws/network-node-layer-"


def at(name: str, zone: str | None, fabric: str | None, free: int = 8) -> NodeCapacity:
    """Build a node with free GPUs in a place."""
    return NodeCapacity(name=name, capacity=8, allocatable=8, free=free, zone=zone, fabric=fabric)


FLEET = (
    at("a", "z1", "f1"),
    at("b", "z1", "f2"),
    at("c", "z2", "f2"),
    at("d", "z1", "f2", free=4),
    at("e", None, None),
    at("f", None, None),
)


@pytest.mark.parametrize(
    ("within", "want"),
    [
        pytest.param((), 11, id="anywhere"),
        pytest.param((Within.NODE,), 2, id="one node"),
        pytest.param((Within.ZONE,), 5, id="one zone"),
        pytest.param((Within.FABRIC,), 5, id="one fabric"),
        pytest.param((Within.ZONE, Within.FABRIC), 3, id="one zone and one fabric"),
    ],
)
def test_the_largest_gang_within_what_it_must_share(within: tuple[Within, ...], want: int) -> None:
    """Pods of 4 GPUs; nodes that do not tell their place share it with nobody."""
    assert gang_fits(FLEET, 4, (), within) == want


@pytest.mark.parametrize(
    ("labels", "want"),
    [
        pytest.param([{"nvidia.com/gpu.clique": "u.1"}], ["u.1"], id="an NVLink domain"),
        pytest.param(
            [{f"{EFA}1": "far", f"{EFA}2": "mid", f"{EFA}3": "near"}], ["far"], id="AWS: the first layer"
        ),
        pytest.param(
            [{f"{EFA}3": "mid", f"{EFA}4": "near"}], ["mid"], id="AWS: the widest layer that is told"
        ),
        pytest.param(
            [{"cloud.google.com/gce-topology-block": "b", "cloud.google.com/gce-topology-host": "h"}],
            ["b"],
            id="Google: the block; a host is one machine",
        ),
        pytest.param(
            [{"backend.coreweave.cloud/fabric": "f", "backend.coreweave.cloud/leafgroup": "l"}],
            ["f"],
            id="CoreWeave: the InfiniBand fabric, not its leaf",
        ),
        pytest.param(
            [
                {
                    "oci.oraclecloud.com/rdma.network_block_id": "n",
                    "oci.oraclecloud.com/rdma.local_block_id": "l",
                }
            ],
            ["n"],
            id="Oracle: the network block",
        ),
        pytest.param(
            [{"nvidia.com/gpu.clique": "u.1", f"{EFA}3": "x"}, {f"{EFA}3": "y"}],
            ["u.1", "y"],
            id="whatever other nodes carry",
        ),
        pytest.param([{"topology.kubernetes.io/zone": "z"}], [None], id="no such label"),
    ],
)
def test_the_widest_level_of_a_network_is_the_fabric(
    labels: list[dict[str, str]], want: list[str | None]
) -> None:
    """Where the catalogue names no label."""
    nodes = [kube_node(f"n{index}", labels=one) for index, one in enumerate(labels)]
    assert [node.fabric for node in node_capacities(nodes, [], pool())] == want


def test_the_catalogue_may_name_the_label() -> None:
    """Then no other is looked at."""
    labels = {"nvidia.com/gpu.clique": "u.1", "rack": "r7"}
    ours = pool(network=PoolNetwork(fabric_label="rack"))
    (node,) = node_capacities([kube_node(labels=labels)], [], ours)
    assert node.fabric == "r7"


@pytest.mark.parametrize("key", ["kubernetes.io/arch", "beta.kubernetes.io/arch"])
def test_the_architecture_is_read(key: str) -> None:
    """From the label that every node has."""
    (node,) = node_capacities([kube_node(labels={key: "arm64"})], [], pool())
    assert node.architecture == "arm64"
