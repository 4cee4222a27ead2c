"""The local Airflow itself, on trivial DAGs: what other system tests rely on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from lab.airflow.records import DagImportError, WaitTimeout
from lab.airflow.servers import COMPONENTS
from lab.airflow.settings import REPOSITORY
from tests.harness.dag_test import dag_test_result, run_dag_test
from tests.harness.leaks import find_leaks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lab.airflow.servers import AirflowProcesses

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

SUCCESS = """
    from airflow.sdk import DAG, get_current_context, task

    with DAG("{dag_id}", schedule=None):

        @task
        def answer():
            context = get_current_context()
            context["task_state_store"].set("seen", {{"conf": context["dag_run"].conf}})
            print("a line of the task")
            return {{"answer": 42}}

        answer()
"""
FAILS_ONCE_THEN_AGAIN = """
    from datetime import timedelta

    from airflow.sdk import DAG, task

    with DAG("{dag_id}", schedule=None):

        @task(retries=1, retry_delay=timedelta(seconds=1))
        def stumble():
            raise ValueError("the reason in the log")

        stumble()
"""
DEFERS = """
    from datetime import timedelta

    from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
    from airflow.sdk import DAG, BaseOperator

    class Waits(BaseOperator):
        def __init__(self, *, seconds, **kwargs):
            super().__init__(**kwargs)
            self.seconds = seconds

        def execute(self, context):
            trigger = TimeDeltaTrigger(timedelta(seconds=self.seconds))
            self.defer(trigger=trigger, method_name="execute_complete")

        def execute_complete(self, context, event=None):
            self.log.info("resumed after the deferral")
            return "resumed"

    with DAG("{dag_id}", schedule=None) as dag:
        Waits.partial(task_id="wait").expand(seconds=[{seconds}])
