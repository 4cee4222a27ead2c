"""Airflow changes its mind: the remote job goes, whatever the task was doing, and nothing is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from lab.airflow.rest import ApiError
from tests.harness import gates
from tests.harness.side_by_side import Meeting, Plays, Scenario, params
from tests.system import fleet
from tests.system.playground import TASK, Playground, Run, wait_nothing_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab import Lab
    from lab.airflow.servers import AirflowProcesses
    from tests.harness.recorder import JobRecorder

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

ACTIONS = {
    "FAIL": "marked as failed",
    "SUCCEED": "marked as success",
    "CLEAR": "cleared",
    "DELETE-TASK": "deleted as a task instance",
    "DELETE-RUN": "deleted with its DAG run",
}
#: Where the task is when that happens, with the remote jobs that it has had by then.
PHASES = {
    "WAITING": ("it waits for a pool", 0),
    "INTENT": ("its intent is written and no remote job created", 0),
    "CREATED": ("its remote job is created and it is not deferred yet", 1),
    "RUNNING": ("its remote job runs", 1),
}
HELD_AT = {"INTENT": gates.AFTER_INTENT, "CREATED": gates.BEFORE_DEFER, "UNHEARD": gates.AFTER_CREATE}
#: A worker hears of a cancel with its next heartbeat; in between it may create a job and defer.
UNHEARD = "UNHEARD"
GOES_ON = ("CLEAR", "DELETE-TASK")
#: Exit code of the reaper: some clusters of the catalogue are dark on purpose, and the others are done.
UNREAD = 3


@dataclass(kw_only=True)
class Stage:
    """What the scenarios share.

    :param freed: where those that wait for a pool meet when all of them were cancelled; then it gets free.
    :param down: where those meet that need the triggerer dead; then it is killed.
    :param up: where they meet again; then it is started.
    """

    ground: Playground
    freed: Meeting
    down: Meeting
    up: Meeting

    @property
    def airflow(self) -> AirflowProcesses:
        """The Airflow under test."""
        return self.ground.airflow


def act(stage: Stage, run: Run, action: str) -> None:
    """Do to a run's task what a person does in the UI."""
    client = stage.airflow.client
    match action:
        case "FAIL":
            client.set_task_state(run.dag_id, run.run_id, TASK, "failed")
        case "SUCCEED":
            client.set_task_state(run.dag_id, run.run_id, TASK, "success")
        case "CLEAR":
            client.clear(run.dag_id, run.run_id, TASK)
        case "DELETE-TASK":
            client.delete_task(run.dag_id, run.run_id, TASK)
        case "DELETE-RUN":
            client.set_run_state(run.dag_id, run.run_id, "failed")
            client.delete_run(run.dag_id, run.run_id)


def cancel(stage: Stage, scenario: Scenario[Stage]) -> None:
    """Bring a task to a phase, act on it, and look at what is left."""
    _, action, phase = scenario.id.split(".")
    run = stage.ground.start(
        scenario.id.lower(), variant="waits" if phase == "WAITING" else "plain", hold=HELD_AT.get(phase)
    )
    had = 1 if phase == UNHEARD else PHASES[phase][1]
    if phase == "WAITING":
        with stage.freed.arriving():
            run.wait("deferred")
            before = run.task.id
            act(stage, run, action)
    elif phase == "RUNNING":
        run.wait_deferred(1)
        before = run.task.id
        act(stage, run, action)
    else:
        run.wait_held(HELD_AT[phase])
        run.wait_created(had)
        before = run.task.id
        act(stage, run, action)
        if phase == UNHEARD:
            run.release(HELD_AT[phase])
    assert_end(stage, run, action, had, before)


def assert_end(stage: Stage, run: Run, action: str, had: int, before: str | None) -> None:
    """Assert the one right end of a run whose task was acted on."""
    if action in GOES_ON:
        run.wait_deferred(had + 1, but=before)
        run.until(lambda: sum(job.live for job in run.jobs) == 1, "its earlier remote job to be over")
        run.finish()
        run.wait("success")
    elif action == "DELETE-RUN":
        run.wait_over()
        with pytest.raises(ApiError, match="404"):
            stage.airflow.client.run_state(run.dag_id, run.run_id)
    else:
        run.wait_over()
        task = run.task
        assert (task.state, task.try_number) == ("failed" if action == "FAIL" else "success", 1)
    run.wait_over()
    *earlier, last = [job.succeeded for job in run.jobs] or [False]
    assert not any(earlier)
    assert last == (action in GOES_ON)
    most = most_further_jobs(run, action)
    assert min(most, 1) <= len(run.jobs) - had <= most
    run.assert_law_kept()


