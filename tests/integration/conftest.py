"""Fixtures for tests against real control planes: one small fleet for the session, a namespace a test.

A test that harms a node adds its own (``spare_node``); the others are shared.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from lab import ClusterSpec, Lab, LabSpec, NodeSpec
from lab.airflow import diagnostics
from tests.integration.cluster_support import RENEW_SECONDS, SHARED_NODE, remove_namespace, remove_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab import Cluster, Node

SPEC = LabSpec(
    node_monitor_grace_seconds=8,
    clusters=(
        ClusterSpec(
            "onprem",
            users=("visitor",),
            nodes=(NodeSpec(SHARED_NODE, "onprem-h100-sxm", renew_seconds=RENEW_SECONDS),),
        ),
    ),
)


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Run the session's fleet."""
    with Lab.up(SPEC, name="integration", home=tmp_path_factory.mktemp("labs")) as running:
        tails = running.log_tails
        diagnostics.register("lab", lambda: "\n".join(f"--- {k}\n{v}" for k, v in tails().items()))
        try:
            yield running
        finally:
            diagnostics.unregister("lab")


@pytest.fixture
def cluster(fleet: Lab) -> Cluster:
    """Return the cluster of the fleet."""
    return fleet.cluster("onprem")


@pytest.fixture
def spare_node(cluster: Cluster) -> Iterator[Callable[[], Node]]:
    """Return a function that adds a node with eight H100 which the test may harm."""
    added: list[Node] = []

    def add() -> Node:
        name = f"spare-{uuid.uuid4().hex[:6]}"
        added.append(cluster.add_node(NodeSpec(name, "onprem-h100-sxm", renew_seconds=RENEW_SECONDS)))
        return added[-1]

    yield add
    for node in added:
        remove_node(node)


@pytest.fixture
def namespace(
    cluster: Cluster,
    spare_node: Callable[[], Node],  # noqa: ARG001 - nodes go last: they have to end the pods
) -> Iterator[str]:
    """Return a namespace of this test alone; it goes with all that is in it."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    cluster.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    remove_namespace(cluster, name)
