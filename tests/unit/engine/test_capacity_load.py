"""What pods hold of a node beside GPUs, what they are promised, and what they wait for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.capacity import capacity_warnings, node_capacities
from airflow_gpu_placement.engine.capacity_load import Load, largest
from airflow_gpu_placement.model.kube import Pod
from tests.unit.engine.builders import container, kube_node, kube_pod, pool

GPU = "nvidia.com/gpu"
SIZE = {"pods": "110", "cpu": "95500m", "memory": "990Gi"}
GIB = 2**30


def asking(**requests: str) -> dict[str, Any]:
    """Build a container that asks for this."""
    return {"name": "main", "resources": {"requests": requests}}


def waiting_pod(gpus: str = "8", *, reason: str = "Unschedulable", **spec: Any) -> Pod:
    """Build a pod for which the scheduler found no room."""
    nominated = spec.pop("nominated", "")
    return msgspec.convert(
        {
            "metadata": {"name": "w"},
            "spec": {"containers": [container(gpus)], **spec},
            "status": {
                "phase": "Pending",
                "nominatedNodeName": nominated,
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}],
            },
        },
        Pod,
    )


def spare(*pods: Pod, more: dict[str, str] | None = None) -> dict[str, int]:
    """Return what is left of one node."""
    (node,) = node_capacities([kube_node(more=SIZE if more is None else more)], pods, pool())
    return node.spare


def test_pods_leave_what_they_do_not_ask_for() -> None:
    """Sidecars run beside the containers, the neediest init container before them, overhead always."""
    sidecar = {**asking(cpu="500m", memory="1Gi"), "name": "log", "restartPolicy": "Always"}
    pod = kube_pod(
        asking(cpu="2", memory="10Gi"),
        init=[sidecar, {**asking(cpu="8"), "name": "prepare"}],
        overhead={"cpu": "250m"},
    )
    assert spare() == {"pods": 110, "cpu": 95_500, "memory": 990 * GIB}
    assert spare(pod) == {"pods": 109, "cpu": 95_500 - 8_750, "memory": 979 * GIB}
    assert spare(kube_pod(asking(cpu="95"), phase="Succeeded")) == spare()
    assert spare(*[kube_pod(asking(cpu="50", memory="1e12"))] * 120) == {"pods": 0, "cpu": 0, "memory": 0}


def test_a_pod_that_says_what_it_needs_as_a_whole() -> None:
    """Its containers' own amounts of that resource lie within."""
    whole = msgspec.convert(
        {
            "spec": {
                "nodeName": "n1",
                "resources": {"requests": {"cpu": "10"}},
                "containers": [asking(cpu="1", memory="1Gi")],
                "overhead": {"cpu": "1"},
            },
            "status": {"phase": "Running"},
        },
        Pod,
    )
    assert spare(whole) == {"pods": 109, "cpu": 84_500, "memory": 989 * GIB}


def test_other_kinds_are_counted_too() -> None:
    """Network devices, huge pages and storage; GPUs and slices of them are counted elsewhere."""
    node = {
        **SIZE,
        "rdma/hca": "8",
        "hugepages-2Mi": "0",
        "ephemeral-storage": "100Gi",
        "nvidia.com/mig-1g.10gb": "7",
        "nvidia.com/gpu.shared": "4",
    }
    pod = kube_pod(
        asking(**{"cpu": "1", "rdma/hca": "3", "nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "1"})
    )
    left = spare(pod, more=node)
    assert left.pop("ephemeral-storage") == 100 * GIB
    assert left == {"pods": 109, "cpu": 94_500, "memory": 990 * GIB, "rdma/hca": 5}
    assert "rdma/hca" not in spare(*[pod] * 3, more=node)


def test_what_a_node_does_not_tell_is_not_made_up() -> None:
    """Neither what is missing nor what cannot be read."""
    assert spare(more={"cpu": "lots", "pods": "10"}) == {"pods": 10}
    assert largest([kube_node(more={"cpu": "4", "pods": "10"}), kube_node(more={"cpu": "500m"})]) == {
        "cpu": 4_000,
        "pods": 10,
    }


@pytest.mark.parametrize(
    ("pods", "used", "free"),
    [
        pytest.param([waiting_pod("4", nominated="n1")], 4, 4, id="promised"),
        pytest.param([waiting_pod("4", nominated="n1", priority=-1)], 0, 8, id="less urgent"),
        pytest.param([waiting_pod("4", nominated="n2")], 0, 8, id="another node"),
        pytest.param([waiting_pod("4")], 0, 8, id="not promised"),
        pytest.param([kube_pod(container("8")), waiting_pod("8", nominated="n1")], 8, 0, id="making way"),
        pytest.param([kube_pod(container("6")), waiting_pod("4", nominated="n1")], 8, 0, id="partly"),
    ],
)
def test_what_is_promised_is_held(pods: list[Pod], used: int, free: int) -> None:
    """A pod that makes way and the one that it makes way for hold the same devices."""
    nodes = node_capacities([kube_node(more=SIZE)], pods, pool())
    assert (nodes[0].used, nodes[0].free) == (used, free)
    assert capacity_warnings(nodes) == ()


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(waiting_pod(), {8: 2}, id="waits"),
        pytest.param(waiting_pod(priority=-10), {}, id="placeholder"),
        pytest.param(waiting_pod(reason="SchedulingGated"), {}, id="held back"),
        pytest.param(waiting_pod(nodeName="n1"), {}, id="bound"),
        pytest.param(waiting_pod(nominated="n1"), {}, id="promised a node"),
        pytest.param(waiting_pod("0"), {}, id="no GPU"),
        pytest.param(waiting_pod(nodeSelector={"team": "a"}), {8: 2}, id="same label"),
        pytest.param(waiting_pod(nodeSelector={"team": "b"}), {}, id="another pool's"),
    ],
)
@pytest.mark.parametrize("seen", [True, False])
def test_who_gets_the_next_nodes(pod: Pod, want: dict[int, int], *, seen: bool) -> None:
    """Pods for which no room was found, if they may mean this pool."""
    one = pool(node_selector={"team": "a"})
    members = [kube_node(labels={"team": "a"})] if seen else []
    assert Load([GPU], [pod, pod]).waiting(one, members) == want
