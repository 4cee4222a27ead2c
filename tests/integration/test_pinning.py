"""A wrong node joins a pool after the decision: the job waits for the right one (case GPU-03).

Wrong is one with another GPU, and one that may be taken away where the job must not be.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from airflow_gpu_placement.engine.place import place
from airflow_gpu_placement.launch.job import create
from airflow_gpu_placement.model.decision import History
from airflow_gpu_placement.model.pool import CapacityType
from airflow_gpu_placement.model.request import GpuRequest, WhereNeed
from airflow_gpu_placement.signals.collect import collect
from lab import NodeSpec
from tests.integration.cluster_support import RENEW_SECONDS, opener, pool_of, remove_node, spec_of, utc_now

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow_gpu_placement.model.decision import PoolVerdict
    from airflow_gpu_placement.model.pool import GpuPool
    from lab import Cluster, Node

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]

RIGHT = "/api/v1/nodes/h100-1"
PRODUCT = "nvidia.com/gpu.product"


@pytest.fixture
def full_pool(cluster: Cluster) -> Iterator[None]:
    """Let the right node take new pods again at the end."""
    yield
    cluster.api.patch(RIGHT, {"spec": {"unschedulable": None}})


@pytest.fixture
def joined() -> Iterator[list[Node]]:
    """Return a list of the nodes that join during a test and leave at its end."""
    nodes: list[Node] = []
    yield nodes
    for node in nodes:
        remove_node(node)


async def decided(
    cluster: Cluster,
    pool: GpuPool,
    request: GpuRequest = GpuRequest(models=("H100",)),  # noqa: B008 - a frozen value
) -> PoolVerdict:
    """Decide on what the cluster has now."""
    snapshot = await collect([pool], opener(cluster), deadline_seconds=30, clock=utc_now)
    decision = place(
        request,
        [pool],
        snapshot,
        History(),
        now=utc_now(),
        subject="llm.train",
        catalog_hash="",
    )
    assert decision.chosen == pool.name
    return decision.verdicts[0]


def join(cluster: Cluster, profile: str = "onprem-a100-80", labels: Mapping[str, str] | None = None) -> Node:
    """Let a wrong node join, and take the right one out of service."""
    cluster.api.patch(RIGHT, {"spec": {"unschedulable": True}})
    node = cluster.add_node(
        NodeSpec(f"late-{uuid.uuid4().hex[:6]}", profile, labels=labels or {}, renew_seconds=RENEW_SECONDS)
    )
    cluster.api.wait(
        f"/api/v1/nodes/{node.name}",
        lambda found: found is not None and found["status"]["allocatable"].get("nvidia.com/gpu") == "8",
        60,
        "the late node offers its GPUs",
    )
    return node


def pod_where(cluster: Cluster, namespace: str, condition: Any, what: str) -> dict[str, Any]:
    """Wait until something is true of the job's one pod."""
    found = cluster.api.wait(
        f"/api/v1/namespaces/{namespace}/pods",
        lambda answer: any(condition(pod) for pod in answer["items"]),
        60,
        what,
    )
    (pod,) = found["items"]
    return dict(pod)


def _finds_no_node(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any("affinity" in one.get("message", "") for one in conditions if one["type"] == "PodScheduled")


def _has_a_node(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("nodeName"))


@pytest.mark.usefixtures("full_pool")
async def test_the_job_does_not_land_on_a_wrong_node_that_joined_later(
    cluster: Cluster, namespace: str, joined: list[Node]
) -> None:
    """It waits although eight GPUs of another kind are free, and starts once the right node takes pods."""
    pool = pool_of(cluster, namespace, name="mixed", node_selector={})
    where = await decided(cluster, pool)
    assert where.node_labels == {PRODUCT: ("NVIDIA-H100-80GB-HBM3",)}
    joined.append(await asyncio.to_thread(join, cluster))
    spec = spec_of(
        pool, "sleep 600", excluded_nodes=where.avoid_nodes, node_labels=where.node_labels, gpus_per_node=1
    )
    async with await opener(cluster)("", None) as client:
        await create(client, spec, expected_uid=cluster.uid)
    await asyncio.to_thread(pod_where, cluster, namespace, _finds_no_node, "no node has the label")

    cluster.api.patch(RIGHT, {"spec": {"unschedulable": None}})
    pod = await asyncio.to_thread(pod_where, cluster, namespace, _has_a_node, "the pod has a node")
    assert pod["spec"]["nodeName"] == "h100-1"


@pytest.mark.usefixtures("full_pool")
async def test_names_alone_would_let_it_land_there(
    cluster: Cluster, namespace: str, joined: list[Node]
) -> None:
    """What the labels are for: the same job without them gets the wrong GPU."""
    pool = pool_of(cluster, namespace, name="mixed", node_selector={})
    where = await decided(cluster, pool)
    joined.append(await asyncio.to_thread(join, cluster))
    spec = spec_of(pool, "sleep 600", excluded_nodes=where.avoid_nodes, gpus_per_node=1)
    async with await opener(cluster)("", None) as client:
        await create(client, spec, expected_uid=cluster.uid)
    pod = await asyncio.to_thread(pod_where, cluster, namespace, _has_a_node, "the pod has a node")
    assert pod["spec"]["nodeName"] == joined[0].name


@pytest.mark.usefixtures("full_pool")
async def test_a_job_for_on_demand_does_not_land_on_a_spot_node_that_joined_later(
    cluster: Cluster, namespace: str, joined: list[Node]
) -> None:
    """The same GPU, eight of them free: only the label tells that the node may be taken away."""
    pool = pool_of(cluster, namespace, name="mixed", node_selector={})
    firm = GpuRequest(
        models=("H100",), where=WhereNeed(capacity_types=(CapacityType.ON_DEMAND, CapacityType.RESERVED))
    )
    where = await decided(cluster, pool, firm)
    profile = "onprem-h100-sxm"
    joined.append(await asyncio.to_thread(join, cluster, profile, {"karpenter.sh/capacity-type": "spot"}))
    spec = spec_of(
        pool,
        "sleep 600",
        excluded_nodes=where.avoid_nodes,
        node_labels=where.node_labels,
        barred_labels=where.barred_labels,
        gpus_per_node=1,
    )
    async with await opener(cluster)("", None) as client:
        await create(client, spec, expected_uid=cluster.uid)
    await asyncio.to_thread(pod_where, cluster, namespace, _finds_no_node, "the spot node is barred")

    cluster.api.patch(RIGHT, {"spec": {"unschedulable": None}})
    pod = await asyncio.to_thread(pod_where, cluster, namespace, _has_a_node, "the pod has a node")
    assert pod["spec"]["nodeName"] == "h100-1"
