"""Nodes that go, fall silent or give a job up: the job moves, and an old copy can do no harm.

Nodes renew every second and count as lost after 8 seconds.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.side_by_side import params
from tests.system.outcome_checkpoints import Checkpoints, epochs_in
from tests.system.outcome_fleet import NAMESPACE, POOL_LABEL, REFUGE, SHORT_GRACE_SECONDS, pool
from tests.system.outcome_ground import (
    Case,
    Launch,
    ends,
    exits,
    launches,
    records,
    watched,
    written,
)
from tests.system.playground import LOOK_SECONDS, TASK

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.nodes import Node
    from tests.harness.side_by_side import Plays, Scenario
    from tests.system.outcome_ground import Stage
    from tests.system.playground import Run

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

#: One a second in the first remote job, many more in the second.
EPOCHS = 200
#: So many checkpoints an old copy is seen to write beside the second try.
BESIDE_STEPS = 3
#: A second job that must not come would have come by then.
NO_JOB_SECONDS = 15
FOREVER = ["/bin/sleep", "3600"]


def deleted_with_proof(stage: Stage, case: Scenario[Stage]) -> None:
    """Take the machine and then its Node object away, as a cloud does."""
    node = _node(stage, "gone-1")
    run = stage.start(case)
    watched(run)

    def take_away() -> None:
        node.power_off()
        node.delete_object()

    with stage.silent(take_away, node.start):
        run.wait_jobs(2)
    _assert_moved(run, "gone-1", "NodeGone", grade="asserted", lost=["gone-1"])


def deleted_without_proof(stage: Stage, case: Scenario[Stage]) -> None:
    """Delete the Node object while the training runs on without an agent."""
    node = _node(stage, "gone-2")
    run = stage.start(case)
    watched(run)

    def abandon() -> None:
        node.kill_agent()
        node.delete_object()

    with stage.silent(abandon, node.start):
        run.wait_jobs(2)
        assert _runs(run, 0)
    _assert_moved(run, "gone-2", "NodeGone", grade="unknown", lost=["gone-2"])


def fenced(stage: Stage, case: Scenario[Stage]) -> None:
    """Cut a node off, or kill its agent alone, under a training that goes on."""
    partition = case.id.endswith("PARTITION")
    node = _node(stage, "cut-1" if partition else "dead-1")
    run = stage.start(case)
    files = Checkpoints(run.folder / "checkpoints")
    watched(run)
    harm, mend = (node.partition, node.heal) if partition else (node.kill_agent, node.start)
    with stage.silent(harm, mend):
        run.until(lambda: files.steps(2), "the second try's first checkpoint")
        resumed = files.steps(2)[0]  # it keeps a copy of what it begins with
        loaded, before = files.hashes(1, resumed), files.steps(1)
        run.until(
            lambda: len(files.steps(1)) >= len(before) + BESIDE_STEPS,
            f"the old copy to write {BESIDE_STEPS} checkpoints more",
        )
        assert _runs(run, 0)
    run.until(lambda: not _runs(run, 0), "the old copy's end")
    old = files.steps(1)
    ends(run, "success", try_number=2)
    result = run.ground.airflow.client.xcom(run.dag_id, run.run_id, TASK)
    assert (result["fence"], result["pool"], result["epochs"]) == (2, "refuge", EPOCHS)
    assert result["resumed_from_epoch"] == resumed
    assert epochs_in(run.log(2))[0] == resumed + 1
    assert files.hashes(1, resumed) == loaded
    assert files.steps(2) == list(range(resumed, EPOCHS + 1))
    assert files.steps(1) == old == list(range(1, len(old) + 1))
    assert old[-1] < EPOCHS  # it was stopped, and had not come to its own end
    assert files.writers() == {1, 2}
    assert launches(run) == [
        Launch(node.name, "infrastructure", "NodeLost"),
        Launch("refuge", "succeeded", "Complete"),
    ]
    assert records(run)[0]["grade"] == "unknown"


def waited_for(stage: Stage, case: Scenario[Stage]) -> None:
    """Cut a node off with ``on_unreachable="wait"``: nothing is launched before it has told of the end."""
    node = _node(stage, "mute-1")
    run = stage.start(case)
    watched(run)
    with stage.silent(node.partition, node.heal):
        run.until(
            lambda: "nothing is launched before it is" in written(run, 2),
            "the second try to wait for a proof",
        )
        until = time.monotonic() + NO_JOB_SECONDS
        while time.monotonic() < until:
            assert len(run.jobs) == 1
            time.sleep(0.5)
        assert _runs(run, 0)
        healed = time.monotonic()
    run.wait_jobs(2)
    first, second = run.jobs
    assert first.running_at[-1] < second.created.seen_at
    assert healed < second.created.seen_at
    _assert_moved(run, "mute-1", "NodeLost", grade="confirmed", lost=["mute-1"])


def drained(stage: Stage, case: Scenario[Stage]) -> None:
    """Drain the node by the Eviction API."""
    node = _node(stage, "drained-1")
    run = stage.start(case)
    watched(run)
    node.drain(wait=False)
    _assert_moved(run, "drained-1", "Evicted", grade="confirmed")
    node.uncordon()


def preempted(stage: Stage, case: Scenario[Stage]) -> None:
    """Let a pod of a higher priority want the job's GPU."""
    api = stage.lab.cluster("main").api
    priority = {"metadata": {"name": "urgent"}, "value": 1000}
    api.post("/apis/scheduling.k8s.io/v1/priorityclasses", priority)
    run = stage.start(case)
    watched(run)
    gpu = {"nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "lab/other", "command": FOREVER, "resources": {"limits": gpu}}
    spec = {
        "priorityClassName": "urgent",
        "nodeSelector": {POOL_LABEL: "prey-1"},
        "restartPolicy": "Never",
        "containers": [container],
    }
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    api.post(pods, {"metadata": {"name": "urgent"}, "spec": spec})
    try:
        _assert_moved(run, "prey-1", "Preempted", grade="confirmed")
    finally:
        api.delete(f"{pods}/urgent", {"gracePeriodSeconds": 0})


def taken_back(stage: Stage, case: Scenario[Stage]) -> None:
    """Announce the end of a spot machine; then its program is stopped with SIGTERM's exit code."""
    node = _node(stage, "spot-1")
    run = stage.start(case)
    watched(run)
    node.notice("gke")
    try:
        exits(run, 143)
        _assert_moved(run, "spot-1", "NodeShutdown", grade="confirmed")
    finally:
        node.withdraw_notice()


def _assert_moved(run: Run, pool_name: str, cause: str, *, grade: str, lost: list[str] | None = None) -> None:
    """Assert that the second try, in the refuge, ends with success, and what is remembered of the first."""
    watched(run, 2)
    run.finish()
    ends(run, "success", try_number=2)
    assert launches(run) == [
        Launch(pool_name, "infrastructure", cause),
        Launch("refuge", "succeeded", "Complete"),
    ]
    first = records(run)[0]
    assert first["grade"] == grade
    if lost is not None:
        assert first["lost_nodes"] == lost
    assert cause in run.log(1)
    assert len(run.jobs) == 2


def _node(stage: Stage, name: str) -> Node:
    return stage.lab.cluster("main").node(name)


def _runs(run: Run, index: int) -> bool:
    """Whether a process of a remote job was alive a moment ago."""
    seen = run.jobs[index].running_at
    return bool(seen) and time.monotonic() - seen[-1] < LOOK_SECONDS


def _case(name: str, title: str, play: Any, node: str, **more: Any) -> Case:
    own: dict[str, Any] = {"node_grace_seconds": SHORT_GRACE_SECONDS, **more.pop("pool", {})}
    return Case(id=name, title=title, play=play, pools=(pool(node, 1.0, **own), REFUGE), operator=more)


CASES = [
    _case(
        "OUT-GONE.PROOF",
        "Node object deleted where that is a proof: the end is asserted, moved",
        deleted_with_proof,
        "gone-1",
        pool={"node_deletion_is_proof": True},
    ),
    _case(
        "OUT-GONE.NO-PROOF",
        "Node object deleted while all runs on: unknown, moved; the old job ends with its agent's return",
        deleted_without_proof,
        "gone-2",
    ),
    _case(
        "OUT-FENCE.AGENT-DEATH",
        "a dead agent under a training that goes on: the old copy writes on in its own folder alone",
        fenced,
        "dead-1",
        epochs=EPOCHS,
    ),
    _case(
        "OUT-FENCE.PARTITION",
        "a partition under a training that goes on: the old copy writes on in its own folder alone",
        fenced,
        "cut-1",
        epochs=EPOCHS,
    ),
    _case(
        "OUT-UNREACHABLE.WAIT",
        "on_unreachable=wait: no second job until the node has confirmed the end of the first",
        waited_for,
        "mute-1",
        on_unreachable="wait",
    ),
    _case("OUT-TAKEN.DRAIN", "drained: the end is confirmed, moved", drained, "drained-1"),
    _case("OUT-TAKEN.PREEMPTED", "preempted: the end is confirmed, moved", preempted, "prey-1"),
    _case("OUT-TAKEN.SPOT", "a spot machine goes: the end is confirmed, moved", taken_back, "spot-1"),
]


@pytest.mark.parametrize("scenario", params(CASES))
@pytest.mark.usefixtures("airflow")
def test_loss(
    outcome_plays: Plays[Stage], scenario: Scenario[Stage], record_property: Callable[[str, object], None]
) -> None:
    """The case's title says what must be true at its end."""
    outcome_plays.judge(scenario, record_property)
