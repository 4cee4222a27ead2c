"""Remote jobs that do not start in time, tasks that wait for a pool, and the one deadline over everything."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness import gates
from tests.harness.side_by_side import params
from tests.system.fleet import occupied
from tests.system.outcome_fleet import JOB_QUOTA, NO_JOBS, NO_PODS, QUOTA, REFUGE, pool
from tests.system.outcome_ground import (
    Case,
    Launch,
    ends,
    job_exists,
    launches,
    records,
    watched,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.airflow.records import TaskInstance
    from tests.harness.side_by_side import Plays, Scenario
    from tests.system.outcome_ground import Stage
    from tests.system.playground import Run

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

#: Longer than it takes until the events are read that say why no pod appears.
FIRST_START_TIMEOUT_SECONDS = 17
PLACEMENT_TIMEOUT_SECONDS = 20
EXECUTION_TIMEOUT_SECONDS = 60
LATEST_SECONDS = 30
LOOKS = 3
DEFERRED = "Pausing task as DEFERRED"


def moved(stage: Stage, case: Scenario[Stage]) -> None:
    """Taint the node between the decision and the scheduler's turn, so that the pod fits nowhere."""
    node = stage.lab.cluster("main").node("tainted-1")
    run = stage.start(case, hold=gates.AFTER_INTENT)
    path = f"/api/v1/nodes/{node.name}"
    taint = {"key": "example.com/maintenance", "effect": "NoSchedule"}
    node.cluster.api.patch(path, {"spec": {"taints": [taint]}})
    try:
        run.release(gates.AFTER_INTENT)
        watched(run, 2)
        run.finish()
        ends(run, "success", try_number=1)
    finally:
        node.cluster.api.patch(path, {"spec": {"taints": []}})
    assert launches(run) == [
        Launch("tainted-1", "infrastructure", "StartTimeout"),
        Launch("refuge", "succeeded", "Complete"),
    ]
    assert [(one.get("move", 0), one["fence"], one["try_number"]) for one in records(run)] == [
        (0, 1, 1),
        (1, 2, 1),
    ]
    first, second = run.jobs
    assert not job_exists(stage.lab, "main", first.name)
    assert second.succeeded
    assert "1 node(s) had untolerated taint(s)" in run.log(1)


def three_moves(stage: Stage, case: Scenario[Stage]) -> None:
    """Offer pools in a namespace whose quota allows no pod: three moves, then the task fails."""
    run = stage.start(case)
    ends(run, "failed", try_number=1)
    names = [one["name"] for one in QUOTA_POOLS]
    assert launches(run) == [Launch(name, "infrastructure", "StartTimeout") for name in names[:4]]
    assert [one.get("move", 0) for one in records(run)] == [0, 1, 2, 3]
    log = run.log(1)
    assert f"exceeded quota: {QUOTA}" in log, log
    assert "RemoteJobLost" in log
    left = [
        one["job_name"] for one in records(run) if job_exists(stage.lab, "main", one["job_name"], NO_PODS)
    ]
    assert left == []


def refused(stage: Stage, case: Scenario[Stage]) -> None:
    """Offer pools in a namespace whose quota allows no Job, and raise the quota once all have been tried."""
    run = stage.start(case)
    wait_looks(run, LOOKS)
    left = {one["pool"]: one for one in records(run)}
    assert sorted(left) == ["jobs-1", "jobs-2"]
    assert {one["cause"] for one in left.values()} == {"QuotaExceeded"}
    assert {one["grade"] for one in left.values()} == {"confirmed"}
    path = f"/api/v1/namespaces/{NO_JOBS}/resourcequotas/{JOB_QUOTA}"
    stage.lab.cluster("main").api.patch(path, {"spec": {"hard": {"count/jobs.batch": "1"}}})
    run.finish()
    ends(run, "success", try_number=1)
    assert launches(run)[-1][1:] == ("succeeded", "Complete")
    assert len(records(run)) <= 3
    log = run.log(1)
    assert "2 JobRefused" in log, log
    assert f"exceeded quota: {JOB_QUOTA}" in log, log


def freed(stage: Stage, case: Scenario[Stage]) -> None:
    """Take the only GPU until the task has looked for it several times."""
    give_back = occupied(stage.lab, "main", "busy-1", 1)
    run = stage.start(case)
    try:
        wait_looks(run, LOOKS)
    finally:
        give_back()
    watched(run)
    run.finish()
    ends(run, "success", try_number=1)
    log = run.log(1)
    assert launches(run) == [Launch("busy-1", "succeeded", "Complete")]
    assert log.count("0/1 GPU pools fit") == 1, log
    assert log.count("1/1 GPU pools fit") == 1, log


def placement_timeout(stage: Stage, case: Scenario[Stage]) -> None:
    """Take the only GPU for longer than the task may wait."""
    give_back = occupied(stage.lab, "main", "busy-2", 1)
    run = stage.start(case)
    try:
        task = ends(run, "failed", try_number=1)
    finally:
        give_back()
    log = run.log(1)
    error = log[log.index("PlacementTimeout") :]
    assert "busy-2" in error, error
    assert run.jobs == []
    assert PLACEMENT_TIMEOUT_SECONDS <= seconds_of(task) <= PLACEMENT_TIMEOUT_SECONDS + LATEST_SECONDS