def most_further_jobs(run: Run, action: str) -> int:
    """Return how many remote jobs a task may have after somebody acted on it.

    The tries of a task instance that was deleted count from 1 again. When its process still lived, the
    scheduler takes the late news of that for news of the new one's first try, and may begin another.
    """
    if action not in GOES_ON:
        return 0
    held = run.run_id.rpartition(".")[2].upper() in HELD_AT
    return run.task.try_number if action == "DELETE-TASK" and held else 1


def while_no_triggerer(stage: Stage, scenario: Scenario[Stage]) -> None:
    """Act on a deferred task while no triggerer runs; it is started again when all have acted."""
    _, action, phase = scenario.id.split(".")
    if phase == "NO-TRIGGERER":
        run = stage.ground.start(scenario.id.lower())
    with stage.down.arriving():
        if phase == "NO-TRIGGERER":
            run.wait_deferred(1)
    with stage.up.arriving():
        if phase == "UNWATCHED":
            run = stage.ground.start(scenario.id.lower())
            run.wait_jobs(1)
            run.wait("deferred")
        before = run.task.id
        act(stage, run, action)
        if action == "CLEAR":
            run.wait_jobs(2)
    if phase == "UNWATCHED":
        while run.jobs[0].live:  # too young for it at first
            reap(stage)
    assert_end(stage, run, action, 1, before)


def reap(stage: Stage) -> None:
    """Withdraw what no task waits for any more, as the platform team's schedule does."""
    done = subprocess.run(
        [sys.executable, "-m", "airflow", "gpu-placement", "reap", "--delete", "--min-age-minutes", "0.2"],
        env=stage.airflow.environment,
        cwd=stage.airflow.home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == UNREAD, done.stdout + done.stderr


def scenarios() -> Iterator[Scenario[Stage]]:
    """Yield every action in every phase, and two of them without a triggerer."""
    for action, done in ACTIONS.items():
        for phase, (where, _) in PHASES.items():
            end = (
                "it succeeds with one further remote job"
                if action in GOES_ON
                else "no remote job is left and its state stays"
            )
            yield Scenario(f"CANCEL.{action}.{phase}", f"{done} while {where}: {end}", cancel, phase)
    for action in ("FAIL", "CLEAR"):
        title = f"{ACTIONS[action]} and its worker has not heard of it when it defers: the remote job goes"
        yield Scenario(f"CANCEL.{action}.{UNHEARD}", title, cancel, "together")
    for action, end in {
        "FAIL": "the remote job goes once it is back",
        "CLEAR": "it succeeds with one further remote job",
    }.items():
        title = f"{ACTIONS[action]} while the triggerer is down: {end}"
        yield Scenario(f"CANCEL.{action}.NO-TRIGGERER", title, while_no_triggerer, "no triggerer")
    title = "marked as failed before its trigger ever started: the reaper withdraws the remote job"
    yield Scenario("CANCEL.FAIL.UNWATCHED", title, while_no_triggerer, "no triggerer")


SCENARIOS = list(scenarios())


@pytest.fixture(scope="module")
def plays(
    request: pytest.FixtureRequest,
    gpu_fleet: Lab,
    airflow_processes: AirflowProcesses,
    recorder: JobRecorder,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Plays[Stage]]:
    """Set the stage; in the end nothing may be left on the clusters, on the nodes or in Airflow."""
    variants = {"plain": {}, "waits": {"gpu": {"gpus_per_node": 1, "models": ["L4"]}}}
    ground = Playground.open(
        airflow_processes, recorder, tmp_path_factory.mktemp("cancel"), "cancel", variants
    )
    give_back = fleet.occupied(gpu_fleet, "gke-us", "us-l4-1", 8)
    wanted = Plays.selected(request) & {one.id for one in SCENARIOS}
    waiting = sum(name.endswith(".WAITING") for name in wanted)
    without = sum(name.endswith(("NO-TRIGGERER", "UNWATCHED")) for name in wanted)
    stage = Stage(
        ground=ground,
        freed=Meeting(waiting, give_back),
        down=Meeting(without, lambda: airflow_processes.kill("triggerer", signal.SIGKILL)),
        up=Meeting(without, lambda: airflow_processes.start("triggerer")),
    )
    found = Plays(request, SCENARIOS, stage)
    yield found
    if not waiting:
        give_back()
    wait_nothing_left(gpu_fleet, airflow_processes)


@pytest.mark.parametrize("scenario", params(SCENARIOS))
@pytest.mark.usefixtures("airflow")
def test_cancel(
    plays: Plays[Stage], scenario: Scenario[Stage], record_property: Callable[[str, object], None]
) -> None:
    """The scenario's title says what must be true at its end."""
    plays.judge(scenario, record_property)
