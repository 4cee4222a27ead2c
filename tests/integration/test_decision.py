"""One request, placed differently as the world changes, read from real control planes: one outcome each."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import yaml

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.catalog.setting import resolve
from airflow_gpu_placement.clusters.connect import client_from_kubeconfig
from airflow_gpu_placement.cycle import decide
from airflow_gpu_placement.model.decision import History
from airflow_gpu_placement.model.request import GpuRequest
from lab import ClusterSpec, Lab, LabSpec, NodeSpec
from tests.integration.cluster_support import utc_now

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.model.decision import Decision

pytestmark = [pytest.mark.lab, pytest.mark.asyncio]

REQUEST = {
    "gpus_per_node": 4,
    "models": ["A100", "H100"],
    "data": ["corpus"],
    "time": {"runtime_hours": 10},
}
DOCUMENT: dict[str, Any] = {
    "version": 1,
    "pools": [
        {
            "name": "east",
            "kubernetes_conn_id": "east",
            "region": "us-east",
            "cloud": "gcp",
            "node_selector": {"cloud.google.com/gke-accelerator": "nvidia-a100-80gb"},
            "price": {"gpu_hour_usd": 5.0},
        },
        {
            "name": "west",
            "kubernetes_conn_id": "west",
            "region": "us-west",
            "cloud": "gcp",
            "node_selector": {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"},
            "price": {"gpu_hour_usd": 6.0},
        },
    ],
    "datasets": [{"name": "corpus", "size_gib": 500, "locations": ["us-east"]}],
    "egress": [{"from": "us-east", "to": "us-west", "usd_per_gib": 0.02}],
}


@pytest.fixture(scope="module")
def coasts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Run one cluster on each coast with one GPU node each."""
    spec = LabSpec(
        (
            ClusterSpec("east", (NodeSpec("e1", "gke-a100-80", renew_seconds=2),)),
            ClusterSpec("west", (NodeSpec("w1", "gke-h100", renew_seconds=2),)),
        )
    )
    with Lab.up(spec, name="coasts", home=tmp_path_factory.mktemp("coasts")) as lab:
        yield lab


class World:
    """The fleet and its catalogue, and the decision on them."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.path = folder / "catalog.yaml"
        self.document = yaml.safe_load(yaml.safe_dump(DOCUMENT))

    async def decide(self, **pod_resources: str) -> Decision:
        """Decide the request now, as a task does; its pods may ask for CPU and the like too."""
        self.path.write_text(yaml.safe_dump(self.document))
        catalog = load(self.path)
        resolved = resolve(
            catalog, GpuRequest.model_validate(REQUEST), profile="cheapest", dag_id="llm", team=None
        )
        return await decide(
            resolved.request,
            catalog,
            History(),
            msgspec.structs.replace(resolved.setting, pod_resources=pod_resources),
            subject="llm.train",
            open_cluster=self._open,
            deadline_seconds=5,
            clock=utc_now,
        )

    async def _open(self, name: str, context: str | None) -> ClusterClient:
        return await client_from_kubeconfig(self.lab.cluster(name).kubeconfig(), context)


@pytest.fixture
def world(coasts: Lab, tmp_path: Path) -> World:
    """Return the world as it is at first: everything free, the data in the east."""
    return World(coasts, tmp_path)


def codes(decision: Decision, pool: str) -> list[str]:
    """Return the reason codes of a pool."""
    return [reason.code.value for one in decision.verdicts if one.pool == pool for reason in one.reasons]


@contextlib.contextmanager
def job_on(lab: Lab, cluster: str, gpus: int = 0, others: dict[str, str] | None = None) -> Iterator[None]:
    """Let somebody else's pod hold GPUs or other resources for a while."""
    api = lab.cluster(cluster).api
    path = "/api/v1/namespaces/default/pods"
    tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    limits = {"nvidia.com/gpu": str(gpus), **(others or {})}
    container = {"name": "c", "image": "i", "command": ["sleep", "600"], "resources": {"limits": limits}}
    api.post(
        path,
        {
            "metadata": {"name": "other"},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "tolerations": tolerations,
                "containers": [container],
            },
        },
    )
    try:
        api.wait(f"{path}/other", lambda pod: pod["status"]["phase"] == "Running", 30, "the pod runs")
        yield
    finally:
        api.delete(f"{path}/other")
        api.wait(f"{path}/other", lambda pod: pod is None, 30, "the pod is gone")


async def test_everything_free_the_cheaper_pool_near_the_data_is_chosen(world: World) -> None:
    """Five dollars beat six, and the data need not move."""
    decision = await world.decide()

    assert (decision.chosen, codes(decision, "west")) == ("east", [])


async def test_a_cordoned_node_sends_the_job_to_the_other_coast(world: World) -> None:
    """A cordon is seen in the node's own field."""
    api = world.lab.cluster("east").api
    api.patch("/api/v1/nodes/e1", {"spec": {"unschedulable": True}})
    try:
        decision = await world.decide()
    finally:
        api.patch("/api/v1/nodes/e1", {"spec": {"unschedulable": None}})

    assert (decision.chosen, codes(decision, "east")) == ("west", ["NodesNotSchedulable"])


async def test_gpus_taken_by_another_job_are_not_free(world: World) -> None:
    """Six of eight are taken, so four are not there."""
    with job_on(world.lab, "east", 6):
        decision = await world.decide()

    assert (decision.chosen, codes(decision, "east")) == ("west", ["InsufficientFreeGpus"])


