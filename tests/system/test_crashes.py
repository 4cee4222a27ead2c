"""SIGKILL of each process of Airflow at each step of a task: it succeeds, with the right number of jobs."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest

from lab.processes import ProcessId
from tests.harness import gates
from tests.harness.side_by_side import Meeting, Plays, Scenario, params
from tests.system.playground import Playground, Run, wait_nothing_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab import Lab
    from lab.airflow.servers import AirflowProcesses
    from tests.harness.recorder import JobRecorder

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

RUNNING = "while-running"
#: Where each process is killed, in words.
STEPS = {
    gates.BEFORE_INTENT: "before the intent",
    gates.AFTER_INTENT: "after the intent",
    gates.AFTER_CREATE: "after the create",
    gates.AFTER_DEFER: "after the defer",
    RUNNING: "while the job runs",
    gates.AFTER_EVENT: "after the event",
}


class End(NamedTuple):
    """The one right end: tries of the task and remote jobs that it ever had."""

    tries: int
    jobs: int


#: The death of a task's own process costs a try: what it had begun is withdrawn, and begun anew. Its task was
#: already deferred after the defer, so nothing is lost then. While the job runs no process of a deferred task
#: exists: that row is about a task that waits on the worker itself. After the event the job has succeeded;
#: the next try takes its result.
OWN_PROCESS = {
    gates.BEFORE_INTENT: End(2, 1),
    gates.AFTER_INTENT: End(2, 1),
    gates.AFTER_CREATE: End(2, 2),
    gates.AFTER_DEFER: End(1, 1),
    RUNNING: End(2, 2),
    gates.AFTER_EVENT: End(2, 1),
}
#: A task process that lost its supervisor lives on for a moment and may still create what it was about to;
#: the next try withdraws that.
ENDS = {
    "WORKER": OWN_PROCESS,
    "SUPERVISOR": {**OWN_PROCESS, gates.AFTER_INTENT: End(2, 2)},
    "TRIGGERER": dict.fromkeys(STEPS, End(1, 1)),
    "SCHEDULER": dict.fromkeys(STEPS, End(1, 1)),
    "API-SERVER": dict.fromkeys(STEPS, End(1, 1)),
}
COMPONENT = {"TRIGGERER": "triggerer", "SCHEDULER": "scheduler", "API-SERVER": "api-server"}


@dataclass
class Stage:
    """What the scenarios share.

    :param deaths: by component: where its six runs meet when each is at its step; then it is killed.
    :param orphans: what killed components had started.
    """

    ground: Playground
    deaths: dict[str, Meeting] = field(default_factory=dict)
    orphans: list[ProcessId] = field(default_factory=list)

    def die(self, component: str) -> None:
        """SIGKILL a component's main process and start it again.

        What it had started lives on: the tasks of a dead scheduler are still at work, as on an executor whose
        workers are elsewhere.
        """
        airflow = self.ground.airflow
        self.orphans += filter(None, map(ProcessId.of, airflow.kill_alone(component)))
        airflow.start(component)


def crash(stage: Stage, scenario: Scenario[Stage]) -> None:
    """Hold a task at a step, kill, let it go on, and look at its end."""
    _, process, number = scenario.id.split(".")
    step = list(STEPS)[int(number) - 1]
    end = ENDS[process][step]
    on_worker = step == RUNNING and process in ("WORKER", "SUPERVISOR")
    run = stage.ground.start(
        scenario.id.lower(),
        variant="on_worker" if on_worker else "plain",
        hold=None if step == RUNNING else step,
    )
    if process in COMPONENT:
        with stage.deaths[process].arriving():
            come_to(run, step)
    else:
        task_pid, supervisor_pid = own_processes(run) if on_worker else come_to(run, step)
        os.kill(task_pid if process == "WORKER" else supervisor_pid, signal.SIGKILL)
    if step != RUNNING:
        run.release(step)
    if step == gates.AFTER_DEFER and process in ("TRIGGERER", "API-SERVER"):
        run.wait_noted()  # a scheduler that is dead never hears of it, and does not mix anything up
    go_on(run, step, end, on_worker=on_worker)
    task = run.task
    assert (task.state, task.try_number, len(run.jobs)) == ("success", end.tries, end.jobs)
    assert run.jobs[-1].succeeded
    run.wait_over()
    run.assert_law_kept()


def come_to(run: Run, step: str) -> tuple[int, int]:
    """Wait until a run's task is at a step; return the processes that hold it there, if any do."""
    if step == RUNNING:
        run.wait_deferred(1)
        return 0, 0
    if step == gates.AFTER_EVENT:
        run.wait_deferred(1)
        run.finish()
    return run.wait_held(step)


def own_processes(run: Run) -> tuple[int, int]:
    """Wait for the job of a task that waits on its worker; return the task's process and supervisor."""
    run.wait_jobs(1)
    task_pid, supervisor_pid = map(int, (run.folder / gates.PIDS).read_text().split())
    return task_pid, supervisor_pid


def go_on(run: Run, step: str, end: End, *, on_worker: bool) -> None:
    """Let the remote program end once the last remote job is the only one left, and wait for the success."""
    run.wait_jobs(end.jobs)
    if step != gates.AFTER_EVENT:
        if end.tries > 1 and not on_worker:
            run.wait_deferred(end.jobs)
        run.until(lambda: sum(job.live for job in run.jobs) == 1, "all earlier remote jobs to be over")
        run.finish()
    run.wait("success")


def scenarios() -> Iterator[Scenario[Stage]]:
    """Yield every process at every step."""
    for process, ends in ENDS.items():
        group = "own process" if process in ("WORKER", "SUPERVISOR") else process
        for number, (step, where) in enumerate(STEPS.items(), start=1):
            tries, jobs = ends[step]
            title = f"{process.lower()} killed {where}: success in try {tries} with {jobs} remote job(s) ever"
            yield Scenario(f"CRASH.{process}.{number}", title, crash, group)


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
    ground = Playground.open(
        airflow_processes,
        recorder,
        tmp_path_factory.mktemp("crashes"),
        "crashes",
        {"plain": {}, "on_worker": {"deferrable": False}},
    )
    stage = Stage(ground)
    found = Plays(request, SCENARIOS, stage)
    for process, component in COMPONENT.items():
        stage.deaths[process] = Meeting(len(found.groups[process]), partial(stage.die, component))
    yield found
    for orphan in stage.orphans:
        orphan.signal(signal.SIGKILL)
    wait_nothing_left(gpu_fleet, airflow_processes)


@pytest.mark.parametrize("scenario", params(SCENARIOS))
@pytest.mark.usefixtures("airflow")
def test_crash(
    plays: Plays[Stage], scenario: Scenario[Stage], record_property: Callable[[str, object], None]
) -> None:
    """The scenario's title says what must be true at its end."""
    plays.judge(scenario, record_property)
