"""What proves that a pod's processes have ended, and what does not."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.launch.evidence import asserted, reported_ended, vanished_ended, worst
from airflow_gpu_placement.model.kube import (
    Condition,
    Container,
    ContainerState,
    ContainerStatus,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    Running,
    Taint,
    Terminated,
    Waiting,
)
from airflow_gpu_placement.model.outcome import EndGrade

WAITING = ContainerState(waiting=Waiting(reason="ContainerCreating"))
RUNNING = ContainerState(running=Running())
ENDED = ContainerState(terminated=Terminated(exit_code=143))
PODGC = Condition(type="DisruptionTarget", status="True", reason="DeletionByPodGC")
EVICTED = Condition(type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI")


def pod(
    *states: ContainerState,
    phase: str = "Running",
    node: str = "n1",
    conditions: tuple[Condition, ...] = (),
    containers: int = 1,
) -> Pod:
    """Return a pod whose containers are in these states."""
    statuses = tuple(ContainerStatus(name=f"c{i}", state=state) for i, state in enumerate(states))
    return Pod(
        spec=PodSpec(node_name=node, containers=(Container(name="c"),) * containers),
        status=PodStatus(phase=phase, container_statuses=statuses, conditions=conditions),
    )


def node(ready: str = "True", *taints: Taint) -> Node:
    """Return a node."""
    return Node(
        spec=NodeSpec(taints=taints), status=NodeStatus(conditions=(Condition(type="Ready", status=ready),))
    )


@pytest.mark.parametrize(
    ("seen", "proven"),
    [
        (pod(RUNNING), False),
        (pod(WAITING, phase="Pending"), False),
        (pod(ENDED, phase="Failed"), True),
        (pod(ENDED, phase="Succeeded"), True),
        (pod(ENDED, phase="Failed", conditions=(EVICTED,)), True),
        (pod(ENDED, RUNNING, containers=2), False),
        (pod(ENDED, containers=2), False),
        # The garbage collector writes the phase, not the node.
        (pod(RUNNING, phase="Failed", conditions=(PODGC,)), False),
        (pod(WAITING, phase="Failed", conditions=(PODGC,)), False),
        (pod(phase="Failed", conditions=(PODGC,)), False),
        (pod(ENDED, phase="Failed", conditions=(PODGC,)), True),
        # A hand that writes the phase does not stop the process.
        (pod(RUNNING, phase="Failed"), False),
        # Refused by the node before anything started.
        (pod(phase="Failed"), True),
        (pod(phase="Pending", node=""), False),
    ],
)
def test_only_the_nodes_own_report_proves_the_end(seen: Pod, proven: bool) -> None:
    """The last state tells, the phase alone does not."""
    assert reported_ended(seen) is proven


@pytest.mark.parametrize(
    ("last", "at", "proven"),
    [
        (pod(RUNNING), node(), False),
        (pod(RUNNING), None, False),
        (pod(ENDED, phase="Failed"), None, True),
        (pod(phase="Pending", node=""), None, True),
        (pod(phase="Pending"), node(), True),
        (pod(WAITING, phase="Pending"), node(), True),
        # A silent node may start it yet.
        (pod(WAITING, phase="Pending"), node("Unknown"), False),
        (pod(WAITING, phase="Pending"), None, False),
        (pod(WAITING, phase="Failed", conditions=(PODGC,)), node(), False),
    ],
)
def test_a_vanished_object_proves_nothing_by_itself(last: Pod, at: Node | None, proven: bool) -> None:
    """It depends on the last state and on who was there to remove it."""
    assert vanished_ended(last, at) is proven


def test_who_may_vouch_for_a_machine() -> None:
    """The cloud that deletes Nodes after machines, if the pool says so, and an operator's taint."""
    taint = Taint(key="node.kubernetes.io/out-of-service", value="nodeshutdown", effect="NoExecute")
    assert asserted(None, node_deletion_is_proof=True)
    assert not asserted(None, node_deletion_is_proof=False)
    assert asserted(node("Unknown", taint), node_deletion_is_proof=False)
    assert not asserted(node("Unknown"), node_deletion_is_proof=True)


def test_a_job_is_as_proven_as_its_worst_pod() -> None:
    """One unknown pod makes the whole unknown; of no pods nothing ran."""
    assert worst([]) is EndGrade.CONFIRMED
    assert worst([EndGrade.CONFIRMED, EndGrade.ASSERTED]) is EndGrade.ASSERTED
    assert worst([EndGrade.UNKNOWN, EndGrade.CONFIRMED]) is EndGrade.UNKNOWN