"""


def test_a_run_succeeds_and_its_results_can_be_read(airflow: AirflowProcesses, unique_dag_id: str) -> None:
    """A DAG file is picked up, runs, and its XCom, state store and log are readable over the API."""
    assert airflow.add_dag(unique_dag_id, SUCCESS.format(dag_id=unique_dag_id)) == [unique_dag_id]
    client = airflow.client
    run_id = client.trigger(unique_dag_id, {"epochs": 3})
    assert client.wait_run_state(unique_dag_id, run_id, "success") == "success"
    assert client.xcom(unique_dag_id, run_id, "answer") == {"answer": 42}
    assert client.task_store(unique_dag_id, run_id, "answer") == {"seen": {"conf": {"epochs": 3}}}
    assert "a line of the task" in client.task_log(unique_dag_id, run_id, "answer", 1)
    assert [(one.task_id, one.state) for one in client.task_instances(unique_dag_id, run_id)] == [
        ("answer", "success")
    ]


def test_a_failing_task_is_retried_and_each_try_has_its_log(
    airflow: AirflowProcesses, unique_dag_id: str
) -> None:
    """Two tries end as failed; waiting for a success that cannot come any more fails at once with the log."""
    airflow.add_dag(unique_dag_id, FAILS_ONCE_THEN_AGAIN.format(dag_id=unique_dag_id))
    client = airflow.client
    run_id = client.trigger(unique_dag_id)
    last = client.wait_task_state(unique_dag_id, run_id, "stumble", "failed", try_number=2)
    assert (last.state, last.try_number, last.max_tries) == ("failed", 2, 1)
    assert [one.try_number for one in client.tries(unique_dag_id, run_id, "stumble")] == [1, 2]
    for try_number in (1, 2):
        assert "ValueError: the reason in the log" in client.task_log(
            unique_dag_id, run_id, "stumble", try_number
        )
    client.wait_run_state(unique_dag_id, run_id, "failed")
    started = time.monotonic()
    with pytest.raises(WaitTimeout, match="ended as failed") as caught:
        client.wait_task_state(unique_dag_id, run_id, "stumble", "success", timeout_seconds=60)
    assert time.monotonic() - started < 10
    assert "ValueError: the reason in the log" in str(caught.value)
    assert all(f"--- {name} (pid" in str(caught.value) for name in COMPONENTS)


def test_a_deferred_task_outlives_the_death_of_the_triggerer(
    airflow: AirflowProcesses, unique_dag_id: str
) -> None:
    """The triggerer is killed with its runner; a new one takes over the trigger and the task resumes."""
    airflow.add_dag(unique_dag_id, DEFERS.format(dag_id=unique_dag_id, seconds=6))
    client = airflow.client
    run_id = client.trigger(unique_dag_id)
    client.wait_task_state(unique_dag_id, run_id, "wait", "deferred", map_index=0)
    before = set(airflow.processes("triggerer"))
    assert len(before) >= 2, "a triggerer has a runner process besides its main process"
    assert [leak for leak in find_leaks([], airflow=client, dag_ids=[unique_dag_id], deadline_seconds=0)]
    airflow.kill("triggerer", signal.SIGKILL)
    _wait_for(lambda: not living(before), 10)
    airflow.start("triggerer")
    assert airflow.pid("triggerer") not in before
    client.wait_run_state(unique_dag_id, run_id, "success")
    assert client.xcom(unique_dag_id, run_id, "wait", map_index=0) == "resumed"
    log = client.task_log(unique_dag_id, run_id, "wait", 1, map_index=0)
    assert "resumed after the deferral" in log
    assert "trigger" in log.partition("::endgroup::")[0], "the trigger's own log file is one of the sources"
    assert find_leaks([], airflow=client, dag_ids=[unique_dag_id]) == []


def test_marking_and_clearing_act_on_a_deferred_task(airflow: AirflowProcesses, unique_dag_id: str) -> None:
    """A deferred task can be marked as failed, then cleared, and then defers again in its next try."""
    airflow.add_dag(unique_dag_id, DEFERS.format(dag_id=unique_dag_id, seconds=600))
    client = airflow.client
    run_id = client.trigger(unique_dag_id)
    client.wait_task_state(unique_dag_id, run_id, "wait", "deferred", map_index=0)
    client.set_task_state(unique_dag_id, run_id, "wait", "failed", map_index=0)
    client.wait_run_state(unique_dag_id, run_id, "failed")
    client.clear(unique_dag_id, run_id, "wait", map_index=0)
    client.wait_task_state(unique_dag_id, run_id, "wait", "deferred", map_index=0, try_number=2)
    client.set_task_state(unique_dag_id, run_id, "wait", "success", map_index=0)
    client.wait_run_state(unique_dag_id, run_id, "success")


def test_an_import_error_fails_fast_with_its_traceback(airflow: AirflowProcesses, unique_dag_id: str) -> None:
    """A DAG file that cannot be imported fails with its traceback; once mended it is parsed again."""
    with pytest.raises(DagImportError, match="No module named 'no_such_module'"):
        airflow.add_dag(unique_dag_id, "import no_such_module\n")
    with pytest.raises(DagImportError, match="no_such_module"):
        airflow.client.wait_dag_parsed(unique_dag_id)
    assert airflow.add_dag(unique_dag_id, SUCCESS.format(dag_id=unique_dag_id)) == [unique_dag_id]
    airflow.client.wait_dag_parsed(unique_dag_id)


def test_a_viewer_reads_and_may_not_trigger(airflow: AirflowProcesses, unique_dag_id: str) -> None:
    """The second user has the rights of a viewer, and an expired token is renewed unseen."""
    airflow.add_dag(unique_dag_id, SUCCESS.format(dag_id=unique_dag_id))
    viewer = airflow.viewer_client
    viewer.wait_dag_parsed(unique_dag_id)
    refused = viewer.request("POST", f"/api/v2/dags/{unique_dag_id}/dagRuns", json={"logical_date": None})
    assert refused.status_code == httpx.codes.FORBIDDEN
    viewer._http.headers["Authorization"] = "Bearer expired"
    viewer.wait_dag_parsed(unique_dag_id)


def test_a_component_that_ends_unasked_stops_the_waiting(airflow: AirflowProcesses) -> None:
    """Waiting does not last until its time-out when a server has died; the error names it."""
    os.kill(airflow.pid("dag-processor"), signal.SIGKILL)
    with pytest.raises(RuntimeError, match="dag-processor ended by itself, exit code -9"):
        airflow.client.wait_dag_parsed("never_there", timeout_seconds=60)


def test_dag_test_runs_in_a_process_and_home_of_its_own(tmp_path: Path) -> None:
    """``run_dag_test`` reports states, tries and XComs of a succeeding and of a failing DAG."""
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(textwrap.dedent(DEFERS.format(dag_id="good", seconds=0)))
    bad.write_text(textwrap.dedent(FAILS_ONCE_THEN_AGAIN.format(dag_id="bad")))
    done = run_dag_test(good, "good")
    result = dag_test_result(done)
    assert (done.returncode, result.run_state, result.task_states) == (0, "success", {"wait[0]": "success"})
    assert result.xcoms == {"wait[0]": "resumed"}
    failed = run_dag_test(bad, "bad")
    result = dag_test_result(failed)
    assert (failed.returncode, result.task_states) == (1, {"stumble": "failed"})
    assert result.tries == {"stumble": 2}


def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    """After SIGKILL of the process that owns an Airflow, all its processes and its home are gone."""
    facts = tmp_path / "facts"
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                f"""
                import time
                from pathlib import Path

                from lab.airflow.servers import COMPONENTS, AirflowProcesses

                with AirflowProcesses() as airflow:
                    parts = [airflow.processes(name) for name in COMPONENTS]
                    pids = [airflow.warden_pid, *(pid for part in parts for pid in part)]
                    partial = Path("{facts}.partial")
                    partial.write_text("\\n".join([str(airflow.home), *map(str, pids)]))
                    partial.rename("{facts}")
                    time.sleep(600)
                """
            ),
        ],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    try:
        _wait_for(facts.exists, 180)
    finally:
        owner.kill()
        owner.wait()
    home, *pids = facts.read_text().splitlines()
    assert len(pids) >= 1 + len(COMPONENTS) + 2, "warden, components, task workers, trigger runner"
    _wait_for(lambda: not living(map(int, pids)), 20)
    assert not Path(home).exists()


def living(pids: Iterable[int]) -> set[int]:
    """Return those of the processes that still exist."""
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


def _wait_for(condition: Callable[[], object], timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {timeout_seconds} s"
        time.sleep(0.1)
