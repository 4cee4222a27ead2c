"""What is left out of an object never changes what is concluded from it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.engine.node_evidence import node_view
from airflow_gpu_placement.engine.ranks import index_of
from airflow_gpu_placement.model.kube import (
    Condition,
    ContainerState,
    ContainerStatus,
    Job,
    JobSpec,
    JobStatus,
    Node,
    NodeInfo,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodStatus,
    Taint,
)
from airflow_gpu_placement.watch.slim import slim_job, slim_node, slim_pod
from tests.cases.adapters.reading import UnreadableError
from tests.cases.adapters.remote_job import loss_policy, observation

CASES = sorted((Path(__file__).parents[2] / "cases" / "data").glob("*.json"))
ABOUT_A_JOB = [
    path for path in CASES if json.loads(path.read_text())["input"].keys() & {"pod", "pods", "job"}
]


@pytest.mark.parametrize("path", ABOUT_A_JOB, ids=lambda path: path.stem)
def test_every_case_is_judged_the_same(path: Path) -> None:
    """Pods and Jobs of all recorded cases lead to the very same outcome."""
    facts = json.loads(path.read_text())["input"]
    try:
        seen = observation(facts)
    except UnreadableError:
        pytest.skip("not about one remote job")
    slim = msgspec.structs.replace(
        seen,
        pods=tuple(map(slim_pod, seen.pods)),
        job=None if seen.job is None else slim_job(seen.job),
    )
    policy = loss_policy(facts)
    assert classify(slim, policy) == classify(seen, policy)
    assert list(map(index_of, slim.pods)) == list(map(index_of, seen.pods))


def test_a_node_is_seen_the_same() -> None:
    """Readiness, taints, faults, pressure, boot id and processor."""
    conditions = (
        ("Ready", "True"),
        ("XIDErrors", "True"),
        ("MemoryPressure", "True"),
        ("DiskPressure", "False"),
    )
    node = Node(
        metadata=ObjectMeta(name="n", uid="u", labels={"kubernetes.io/arch": "arm64", "other": "label"}),
        spec=NodeSpec(taints=(Taint(key="karpenter.sh/disrupted", effect="NoSchedule"),)),
        status=NodeStatus(
            capacity={"cpu": "8"},
            conditions=tuple(
                Condition(type=type_, status=status, message="words") for type_, status in conditions
            ),
            node_info=NodeInfo(boot_id="b2"),
        ),
    )
    assert node_view("n", slim_node(node), known_boot_id="b1") == node_view("n", node, known_boot_id="b1")


def test_pods_and_jobs_share_what_is_equal_in_them() -> None:
    """A triggerer keeps thousands that differ in little more than their names."""
    began = "2026-01-05T10:00:00Z"
    conditions = tuple(
        Condition(type=type_, status="True", last_transition_time=began)
        for type_ in ("Initialized", "Ready", "PodScheduled", "DisruptionTarget")
    )

    def pod(name: str) -> Pod:
        status = PodStatus(
            phase="".join(("Run", "ning")),
            conditions=conditions,
            container_statuses=(ContainerStatus(name="training", last_state=ContainerState()),),
        )
        return slim_pod(Pod(metadata=ObjectMeta(name=name, labels={"app": "x"}), status=status))

    one, other = pod("a"), pod("b")
    assert [condition.type for condition in one.status.conditions] == ["PodScheduled", "DisruptionTarget"]
    assert one.status.conditions[0] is other.status.conditions[0]
    assert one.status.conditions[1].last_transition_time == began
    assert one.status.phase is other.status.phase
    assert one.status.container_statuses[0].last_state is other.status.container_statuses[0].last_state
    assert one.metadata.labels is other.metadata.annotations is one.spec.node_selector
    first, second = (slim_job(Job(spec=JobSpec(completions=2), status=JobStatus(active=2))) for _ in "ab")
    assert first.status is second.status
    assert first.spec is second.spec


def test_what_is_not_looked_at_is_not_kept() -> None:
    """Labels, capacity and words of a node, of which a large cluster has many."""
    conditions = (Condition(type="Ready", status="True", message="words"),)
    node = Node(
        metadata=ObjectMeta(name="n", labels={"a": "b"}),
        status=NodeStatus(capacity={"cpu": "8"}, conditions=conditions),
    )
    slim = slim_node(node)
    assert slim.metadata.labels == {}
    assert slim.status.capacity == {}
    assert slim.status.conditions[0] is slim_node(node).status.conditions[0]
