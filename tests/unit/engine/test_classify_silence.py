"""What silence of nodes and clusters means, and how well an end is proven."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.model.outcome import EndGrade, LossPolicy, Observation, OutcomeKind
from tests.unit.engine.remote_jobs import RUNNING, disrupted, ended, failed, job, node, pod, seen

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Pod

POLICY = LossPolicy(node_grace_seconds=120, cluster_grace_seconds=900)
PROOF = LossPolicy(node_deletion_is_proof=True)

RUN, SUSPECTED, LOST = OutcomeKind.RUNNING, OutcomeKind.SUSPECTED, OutcomeKind.INFRASTRUCTURE


def with_node(
    *, job_pod: Pod | None = None, cluster: dict[str, Any] | None = None, **fields: Any
) -> Observation:
    """Observe a pod that runs on a node that looks like this."""
    return seen(job_pod or pod(RUNNING), nodes=[node(**fields)], **(cluster or {}))


@pytest.mark.parametrize(
    ("observation", "kind", "cause"),
    [
        pytest.param(with_node(silent_seconds=24), RUN, "", id="two renewals and a bit are borne"),
        pytest.param(with_node(silent_seconds=26), SUSPECTED, "NodeSilent", id="more is suspicious"),
        pytest.param(
            with_node(silent_seconds=3, renew_seconds=1),
            SUSPECTED,
            "NodeSilent",
            id="by the node's own period",
        ),
        pytest.param(with_node(silent_seconds=120), SUSPECTED, "NodeSilent", id="up to the grace"),
        pytest.param(with_node(silent_seconds=121), LOST, "NodeLost", id="beyond the grace"),
        pytest.param(
            with_node(ready="Unknown"), SUSPECTED, "NodeSilent", id="not ready alone is only suspicious"
        ),
        pytest.param(with_node(ready="False"), SUSPECTED, "NodeSilent", id="ready False alone, too"),
        pytest.param(
            with_node(ready="Unknown", ready_seconds=121), LOST, "NodeLost", id="not ready beyond the grace"
        ),
        pytest.param(
            with_node(ready="True", ready_seconds=9999), RUN, "", id="ready for long is nothing to suspect"
        ),
        pytest.param(
            with_node(rebooted=True), LOST, "NodeRebooted", id="booted anew, whatever its pods' status says"
        ),
        pytest.param(
            with_node(
                job_pod=pod(RUNNING, deleting=True),
                cluster={"now": datetime(2026, 1, 5, 10, 14, tzinfo=UTC)},
            ),
            RUN,
            "",
            id="it should have ended a while ago",
        ),
        pytest.param(
            with_node(
                job_pod=pod(RUNNING, deleting=True),
                cluster={"now": datetime(2026, 1, 5, 10, 16, tzinfo=UTC)},
            ),
            LOST,
            "NodeLost",
            id="it should have ended so long ago that no clock is that wrong",
        ),
        pytest.param(
            seen(pod(RUNNING, deleting=True), now=datetime(2026, 1, 5, 12, tzinfo=UTC)),
            LOST,
            "NodeLost",
            id="the same where nothing is known of its node",
        ),
        pytest.param(with_node(exists=False), LOST, "NodeGone", id="the node's object is gone"),
        pytest.param(with_node(out_of_service=True), LOST, "NodeLost", id="marked out of service"),
        pytest.param(
            with_node(
                job_pod=pod(RUNNING, conditions=[disrupted("DeletionByTaintManager")], deleting=True),
                ready="Unknown",
            ),
            LOST,
            "NodeLost",
            id="the cluster has given the node up",
        ),
        pytest.param(
            with_node(job_pod=pod(RUNNING, conditions=[disrupted("EvictionByEvictionAPI")], deleting=True)),
            RUN,
            "",
            id="a drain of a living node ends by itself",
        ),
        pytest.param(
            with_node(job_pod=pod(phase="Unknown"), silent_seconds=60),
            SUSPECTED,
            "NodeSilent",
            id="phase Unknown",
        ),
        pytest.param(
            with_node(job_pod=pod(ended(0, "Completed"), phase="Succeeded"), silent_seconds=999),
            RUN,
            "",
            id="a pod that has ended needs no node",
        ),
        pytest.param(
            with_node(silent_seconds=121, cluster={"stale_share": 0.5, "stale_nodes": 1}),
            LOST,
            "NodeLost",
            id="one of two nodes",
        ),
        pytest.param(
            with_node(silent_seconds=121, cluster={"stale_share": 1.0, "stale_nodes": 1}),
            LOST,
            "NodeLost",
            id="the only node",
        ),
        pytest.param(
            with_node(silent_seconds=121, cluster={"stale_share": 1.0, "stale_nodes": 3}),
            LOST,
            "NodeLost",
            id="all of three nodes",
        ),
        pytest.param(
            with_node(silent_seconds=121, cluster={"stale_share": 0.5, "stale_nodes": 2}),
            SUSPECTED,
            "ClusterSilent",
            id="two of four nodes are the cluster's fault",
        ),
        pytest.param(
            with_node(silent_seconds=121, cluster={"stale_share": 0.3, "stale_nodes": 30}),
            LOST,
            "NodeLost",
            id="less than a third",
        ),
        pytest.param(
            with_node(silent_seconds=901, cluster={"stale_share": 0.5, "stale_nodes": 2}),
            LOST,
            "ClusterSilent",
            id="the cluster's grace ends as well",
        ),
        pytest.param(
            seen(pod(RUNNING), unreachable_seconds=20), RUN, "", id="a short break of the connection"
        ),
        pytest.param(
            seen(pod(RUNNING), unreachable_seconds=60),
            SUSPECTED,
            "ClusterUnreachable",
            id="the cluster does not answer",
        ),
        pytest.param(
            seen(pod(RUNNING), unreachable_seconds=901), LOST, "ClusterUnreachable", id="nor after its grace"
        ),
        pytest.param(
            with_node(silent_seconds=130, cluster={"unreachable_seconds": 20}),
            SUSPECTED,
            "NodeSilent",
            id="a node is not blamed for what could not be heard",
        ),
    ],
)
def test_silence_is_suspicion_and_then_loss(observation: Observation, kind: OutcomeKind, cause: str) -> None:
    """The watcher's own clock decides; evidence that says more acts at once."""
    outcome = classify(observation, POLICY)
    assert (outcome.kind, outcome.cause) == (kind, cause)


