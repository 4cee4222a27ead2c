"""What a cluster answered is counted part by part, and nothing is lost between two parts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.capacity import node_capacities, used_devices
from airflow_gpu_placement.model.kube import Node, Pod
from airflow_gpu_placement.model.signals import GapKind
from airflow_gpu_placement.signals.count import report_of_pool, signals_of_pools
from airflow_gpu_placement.signals.state import ClusterState
from tests.unit.engine.builders import container, kube_node, kube_pod, pool

NOW = datetime(2026, 1, 1, tzinfo=UTC)
MANY = 1_100
FABRIC = "nvidia.com/gpu.clique"


def state_of(nodes: list[Node], pods: list[Pod] | None = None) -> ClusterState:
    """Return what a cluster answered."""
    return ClusterState(
        server="s", uid="u", observed_at=NOW, latency_seconds=0.1, nodes=nodes, pods=pods or []
    )


def large_state() -> ClusterState:
    """Return more nodes and pods than one part has; only the last node tells its fabric."""
    nodes = [kube_node(f"n{index:04}") for index in reversed(range(MANY))]
    product = {"nvidia.com/gpu.product": "NVIDIA-L4", FABRIC: "f"}
    nodes[0] = kube_node(f"n{MANY - 1:04}", labels=product)
    pods = [kube_pod(container("3"), node=f"n{index % 7:04}") for index in range(MANY)]
    return state_of(nodes, pods)


def test_parts_add_up_to_the_whole() -> None:
    """The same nodes, in the same order, with the same pods on them, as counted in one go."""
    state, one = large_state(), pool()
    (found,) = asyncio.run(signals_of_pools([one], state))
    assert found.nodes == node_capacities(state.nodes, state.pods, one)
    assert sum(node.used for node in found.nodes) == sum(used_devices(state.pods, "nvidia.com/gpu").values())
    assert found.nodes[-1].fabric == "f"


def test_what_a_pool_can_add_is_for_those_who_wait_first() -> None:
    """Only a pool that grows asks who waits for its nodes, and what they are like."""
    waiting = msgspec.convert(
        {
            "spec": {"containers": [container("8")]},
            "status": {
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
            },
        },
        Pod,
    )
    state = state_of([kube_node(more={"cpu": "8"})], [waiting] * MANY)
    pools = [pool(), pool("grows", max_nodes=4)]
    fixed, growing = asyncio.run(signals_of_pools(pools, state))
    assert (fixed.waiting, fixed.largest) == ({}, {})
    assert (growing.waiting, growing.largest) == ({8: MANY}, {"cpu": 8_000})


def test_other_things_run_between_two_parts() -> None:
    """However many nodes there are."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def both() -> int:
        task = asyncio.create_task(tick())
        await signals_of_pools([pool()], large_state())
        task.cancel()
        return ticks

    assert asyncio.run(both()) >= 2 * MANY / 250


def amd(name: str) -> Node:
    """Return a node of another vendor."""
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
    return kube_node(name, labels=labels, capacity="0", more={"amd.com/gpu": "8"})


def amd_pod(node: str) -> Pod:
    """Return a pod that holds one of its GPUs."""
    held: dict[str, Any] = {"requests": {"amd.com/gpu": "1"}}
    return msgspec.convert(
        {
            "spec": {"nodeName": node, "containers": [{"name": "c", "resources": held}]},
            "status": {"phase": "Running"},
        },
        Pod,
    )


def test_a_pool_is_counted_under_the_resource_that_its_nodes_have() -> None:
    """Each pool of a cluster by itself."""
    state = state_of([amd("a"), kube_node("n")], [amd_pod("a"), kube_pod(container("2"), node="n")])
    names = ("amd", "nvidia")
    pools = [pool("amd", node_selector={"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"})]
    pools += [pool("nvidia", node_selector={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})]
    found = asyncio.run(signals_of_pools(pools, state))
    assert [(one.pool, one.gpu_resource, one.nodes[0].free) for one in found] == [
        (names[0], "amd.com/gpu", 7),
        (names[1], "nvidia.com/gpu", 6),
    ]
    assert report_of_pool(pools[0], state).free == 7


@pytest.mark.parametrize(("uid", "kind"), [("u", None), ("other", GapKind.WRONG_CLUSTER)])
def test_nothing_is_told_of_another_cluster(uid: str, kind: GapKind | None) -> None:
    """Its nodes are not the pool's."""
    (found,) = asyncio.run(signals_of_pools([pool(cluster_uid=uid)], state_of([kube_node()])))
    assert (None if found.gap is None else found.gap.kind) is kind
    assert (len(found.nodes), found.gpu_resource) == ((1, "nvidia.com/gpu") if kind is None else (0, None))
