"""What an outcome tells beside its kind: pod, node, flags, and the first cause of a gang."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.engine.classify import classify
from airflow_gpu_placement.model.kube import ContainerState, Terminated
from airflow_gpu_placement.model.outcome import EndGrade, LossPolicy, Observation, OutcomeKind
from tests.unit.engine.remote_jobs import RUNNING, disrupted, ended, failed, job, node, pod, seen

POLICY = LossPolicy()

APPLICATION, INFRASTRUCTURE = OutcomeKind.APPLICATION, OutcomeKind.INFRASTRUCTURE
CONFIGURATION, CANCELLED = OutcomeKind.CONFIGURATION, OutcomeKind.CANCELLED


def test_the_message_names_pod_node_and_exit_code() -> None:
    """A person can go and look; what the program left is there."""
    outcome = classify(seen(pod(ended(3, message="loss is nan"), phase="Failed")), POLICY)
    assert outcome.message == "pod w-0 on node n1 exited with code 3 (container main): loss is nan"
    assert (outcome.exit_code, outcome.pod, outcome.nodes) == (3, "w-0", ())


def test_running_out_of_memory_names_the_limit() -> None:
    """The limit is what to change."""
    outcome = classify(seen(failed(137, "OOMKilled", memory="64Gi")), POLICY)
    assert "its memory limit of 64Gi" in outcome.message


def test_a_container_that_is_started_again_and_again_has_ended() -> None:
    """It never becomes a failed pod by itself."""
    looping = pod({"waiting": {"reason": "CrashLoopBackOff"}})
    again = msgspec.structs.replace(
        looping.status.container_statuses[0],
        restart_count=5,
        last_state=ContainerState(terminated=Terminated(exit_code=3, reason="Error")),
    )
    status = msgspec.structs.replace(looping.status, container_statuses=(again,))
    outcome = classify(seen(msgspec.structs.replace(looping, status=status)), POLICY)
    assert (outcome.kind, outcome.exit_code) == (APPLICATION, 3)
    assert outcome.message == "pod w-0 on node n1 exited with code 3 (container main), 5 times"
    first = seen(pod({"waiting": {"reason": "CrashLoopBackOff"}}))
    assert classify(first, POLICY).kind is OutcomeKind.RUNNING


def test_what_may_be_otherwise_is_flagged() -> None:
    """A bare SIGKILL is taken as the job's own fault, and said to be a guess."""
    assert classify(seen(failed(137)), POLICY).ambiguous
    assert not classify(seen(failed(1)), POLICY).ambiguous


@pytest.mark.parametrize(
    ("refused", "want"),
    [
        pytest.param({"reason": "OutOfmemory"}, True, id="refused"),
        pytest.param({"reason": "NodeShutdown"}, True, id="arrived during the shutdown"),
        pytest.param({"reason": "Shutdown"}, False, id="shut down while it may have run"),
    ],
)
def test_a_pod_that_never_started_is_told(refused: dict[str, Any], want: bool) -> None:
    """Nothing ran, so nothing is left behind."""
    outcome = classify(seen(pod(phase="Failed", **refused)), POLICY)
    assert outcome.never_started is want
    assert outcome.grade is (EndGrade.CONFIRMED if want else EndGrade.UNKNOWN)


@pytest.mark.parametrize(
    ("observation", "nodes"),
    [
        pytest.param(seen(failed(137, conditions=[disrupted("PreemptionByScheduler")])), (), id="preemption"),
        pytest.param(seen(failed(143, conditions=[disrupted("EvictionByEvictionAPI")])), (), id="a drain"),
        pytest.param(seen(pod(phase="Failed", reason="OutOfcpu")), (), id="a full node"),
        pytest.param(
            seen(pod(phase="Failed", reason="UnexpectedAdmissionError")), ("n1",), id="broken devices"
        ),
        pytest.param(seen(failed(137, reason="Terminated")), ("n1",), id="a shutdown"),
        pytest.param(
            seen(failed(137, conditions=[disrupted("DeletionByTaintManager")])),
            ("n1",),
            id="a node that came back",
        ),
    ],
)
def test_only_a_node_that_is_at_fault_is_avoided(observation: Observation, nodes: tuple[str, ...]) -> None:
    """A node that was merely wanted by somebody else is as good as any."""
    assert classify(observation, POLICY).nodes == nodes


@pytest.mark.parametrize(
    ("pods", "cause", "culprit"),
    [
        pytest.param(
            (failed(1, at="10:00:20", index=0), failed(7, at="10:00:00", index=1)),
            "Error",
            "w-1",
            id="the earliest",
        ),
        pytest.param(
            (failed(143, at="09:59:59", index=0), failed(7, at="10:00:00", index=1)),
            "Error",
            "w-1",
            id="a signal is never the first cause",
        ),
        pytest.param(
            (failed(137, deleting=True, at="09:59:59", index=0), failed(7, at="10:00:00", index=1)),
            "Error",
            "w-1",
            id="nor is a pod that was deleted",
        ),
        pytest.param(
            (failed(1, at="10:00:00", index=0), failed(137, "OOMKilled", at="10:00:03", index=1)),
            "OOMKilled",
            "w-1",
            id="a reason that explains, within the skew of clocks",
        ),
        pytest.param(
            (
                failed(1, at="10:00:00", index=0),
                failed(
                    143, at="10:00:30", index=1, conditions=[disrupted("PreemptionByScheduler", "10:00:02")]
                ),
            ),
            "Preempted",
            "w-1",
            id="its peer was taken away at the same moment",
        ),
        pytest.param(
            (
                failed(1, at="10:00:00", index=0),
                failed(
                    143, at="10:02:00", index=1, conditions=[disrupted("PreemptionByScheduler", "10:01:30")]
                ),
            ),
            "Error",
            "w-0",
            id="its peer was taken away much later",
        ),
        pytest.param(
            (failed(1, at="10:00:00", index=0), failed(137, "ContainerStatusUnknown", at=None, index=1)),
            "ContainerStatusUnknown",
            "w-1",
            id="its peer's node rebooted",
        ),
    ],
)
def test_a_gang_ends_for_its_first_cause(pods: tuple[Any, ...], cause: str, culprit: str) -> None:
    """The others die of it."""
    outcome = classify(seen(*pods), POLICY)
    assert (outcome.cause, outcome.pod) == (cause, culprit)


def test_an_exit_code_waits_for_peers_that_may_have_died_first() -> None:
    """When a node loses power its peers exit at once, while it is still believed alive."""
    pods = (failed(1, index=0, node="n1"), pod(RUNNING, index=1, node="n2"))
    nodes = [node("n1"), node("n2", silent_seconds=4.0)]
    assert classify(seen(*pods, nodes=nodes), POLICY).cause == "AwaitingPeers"
    # The node was heard of after the failure: it did not cause it.
    outcome = classify(seen(*pods, nodes=nodes, failing_seconds=8.0), POLICY)
    assert (outcome.kind, outcome.pod) == (APPLICATION, "w-0")
    # The Job says that all its pods have ended.
    outcome = classify(seen(*pods, nodes=nodes, of=job(("Failed", "BackoffLimitExceeded"))), POLICY)
    assert outcome.kind is APPLICATION
    # The peer's object is gone: its node took it down.
    outcome = classify(seen(*pods, nodes=nodes, vanished=frozenset({"uid-1"})), POLICY)
    assert outcome.kind is APPLICATION
