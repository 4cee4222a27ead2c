"""Each turn of a remote job is told once."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.model.kube import (
    ContainerState,
    ContainerStatus,
    Job,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Running,
)
from airflow_gpu_placement.model.outcome import Observation, Outcome, OutcomeKind
from airflow_gpu_placement.watch.phases import PhaseReporter

RUNNING = Outcome(kind=OutcomeKind.RUNNING)


def pod(rank: int, node: str = "", *, running: bool = False) -> Pod:
    """Return a pod of a gang."""
    labels = {"batch.kubernetes.io/job-completion-index": str(rank)}
    state = ContainerState(running=Running()) if running else ContainerState()
    return Pod(
        metadata=ObjectMeta(name=f"gp-{rank}", uid=str(rank), labels=labels),
        spec=PodSpec(node_name=node),
        status=PodStatus(container_statuses=(ContainerStatus(name="training", state=state),)),
    )


def observed(*pods: Pod) -> Observation:
    """Return an observation of some pods."""
    return Observation(job=Job(), pods=pods)


@pytest.fixture
def told() -> list[str]:
    """Return the list of what was told."""
    return []


@pytest.fixture
def reporter(told: list[str]) -> PhaseReporter:
    """Return a reporter that fills the list."""
    return PhaseReporter(told.append)


def test_binding_and_start_are_told_for_each_pod_once(reporter: PhaseReporter, told: list[str]) -> None:
    """In the order of ranks, however often an observation repeats."""
    for _ in range(3):
        reporter.update(observed(pod(1, "n2"), pod(0, "n1")), RUNNING)
    for _ in range(3):
        reporter.update(observed(pod(1, "n2", running=True), pod(0, "n1", running=True)), RUNNING)
    assert told == [
        "pod gp-0 is bound to node n1",
        "pod gp-1 is bound to node n2",
        "pod gp-0 is running (1 of 2)",
        "pod gp-1 is running (2 of 2)",
    ]


def test_a_suspicion_is_told_once_and_taken_back_once(reporter: PhaseReporter, told: list[str]) -> None:
    """The growing number of seconds is not news; another suspicion is."""
    for seconds in (21, 22, 23):
        suspected = Outcome(
            kind=OutcomeKind.SUSPECTED, cause="NodeSilent", nodes=("n1",), message=f"n1: {seconds} s"
        )
        reporter.update(observed(), suspected)
    reporter.update(observed(), RUNNING)
    reporter.update(observed(), RUNNING)
    assert told == ["suspected: n1: 21 s", "node n1 is no longer suspected"]


def test_a_reason_to_wait_is_told_when_it_changes(reporter: PhaseReporter, told: list[str]) -> None:
    """As the scheduler words it."""
    for message in ("no node fits", "no node fits", "2 nodes are full", ""):
        reporter.update(observed(), Outcome(kind=OutcomeKind.RUNNING, message=message))
    assert told == ["no node fits", "2 nodes are full"]


def test_the_end_is_told(reporter: PhaseReporter, told: list[str]) -> None:
    """Without a word that a suspicion has gone, when it has come true."""
    reporter.update(
        observed(), Outcome(kind=OutcomeKind.SUSPECTED, cause="NodeSilent", nodes=("n1",), message="n1")
    )
    reporter.update(
        observed(), Outcome(kind=OutcomeKind.INFRASTRUCTURE, cause="NodeLost", message="node n1 is lost")
    )
    assert told == ["suspected: n1", "NodeLost: node n1 is lost"]


def test_troubles_that_are_worded_anew_each_time_do_not_fill_the_log(
    reporter: PhaseReporter, told: list[str]
) -> None:
    """A credential plugin tells the number of each request that was refused, for days if nobody mends it."""
    for request in range(1000):
        reporter.tell_troubles(frozenset({f"request {request} was refused", "403: no"}))
    assert len(told) <= 21
    assert sum("403: no" in line for line in told) == 1
