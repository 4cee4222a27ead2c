"""A triggerer that stands still or is started anew: the remote job lives on and its log has no gap."""

from __future__ import annotations

import re
import signal
import sqlite3
import time
from contextlib import closing
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
#: Positions in the log are kept every two seconds, by way of an Airflow that may be slow; the program tells
#: two lines a second.
LINES_SINCE_A_POSITION = 10
#: The one that comes back is told within a few of its heartbeats that its triggers are not its own any more.
AFTERWARDS_SECONDS = 12.0


@pytest.fixture
def two_triggerers(airflow: AirflowProcesses) -> Iterator[AirflowProcesses]:
    """Give room for a second triggerer, and end it afterwards."""
    yield airflow
    if "triggerer-2" in airflow.status():
        airflow.kill("triggerer-2", signal.SIGKILL)


def triggerer_of_the_one_trigger(airflow: AirflowProcesses) -> int | None:
    """Return the id of the triggerer that the only trigger is assigned to."""
    with closing(sqlite3.connect(f"file:{airflow.home / 'airflow.db'}?mode=ro", uri=True)) as database:
        ((found,),) = database.execute("SELECT triggerer_id FROM trigger").fetchall()
    return None if found is None else int(found)


@pytest.fixture(scope="module")
def ground(
    airflow_processes: AirflowProcesses, recorder: JobRecorder, tmp_path_factory: pytest.TempPathFactory
) -> Playground:
    """Return the DAG of these tests."""
    return Playground.open(
        airflow_processes, recorder, tmp_path_factory.mktemp("triggerers"), "triggerers", {"plain": {}}
    )


def assert_same_job_and_whole_log(run: Run, lab: Lab, *, repeated: int = 0) -> None:
    """Let the job end; assert that it was the only one and that none of its lines is missing in the log.

    :param repeated: how many of them may have been told twice.
    """
    run.finish()
    run.wait("success")
    airflow = run.ground.airflow
    lines = airflow.client.xcom(run.dag_id, run.run_id, TASK)["lines"]
    told = [int(number) for number in re.findall(r"\bline (\d+)\b", run.log(1))]
    assert (run.task.try_number, len(run.jobs)) == (1, 1)
    assert set(told) == set(range(1, lines + 1))
    assert len(told) - lines <= repeated
    run.wait_over()
    run.assert_law_kept()
    wait_nothing_left(lab, airflow)


@pytest.mark.scenario(
    "STALL.TRIGGERER", "stopped for 45 s beside a second one: same job, success, no log line lost"
)
def test_a_stalled_triggerer_ends_nothing(
    two_triggerers: AirflowProcesses, ground: Playground, gpu_fleet: Lab
) -> None:
    """It is taken over, comes back and lets the job live; only the lines since a position repeat."""
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
    assert_same_job_and_whole_log(run, gpu_fleet, repeated=LINES_SINCE_A_POSITION)


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