def deadline(stage: Stage, case: Scenario[Stage]) -> None:
    """Let a task wait for its pool first and train afterwards: the deadline counts from its start."""
    give_back = occupied(stage.lab, "main", "busy-3", 1)
    run = stage.start(case)
    try:
        wait_looks(run, 2)
    finally:
        give_back()
    run.wait_deferred(1)
    job = stage.lab.cluster("main").api.get(f"/apis/batch/v1/namespaces/training/jobs/{run.jobs[0].name}")
    began = datetime.fromisoformat(run.task.start_date or "")
    created = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    left = EXECUTION_TIMEOUT_SECONDS - (created - began).total_seconds()
    assert left < job["spec"]["activeDeadlineSeconds"] < left + 600
    task = ends(run, "failed", try_number=1)
    assert EXECUTION_TIMEOUT_SECONDS <= seconds_of(task) <= EXECUTION_TIMEOUT_SECONDS + LATEST_SECONDS
    assert launches(run) == [Launch("busy-3", "cancelled", "ExecutionTimeout")]
    assert not job_exists(stage.lab, "main", run.jobs[0].name)
    assert "AirflowTaskTimeout" in run.log(1)


def timed_out_and_retried(stage: Stage, case: Scenario[Stage]) -> None:
    """Let the first of two tries run out of time: the second has the whole time again."""
    run = stage.start(case)
    watched(run, 2)
    run.finish()
    ends(run, "success", try_number=2)
    assert launches(run) == [
        Launch("calm", "cancelled", "ExecutionTimeout"),
        Launch("calm", "succeeded", "Complete"),
    ]
    assert not job_exists(stage.lab, "main", run.jobs[0].name)


def wait_looks(run: Run, count: int) -> None:
    """Wait until a task has looked for a pool so many times."""
    run.wait("deferred")
    run.until(lambda: written(run, 1).count(DEFERRED) >= count, f"{count} looks for a pool")


def seconds_of(task: TaskInstance) -> float:
    """Return how long a task took, its deferrals included."""
    assert task.start_date is not None
    assert task.end_date is not None
    took = datetime.fromisoformat(task.end_date) - datetime.fromisoformat(task.start_date)
    return took.total_seconds()


QUOTA_POOLS = [
    pool(
        "calm",
        float(number),
        f"quota-{number}",
        namespace=NO_PODS,
        start_timeout_seconds=FIRST_START_TIMEOUT_SECONDS if number == 1 else 1,
    )
    for number in range(1, 6)
]


def _case(name: str, title: str, play: Any, *pools: dict[str, Any], **operator: Any) -> Case:
    return Case(id=name, title=title, play=play, pools=pools, operator=operator)


CASES = [
    _case(
        "OUT-START.MOVED",
        "no node takes the pod (after 4 s): placed again in the same try, the first Job gone, success",
        moved,
        pool("tainted-1", 1.0, unschedulable_timeout_seconds=4),
        REFUGE,
    ),
    _case(
        "OUT-START.THREE-MOVES",
        "a quota of no pods: named in the log, three moves at most, then the task fails",
        three_moves,
        *QUOTA_POOLS,
        retries=0,
    ),
    _case(
        "OUT-REFUSED.QUOTA",
        "a quota of no Jobs refuses every create: both pools tried, waited for, success in the first try",
        refused,
        pool("calm", 1.0, "jobs-1", namespace=NO_JOBS),
        pool("calm", 2.0, "jobs-2", namespace=NO_JOBS),
        retries=0,
    ),
    _case(
        "OUT-WAIT.FREED",
        "no GPU is free: deferred, explained once, success in the first try when one is",
        freed,
        pool("busy-1", 1.0),
    ),
    _case(
        "OUT-WAIT.TIMEOUT",
        "no GPU is free for placement_timeout (20 s): PlacementTimeout with the explanation, no job",
        placement_timeout,
        pool("busy-2", 1.0),
        placement_timeout=timedelta(seconds=PLACEMENT_TIMEOUT_SECONDS),
        retries=0,
    ),
    _case(
        "OUT-TIME.DEADLINE",
        "execution_timeout (60 s) over waiting and training: fails then and not 30 s later, job gone",
        deadline,
        pool("busy-3", 1.0),
        execution_timeout=timedelta(seconds=EXECUTION_TIMEOUT_SECONDS),
        retries=0,
    ),
    _case(
        "OUT-TIME.RETRIED",
        "execution_timeout (40 s) with one retry: the second try has the whole time again, success",
        timed_out_and_retried,
        pool("calm", 1.0),
        execution_timeout=timedelta(seconds=40),
        retries=1,
    ),
]


@pytest.mark.parametrize("scenario", params(CASES))
@pytest.mark.usefixtures("airflow")
def test_wait(
    outcome_plays: Plays[Stage], scenario: Scenario[Stage], record_property: Callable[[str, object], None]
) -> None:
    """The case's title says what must be true at its end."""
    outcome_plays.judge(scenario, record_property)