def test_a_lost_node_is_named_and_the_survivor_warned_of() -> None:
    """The processes on a silent node may live on."""
    outcome = classify(with_node(silent_seconds=121), POLICY)
    assert outcome.nodes == ("n1",)
    assert outcome.grade is EndGrade.UNKNOWN
    assert outcome.message == (
        "node n1 is lost: silent for 121 s, longer than the 120 s allowed; its processes may still run"
    )


def test_the_nodes_of_a_silent_cluster_are_not_blamed() -> None:
    """They are as good as any when the cluster is back."""
    outcome = classify(with_node(silent_seconds=901, cluster={"stale_share": 0.5, "stale_nodes": 2}), POLICY)
    assert outcome.nodes == ()


def test_peers_that_died_of_a_lost_node_are_not_the_cause() -> None:
    """An exit code elsewhere in the gang does not hide the loss."""
    pods = (failed(1, index=0, node="n1"), pod(RUNNING, index=1, node="n2"))
    nodes = [node("n1"), node("n2", silent_seconds=30.0)]
    assert classify(seen(*pods, nodes=nodes), POLICY).kind is SUSPECTED
    nodes = [node("n1"), node("n2", silent_seconds=121.0)]
    outcome = classify(seen(*pods, nodes=nodes), POLICY)
    assert (outcome.kind, outcome.cause, outcome.nodes) == (LOST, "NodeLost", ("n2",))


def test_a_cause_that_explains_itself_is_not_hidden_by_a_later_loss() -> None:
    """Running out of memory is the job's own fault, whatever happens to a peer."""
    pods = (failed(137, "OOMKilled", index=0, node="n1"), pod(RUNNING, index=1, node="n2"))
    outcome = classify(seen(*pods, nodes=[node("n1"), node("n2", silent_seconds=999.0)]), POLICY)
    assert outcome.cause == "OOMKilled"


@pytest.mark.parametrize(
    ("observation", "policy", "want"),
    [
        pytest.param(seen(failed(1)), POLICY, EndGrade.CONFIRMED, id="the node reported the end"),
        pytest.param(
            seen(failed(143, conditions=[disrupted("DeletionByTaintManager")]), nodes=[node()]),
            POLICY,
            EndGrade.CONFIRMED,
            id="the node came back and reported the end",
        ),
        pytest.param(with_node(exists=False), POLICY, EndGrade.UNKNOWN, id="a deleted Node proves nothing"),
        pytest.param(
            with_node(rebooted=True), POLICY, EndGrade.CONFIRMED, id="a boot ended everything on it"
        ),
        pytest.param(
            with_node(exists=False), PROOF, EndGrade.ASSERTED, id="where a cloud deletes it, it does"
        ),
        pytest.param(
            with_node(out_of_service=True), POLICY, EndGrade.ASSERTED, id="out of service is a promise"
        ),
        pytest.param(
            with_node(
                job_pod=pod(RUNNING, phase="Failed", conditions=[disrupted("DeletionByPodGC")]), exists=False
            ),
            POLICY,
            EndGrade.UNKNOWN,
            id="a phase written by the control plane proves nothing",
        ),
        pytest.param(
            seen(failed(1, index=0), pod(RUNNING, index=1), of=job(("Failed", ""))),
            POLICY,
            EndGrade.UNKNOWN,
            id="the least proven pod counts",
        ),
        pytest.param(
            seen(failed(1, index=0), pod(node="", phase="Pending", index=1)),
            POLICY,
            EndGrade.CONFIRMED,
            id="a pod that found no node runs nowhere",
        ),
        pytest.param(
            seen(pod(ended(1), RUNNING, phase="Running")),
            POLICY,
            EndGrade.UNKNOWN,
            id="one container is left",
        ),
        pytest.param(
            seen(pod(RUNNING), gone=True), POLICY, EndGrade.UNKNOWN, id="a deleted Job proves nothing"
        ),
    ],
)
def test_an_end_is_graded_by_its_proof(observation: Observation, policy: LossPolicy, want: EndGrade) -> None:
    """Only the node's own report confirms; a promise of somebody who should know asserts."""
    outcome = classify(observation, policy)
    assert outcome.final
    assert outcome.grade is want
