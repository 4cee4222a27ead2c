"""Containers that a cluster adds to the pod of a training: the one that trains decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.model.outcome import EndGrade, LossPolicy, NodeView, Outcome, OutcomeKind
from tests.unit.engine.remote_jobs import RUNNING, disrupted, ended, job, node, pod, seen, waiting

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Job, Pod

APPLICATION, INFRASTRUCTURE = OutcomeKind.APPLICATION, OutcomeKind.INFRASTRUCTURE
POLICY = LossPolicy()
DONE = ended(0, "Completed", message='{"a": 1}')


def one(training: dict[str, Any], *beside: dict[str, Any], first: bool = False, **fields: Any) -> Pod:
    """Build a pod that trains beside other containers.

    :param first: whether the one that trains is named first, which an API does not promise.
    """
    names = ["agent", "log-shipper"][: len(beside)]
    if first:
        return pod(training, *beside, containers=["training", *names], **fields)
    return pod(*beside, training, containers=[*names, "training"], **fields)


def of_one(nodes: int = 1, *conditions: tuple[str, str]) -> Job:
    """Build a Job of so many pods."""
    made = job(*conditions)
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, completions=nodes))


def end_of(*pods: Pod, of: Job | None = None, nodes: list[NodeView] | None = None) -> Outcome:
    """Classify pods of one Job."""
    return classify(seen(*pods, of=of or of_one(len(pods)), nodes=nodes or [node()]), POLICY)


@pytest.mark.parametrize("first", [True, False])
def test_a_training_that_succeeded_does_not_wait_for_what_runs_on_beside_it(first: bool) -> None:
    """Its pod holds the GPUs, so that its end is still to be brought about."""
    outcome = end_of(one(DONE, RUNNING, ended(0), first=first))
    assert (outcome.kind, outcome.grade) == (OutcomeKind.SUCCEEDED, EndGrade.UNKNOWN)
    assert "(agent) is withdrawn" in outcome.message
    assert outcome.result == '{"a": 1}'


def test_a_gang_has_succeeded_when_each_of_its_ranks_has() -> None:
    """Whatever runs on, or has failed, beside one that has."""
    done, gone = one(DONE, RUNNING), one(DONE, ended(1), phase="Failed", index=1, node="n2")
    trains = one(RUNNING, RUNNING, index=1, node="n2")
    nodes = [node(), node("n2")]
    assert end_of(done, trains, nodes=nodes).kind is OutcomeKind.RUNNING
    assert end_of(done, of=of_one(2), nodes=nodes).kind is OutcomeKind.RUNNING
    outcome = end_of(done, gone, nodes=nodes)
    assert (outcome.kind, outcome.grade) == (OutcomeKind.SUCCEEDED, EndGrade.UNKNOWN)


def test_a_container_that_fails_beside_the_training_is_a_remark() -> None:
    """While it runs, and at its end."""
    outcome = end_of(one(RUNNING, ended(1)))
    assert (outcome.kind, outcome.cause) == (OutcomeKind.RUNNING, "SidecarFailed")
    assert "agent (exit code 1)" in outcome.message
    for of in (None, of_one(1, ("Failed", "BackoffLimitExceeded"))):
        outcome = end_of(one(DONE, ended(1), phase="Failed"), of=of)
        assert (outcome.kind, outcome.grade) == (OutcomeKind.SUCCEEDED, EndGrade.CONFIRMED)
        assert "beside it failed: agent (exit code 1)" in outcome.warning
        assert outcome.result == '{"a": 1}'


@pytest.mark.parametrize("first", [True, False])
def test_the_result_is_what_the_training_left(first: bool) -> None:
    """Not what another container says in parting, not even when the training says nothing."""
    complete = of_one(1, ("Complete", ""))
    bye = ended(0, message="bye")
    assert end_of(one(DONE, bye, phase="Succeeded", first=first), of=complete).result == '{"a": 1}'
    assert end_of(one(ended(0), bye, phase="Succeeded", first=first), of=complete).result is None


def test_the_failure_of_the_training_is_its_own() -> None:
    """Also when another container failed before it, or a sidecar among the init containers with it."""
    outcome = end_of(one(ended(3), ended(1, at="09:00:00"), ended(143), phase="Failed", init=[ended(137)]))
    assert (outcome.kind, outcome.exit_code) == (APPLICATION, 3)
    assert "container training" in outcome.message
    assert end_of(one(ended(3), RUNNING)).kind is APPLICATION
    blocked = end_of(one(waiting("PodInitializing"), phase="Failed", init=[ended(5)]))
    assert (blocked.kind, blocked.exit_code) == (APPLICATION, 5)


def test_a_node_that_takes_the_pod_away_decides_over_an_exit_0() -> None:
    """It may be the answer to SIGTERM; one from before the announcement is an end of its own."""
    for done_at, kind in (("09:59:00", OutcomeKind.SUCCEEDED), ("10:00:00", INFRASTRUCTURE)):
        taken = one(
            ended(0, "Completed", at=done_at),
            ended(143),
            phase="Failed",
            conditions=[disrupted("EvictionByEvictionAPI")],
        )
        assert end_of(taken).kind is kind
    evicted = one(DONE, ended(143), phase="Failed", reason="Evicted", message="low on memory")
    assert end_of(evicted).cause == "NodePressure"


def test_a_gang_that_breaks_for_a_container_beside_a_training_is_lost_and_not_the_trainings_fault() -> None:
    """The Job stops the other ranks: they tell of a signal only."""
    nodes = [node(), node("n2")]
    broke = one(DONE, ended(1, at="10:00:00"), phase="Failed")
    stopped = one(ended(143, at="10:00:02"), ended(143), phase="Failed", index=1, node="n2")
    for other in (stopped, one(RUNNING, RUNNING, index=1, node="n2")):
        outcome = end_of(broke, other, nodes=nodes)
        assert (outcome.kind, outcome.cause, outcome.ambiguous) == (INFRASTRUCTURE, "SidecarFailed", True)
        assert "agent (exit code 1)" in outcome.message


def test_the_failure_of_another_rank_is_not_hidden_by_what_it_brings_about() -> None:
    """The Job stops the pod of the rank that had finished, and a container beside it ends by the signal."""
    nodes = [node(), node("n2")]
    stopped = one(DONE, ended(143, at="10:00:03"), phase="Failed")
    failed = one(ended(1, at="10:00:00"), ended(0), phase="Failed", index=1, node="n2")
    outcome = end_of(stopped, failed, of=of_one(2, ("Failed", "BackoffLimitExceeded")), nodes=nodes)
    assert (outcome.kind, outcome.exit_code) == (APPLICATION, 1)


def test_only_the_training_says_whether_a_pod_has_started_or_cannot() -> None:
    """A proxy that runs while the image is fetched is no start; one without an image stops no training."""
    denied = waiting("ImagePullBackOff", "403 Forbidden")
    late = seen(one(waiting("ContainerCreating"), RUNNING, phase="Pending"), of=of_one(), nodes=[node()])
    late = msgspec.structs.replace(late, waited_seconds=10_000.0)
    assert classify(late, POLICY).cause == "StartTimeout"
    assert end_of(one(denied, RUNNING, phase="Pending")).cause == "ImagePullDenied"
    assert end_of(one(RUNNING, denied, phase="Pending")).kind is OutcomeKind.RUNNING
    assert end_of(one(DONE, denied, phase="Pending")).kind is OutcomeKind.SUCCEEDED


def test_a_pod_without_a_container_of_that_name_is_judged_by_all_of_them() -> None:
    """It is not one of ours, as in a Job that was written by hand."""
    assert end_of(pod(ended(0), ended(1))).kind is APPLICATION
    assert end_of(pod(ended(0), RUNNING)).kind is OutcomeKind.RUNNING