async def test_gpus_without_the_cpu_that_the_job_needs_are_not_free(world: World) -> None:
    """Another job holds half of a node's CPU and none of its GPUs: only who asks for CPU minds."""
    east = world.lab.cluster("east").api.get("/api/v1/nodes/e1")
    half = int(east["status"]["allocatable"]["cpu"]) // 2
    assert (await world.decide(cpu=str(half + 1))).chosen == "east"
    with job_on(world.lab, "east", others={"cpu": str(half)}):
        minds = await world.decide(cpu=str(half + 1))
        does_not = await world.decide(cpu=str(half))

    assert (minds.chosen, codes(minds, "east")) == ("west", ["NodeResourcesTaken"])
    assert does_not.chosen == "east"


@pytest.fixture
def adapters(coasts: Lab) -> Iterator[str]:
    """Let the node in the east have eight network adapters, and return their resource's name."""
    name, path = "vpc.amazonaws.com/efa", "/api/v1/nodes/e1/status"
    api = coasts.cluster("east").api
    api.patch(path, {"status": {"capacity": {name: "8"}, "allocatable": {name: "8"}}})
    yield name
    api.patch(path, {"status": {"capacity": {name: None}, "allocatable": {name: None}}})


async def test_gpus_without_the_network_adapters_that_the_job_needs_are_not_free(
    world: World, adapters: str
) -> None:
    """Another job holds five of eight: three are left on that node, and none is on any other."""
    assert (await world.decide(**{adapters: "4"})).chosen == "east"
    with job_on(world.lab, "east", others={adapters: "5"}):
        minds = await world.decide(**{adapters: "4"})
        does_not = await world.decide(**{adapters: "3"})

    assert (codes(minds, "east"), codes(minds, "west")) == (["NodeResourcesTaken"], ["NodeResourcesTaken"])
    assert does_not.chosen == "east"


async def test_a_higher_price_moves_the_job(world: World) -> None:
    """At seven dollars the east costs more than the west with its egress."""
    world.document["pools"][0]["price"]["gpu_hour_usd"] = 7.0

    decision = await world.decide()

    assert decision.chosen == "west"
    cost = decision.verdicts[0].cost
    assert cost is not None
    assert {term.name: round(term.usd, 2) for term in cost.terms}["egress"] == 10.0


async def test_data_that_moved_moves_the_job(world: World) -> None:
    """With much data in the west, moving it costs more than the dearer GPUs."""
    world.document["datasets"][0] |= {"locations": ["us-west"], "size_gib": 5000}
    world.document["egress"] = [{"from": "us-west", "to": "us-east", "usd_per_gib": 0.02}]

    decision = await world.decide()

    assert decision.chosen == "west"


async def test_denied_egress_is_hard(world: World) -> None:
    """No price moves data that must not leave."""
    world.document["datasets"][0] |= {"locations": ["us-west"], "egress": "deny"}
    world.document["pools"][1]["price"]["gpu_hour_usd"] = 600.0

    decision = await world.decide()

    assert (decision.chosen, codes(decision, "east")) == ("west", ["EgressDenied"])


async def test_regions_that_only_the_nodes_tell_decide(world: World) -> None:
    """The catalogue names none: labels tell where data is near, what moving it costs, what is denied."""
    labels = {"metadata": {"labels": {"topology.kubernetes.io/region": "us-west"}}}
    world.lab.cluster("west").api.patch("/api/v1/nodes/w1", labels)
    for pool in world.document["pools"]:
        del pool["region"]
    east = world.lab.cluster("east").api.get("/api/v1/nodes/e1")
    there = east["metadata"]["labels"]["topology.kubernetes.io/region"]
    world.document["datasets"][0] |= {"locations": ["us-west"], "egress": "deny"}
    denied = await world.decide()
    world.document["datasets"][0] |= {"size_gib": 5000, "egress": "allow"}
    world.document["egress"] = [{"from": "us-west", "to": there, "usd_per_gib": 0.02}]
    moved = await world.decide()
    world.document["datasets"][0]["size_gib"] = 50
    near = await world.decide()

    assert (denied.chosen, codes(denied, "east")) == ("west", ["EgressDenied"])
    assert denied.verdicts[1].reasons[0].observed == f"{there} (node labels)"
    assert (moved.chosen, near.chosen) == ("west", "east")
    cost = near.verdicts[0].cost
    assert cost is not None
    assert {term.name: round(term.usd, 2) for term in cost.terms}["egress"] == 1.0


async def test_maintenance_keeps_off_the_job_that_would_still_run(world: World) -> None:
    """The job takes ten hours: what begins in twelve does not matter, what begins in eight does."""
    api = world.lab.cluster("east").api
    label = "cloud.google.com/scheduled-maintenance-time"
    found = []
    try:
        for hours in (12, 8):
            at = str(int((utc_now() + timedelta(hours=hours)).timestamp()))
            api.patch("/api/v1/nodes/e1", {"metadata": {"labels": {label: at}}})
            found.append(await world.decide())
    finally:
        api.patch("/api/v1/nodes/e1", {"metadata": {"labels": {label: None}}})

    assert [one.chosen for one in found] == ["east", "west"]
    assert codes(found[1], "east") == ["NodesNotSchedulable"]


async def test_a_stopped_cluster_is_unknown_and_never_free(world: World) -> None:
    """Its API server is dead; the other pool is still used."""
    cluster = world.lab.cluster("east")
    cluster.api_server.kill()
    try:
        decision = await world.decide()
    finally:
        cluster.api_server.start()

    assert (decision.chosen, codes(decision, "east")) == ("west", ["ClusterUnreachable"])
