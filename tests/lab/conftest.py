"""Fixtures of the lab's own tests: one lab for the session, a namespace of its own for each test.

A test that harms a node uses one that it has added (``spare_node``); the others are shared.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from lab import ClusterSpec, Lab, LabSpec, NodeSpec, launch
from lab.airflow import diagnostics
from tests.lab import leftovers
from tests.lab.node_support import Workspace, sandbox_modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lab import Cluster, Node

RENEW_SECONDS = 2.0
GRACE_SECONDS = 8

SPEC = LabSpec(
    node_monitor_grace_seconds=GRACE_SECONDS,
    clusters=(
        ClusterSpec(
            "onprem",
            users=("visitor",),
            nodes=(
                NodeSpec("h100-1", "onprem-h100-sxm", renew_seconds=RENEW_SECONDS),
                NodeSpec("l40s-1", "onprem-l40s", renew_seconds=RENEW_SECONDS),
            ),
        ),
        ClusterSpec(
            "gke", nodes=(NodeSpec("a100-1", "gke-a100-80", renew_seconds=RENEW_SECONDS),), own_etcd=True
        ),
    ),
)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Run the session's lab; afterwards nothing of it may be left."""
    home = tmp_path_factory.mktemp("labs")
    running = Lab.up(SPEC, name="tests", home=home)
    diagnostics.register("lab", lambda: "\n".join(f"--- {k}\n{v}" for k, v in running.log_tails().items()))
    servers = [cluster.server for cluster in running.clusters]
    try:
        yield running
    finally:
        diagnostics.unregister("lab")
        running.down()
    leftovers.wait_nothing_left(running.paths.folder, servers, timeout_seconds=5)


@pytest.fixture
def onprem(lab: Lab) -> Cluster:
    """Return the cluster with GPU feature discovery labels."""
    return lab.cluster("onprem")


@pytest.fixture
def gke(lab: Lab) -> Cluster:
    """Return the cluster with a cloud's labels."""
    return lab.cluster("gke")


@pytest.fixture
def make_namespace() -> Iterator[Callable[[Cluster], str]]:
    """Return a function that makes a namespace; each is deleted after the test, with all that runs in it."""
    made: list[tuple[Cluster, str]] = []

    def make(cluster: Cluster) -> str:
        name = f"test-{uuid.uuid4().hex[:8]}"
        cluster.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
        made.append((cluster, name))
        return name

    yield make
    for cluster, name in made:
        cluster.api.delete(f"/api/v1/namespaces/{name}")
    for cluster, name in made:
        # The namespace object itself follows up to 10 s later; nobody needs to wait for that.
        path = f"/api/v1/namespaces/{name}/pods"
        cluster.api.wait(path, lambda found: not found["items"], 60, f"the pods of namespace {name} are gone")


@pytest.fixture
def namespace(onprem: Cluster, make_namespace: Callable[[Cluster], str]) -> str:
    """Return a namespace of this test alone in the on-premises cluster."""
    return make_namespace(onprem)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Return a folder for labs; what a failed test leaves in it is ended."""
    yield tmp_path
    for paths in launch.every_lab(tmp_path):
        launch.down(paths)


@pytest.fixture
def node_name() -> str:
    """Return a node that no test harms; a module whose tests need another kind has a fixture of this name."""
    return "l40s-1"


@pytest.fixture(scope="session", params=sandbox_modes())
def sandboxed_node(request: pytest.FixtureRequest, lab: Lab) -> str:
    """Return a node whose containers run in one kind of sandbox."""
    mode: str = request.param
    name = f"sandbox-{mode}"
    lab.cluster("onprem").add_node(NodeSpec(name, "onprem-l40s", renew_seconds=RENEW_SECONDS, sandbox=mode))
    return name


@pytest.fixture
def work(onprem: Cluster, node_name: str) -> Iterator[Workspace]:
    """Return a namespace and the node under test."""
    with Workspace.scoped(onprem, node_name) as work:
        yield work


@pytest.fixture
def other(onprem: Cluster) -> Iterator[Workspace]:
    """Return a namespace and a shared node, for a test that needs no sandbox of a certain kind."""
    with Workspace.scoped(onprem, "l40s-1") as work:
        yield work


@pytest.fixture
def spare_node(
    make_namespace: Callable[[Cluster], str],  # noqa: ARG001 - torn down after the nodes, see below
) -> Iterator[Callable[..., Node]]:
    """Return a function that adds a node which the test may harm; it is off and gone after the test."""
    added: list[Node] = []

    def add(cluster: Cluster, profile: str = "onprem-l40s", renew_seconds: float = RENEW_SECONDS) -> Node:
        name = f"spare-{uuid.uuid4().hex[:6]}"
        node = cluster.add_node(NodeSpec(name, profile, renew_seconds=renew_seconds))
        added.append(node)
        return node

    yield add
    for node in added:
        node.power_off()
        _forget(node)


def _forget(node: Node) -> None:
    """Remove a node that is off, and its pods, which would stay Terminating and hold up their namespace."""
    api = node.cluster.api
    if api.get("/api/v1/nodes", fieldSelector=f"metadata.name={node.name}")["items"]:
        node.delete_object()
    for pod in api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node.name}")["items"]:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        api.patch(path, {"metadata": {"finalizers": None}})
        api.delete(path, {"gracePeriodSeconds": 0})


@pytest.fixture
def readers_role() -> Iterator[Callable[[Cluster, str], None]]:
    """Return a function that lets a user list nodes until the end of the test."""
    made: list[tuple[Cluster, str]] = []
    group = "/apis/rbac.authorization.k8s.io/v1"

    def make(cluster: Cluster, user: str) -> None:
        name = f"list-nodes-{user.rpartition(':')[2]}"
        rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
        subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
        role = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        made.append((cluster, name))
        cluster.api.post(f"{group}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        cluster.api.post(f"{group}/clusterrolebindings", binding)

    yield make
    for cluster, name in made:
        cluster.api.delete(f"{group}/clusterrolebindings/{name}")
        cluster.api.delete(f"{group}/clusterroles/{name}")
