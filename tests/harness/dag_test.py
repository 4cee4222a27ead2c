"""``dag.test()`` of one DAG file, in a process and an Airflow home of its own.

The home is not shared with running servers: a scheduler would run the tasks of the same DAG run too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.airflow import settings
from lab.airflow.processes import WardedProcesses
from lab.airflow.template import copy_migrated_database

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Start of the one line of standard output that holds the result.
RESULT_PREFIX = "DAG_TEST_RESULT "


@dataclass(frozen=True)
class DagTestResult:
    """How a ``dag.test()`` ended; tasks are named ``task_id`` or ``task_id[map_index]``."""

    run_state: str
    task_states: Mapping[str, str | None]
    tries: Mapping[str, int]
    xcoms: Mapping[str, Any]


def run_dag_test(
    dag_file: Path,
    dag_id: str,
    env: Mapping[str, str] | None = None,
    *,
    conf: Mapping[str, Any] | None = None,
    connections: Mapping[str, Mapping[str, Any]] | None = None,
    timeout_seconds: float = 180,
) -> subprocess.CompletedProcess[str]:
    """Run ``dag.test()`` on a DAG of ``dag_file``, whose folder is the DAG bundle.

    The result is a line of standard output, see ``dag_test_result``; the exit code is 0 when the run
    succeeded, 1 when it failed. ``env`` is added to the environment. Nothing outlives the calling process
    or the time-out.
    """
    home = Path(tempfile.mkdtemp(prefix="dag-test-"))
    out, err = home / "stdout.log", home / "stderr.log"
    environment = {
        **settings.base_environment(home, dag_file.parent),
        **settings.connection_variables(connections or {}),
        **(env or {}),
    }
    (home / "airflow.cfg").touch()
    copy_migrated_database(home / "airflow.db")
    argv = [
        sys.executable,
        "-m",
        "tests.harness.dag_test_main",
        str(dag_file),
        dag_id,
        json.dumps(dict(conf or {})),
    ]
    with WardedProcesses(environment, cwd=home, log=err, remove_at_end=[home]) as processes:
        processes.start("dag-test", argv, out=out, err=err)
        try:
            code = processes.wait("dag-test", timeout_seconds)
        except TimeoutError as error:
            text = f"{out.read_text()[-4000:]}\n{err.read_text()[-4000:]}"
            raise TimeoutError(
                f"dag.test() of {dag_id} not done in {timeout_seconds:g} s:\n{text}"
            ) from error
        return subprocess.CompletedProcess(argv, code, out.read_text(), err.read_text())


def dag_test_result(completed: subprocess.CompletedProcess[str]) -> DagTestResult:
    """Read the result of ``run_dag_test``; without one, the process's output becomes the error."""
    for line in completed.stdout.splitlines():
        if line.startswith(RESULT_PREFIX):
            return DagTestResult(**json.loads(line.removeprefix(RESULT_PREFIX)))
    raise AssertionError(
        f"dag.test() gave no result, exit code {completed.returncode}\n"
        f"{completed.stdout[-4000:]}\n{completed.stderr[-8000:]}"
    )
