"""A triggerer that stands still, dies or is started anew: the job lives on, and its log tells a line once."""

from __future__ import annotations

import re
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.system.playground import PATIENCE_SECONDS, TASK, Playground, Run, wait_nothing_left

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab import Lab
    from lab.airflow.servers import AirflowProcesses
    from tests.harness.recorder import JobRecorder

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

STALL_SECONDS = 45.0
#: So many lines of the program are in the log when a triggerer is killed: it has kept a position by then.
LINES_BEFORE_A_KILL = 20
LINE = re.compile(r"\bline (\d+)\b")
#: The one that comes back is told within a few of its heartbeats that its triggers are not its own any more.
AFTERWARDS_SECONDS = 12.0


@pytest.fixture
def two_triggerers(airflow: AirflowProcesses) -> Iterator[AirflowProcesses]:
    """Give room for a second triggerer, and end it afterwards."""
    yield airflow
    second = airflow.status().get("triggerer-2")
    if second is not None and second.exit_code is None:
        airflow.kill("triggerer-2", signal.SIGKILL)


def triggerer_of_the_one_trigger(airflow: AirflowProcesses) -> int | None:
    """Return the id of the triggerer that the only trigger is assigned to."""
    ((found,),) = airflow.query("SELECT triggerer_id FROM trigger")
    return None if found is None else int(found)


@pytest.fixture(scope="module")
def ground(
    airflow_processes: AirflowProcesses, recorder: JobRecorder, tmp_path_factory: pytest.TempPathFactory
) -> Playground:
    """Return the DAG of these tests."""
    return Playground.open(
        airflow_processes, recorder, tmp_path_factory.mktemp("triggerers"), "triggerers", {"plain": {}}
    )


def lines_of(text: str) -> list[int]:
    """Return the numbers of the program's lines in a log."""
    return [int(number) for number in LINE.findall(text)]


def told_twice(run: Run) -> set[int]:
    """Return the lines that more than one triggerer has written into its file."""
    folder = run.ground.airflow.home / "logs" / f"dag_id={run.dag_id}" / f"run_id={run.run_id}"
    told = [lines_of(file.read_text()) for file in folder.rglob("attempt=1.log.trigger.*.log")]
    counts = Counter(number for numbers in told for number in set(numbers))
    return {number for number, count in counts.items() if count > 1}


def assert_same_job_and_whole_log(run: Run, lab: Lab) -> None:
    """Let the job end; assert that it was the only one and that each of its lines is in the log once."""
    run.finish()
    run.wait("success")
    airflow = run.ground.airflow
    lines = airflow.client.xcom(run.dag_id, run.run_id, TASK)["lines"]
    assert (run.task.try_number, len(run.jobs)) == (1, 1)
    assert lines_of(run.log(1)) == list(range(1, lines + 1))
    run.wait_over()
    run.assert_law_kept()
    wait_nothing_left(lab, airflow)


@pytest.mark.scenario(
    "STALL.TRIGGERER", "stopped for 45 s beside a second one: same job, success, each log line exactly once"
)
def test_a_stalled_triggerer_ends_nothing(
    two_triggerers: AirflowProcesses, ground: Playground, gpu_fleet: Lab
) -> None:
    """It is taken over, comes back, and lets the job and its log alone."""
    airflow = two_triggerers
    run = ground.start("stall.triggerer")
    run.wait_deferred(1)
    first = triggerer_of_the_one_trigger(airflow)
    airflow.start("triggerer-2")

    stalled = time.monotonic()
    airflow.kill("triggerer", signal.SIGSTOP)
    try:
        run.until(
            lambda: triggerer_of_the_one_trigger(airflow) not in (None, first), "the other to take over"
        )
        time.sleep(max(stalled + STALL_SECONDS - time.monotonic(), 0.0))  # the length of the fault itself
    finally:
        airflow.kill("triggerer", signal.SIGCONT)
    until = time.monotonic() + AFTERWARDS_SECONDS
    while time.monotonic() < until:
        assert run.jobs[0].deletion is None, "the job was deleted by the triggerer that came back"
        time.sleep(0.2)
    assert_same_job_and_whole_log(run, gpu_fleet)


@pytest.mark.scenario(
    "KILL.TRIGGERER",
    "killed beside a second one while lines flow: same job, success, each log line exactly once",
)
def test_a_killed_triggerer_ends_nothing(
    two_triggerers: AirflowProcesses, ground: Playground, gpu_fleet: Lab
) -> None:
    """Another one goes on from the last position; what both have told is read once."""
    airflow = two_triggerers
    run = ground.start("kill.triggerer")
    run.wait_deferred(1)
    first = triggerer_of_the_one_trigger(airflow)
    airflow.start("triggerer-2")
    run.until(lambda: len(lines_of(run.log(1))) >= LINES_BEFORE_A_KILL, "lines in the log")

    airflow.kill("triggerer", signal.SIGKILL)
    try:
        run.until(
            lambda: triggerer_of_the_one_trigger(airflow) not in (None, first), "the other to take over"
        )
        run.until(lambda: bool(told_twice(run)), "the other to tell lines")
    finally:
        airflow.start("triggerer")
    assert_same_job_and_whole_log(run, gpu_fleet)


@pytest.mark.scenario(
    "STOP.TRIGGERER", "ended in order and started anew: same job, success, each log line exactly once"
)
def test_a_new_version_of_the_triggerer_ends_nothing(
    airflow: AirflowProcesses, ground: Playground, gpu_fleet: Lab
) -> None:
    """What a triggerer cleans up at its end is no remote job, as at each deployment."""
    run = ground.start("stop.triggerer")
    run.wait_deferred(1)
    airflow.kill("triggerer", signal.SIGTERM)
    airflow.wait_ended("triggerer", PATIENCE_SECONDS)
    assert run.jobs[0].deletion is None
    airflow.start("triggerer")
    assert_same_job_and_whole_log(run, gpu_fleet)
