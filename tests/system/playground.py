"""DAG runs that scenarios are made of: a remote job that lasts until told to end, and tasks that can be held.

A ``Playground`` is one DAG file with a few DAGs. A run of one of them is a ``Run``: it has a folder, in which
files say where its task is held (``tests.harness.gates``) and when its remote program may end.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from threading import Lock
from typing import TYPE_CHECKING, Any

from lab.airflow.rest import ApiError
from tests.harness.leaks import LeakScope, find_leaks
from tests.system import fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lab import Lab
    from lab.airflow.records import TaskInstance
    from lab.airflow.servers import AirflowProcesses
    from tests.harness.recorder import JobRecorder
    from tests.harness.remote_jobs import RemoteJob

TASK = "train"
POLL_SECONDS = 0.1
#: How often Airflow is asked: twenty threads that ask too often would be its main load.
ASK_SECONDS = 1.0
#: Longest wait for one step; on a quiet machine of two cores none takes a tenth of it.
PATIENCE_SECONDS = 240.0
NOTED_SECONDS = 20.0
#: A process may have been seen alive for the last time so long ago without being over.
LOOK_SECONDS = 1.0
ONE_GPU = {"gpus_per_node": 1, "models": ["A100", "H100"]}
#: The remote program: numbered lines until its run's folder says that it may end.
PROGRAM = """
trap 'exit 143' TERM
n=0
while [ ! -e "$1/finish" ]; do n=$((n+1)); echo "line $n"; sleep 0.5; done
echo "{\\"lines\\": $n, \\"fence\\": $GPU_PLACEMENT_FENCE}" > "$GPU_PLACEMENT_RESULT_PATH"
"""
DAG_FILE = """
from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_gpu_placement.operators import GpuTrainingJobOperator
from tests.harness import gates

gates.install({root!r})
for dag_id, arguments in {dags!r}.items():
    with DAG(dag_id, schedule=None, catchup=False, max_active_runs=64, max_active_tasks=64) as dag:
        GpuTrainingJobOperator(retry_delay=timedelta(seconds=1), **arguments)
    globals()[dag_id] = dag
"""


@dataclass(frozen=True)
class Playground:
    """Some DAGs with one task ``train`` each.

    :param root: folder of all runs.
    :param dags: DAG ids by the name of the variant.
    :param starting: held by the run that is being started. A dozen tasks that start at the same moment take
        all the time of a machine of two cores, and every server stands still meanwhile.
    """

    airflow: AirflowProcesses
    recorder: JobRecorder
    root: Path
    dags: Mapping[str, str]
    starting: Lock = field(default_factory=Lock)

    @classmethod
    def open(
        cls,
        airflow: AirflowProcesses,
        recorder: JobRecorder,
        root: Path,
        name: str,
        variants: Mapping[str, Mapping[str, Any]],
    ) -> Playground:
        """Write the DAG file and wait until it is parsed.

        :param variants: arguments of the operator by the name of the variant.
        """
        dags = {variant: f"{name}_{variant}" for variant in variants}
        common = {
            "task_id": TASK,
            "image": "lab/train-digits",
            "command": ["/bin/sh"],
            "arguments": ["-c", PROGRAM, "program", f"{root}/{{{{ run_id }}}}"],
            "gpu": ONE_GPU,
            "volumes": [{"name": "runs", "hostPath": {"path": str(root)}}],
            "volume_mounts": [{"name": "runs", "mountPath": str(root)}],
        }
        written = {dags[variant]: {**common, **own} for variant, own in variants.items()}
        airflow.add_dag(name, DAG_FILE.format(root=str(root), dags=written))
        for dag_id in dags.values():
            airflow.client.wait_dag_parsed(dag_id, file_name=f"{name}.py")
        return cls(airflow, recorder, root, dags)

    def start(self, run_id: str, *, variant: str = "plain", hold: str | None = None) -> Run:
        """Start a run.

        :param hold: the step at which its first task process is to be held.
        """
        folder = self.root / run_id
        folder.mkdir()
        if hold is not None:
            (folder / f"{hold}.hold").touch()
        run = Run(self, self.dags[variant], run_id, folder)
        with self.starting:
            self.airflow.client.trigger(run.dag_id, run_id=run_id)
            run.until(
                lambda: run.task.start_date is not None, "its task to start", poll_seconds=ASK_SECONDS / 2
            )
        return run


@dataclass(frozen=True)
class Run:
    """One run of a playground's DAG."""

    ground: Playground
    dag_id: str
    run_id: str
    folder: Path

    @property
    def jobs(self) -> list[RemoteJob]:
        """Every remote job that this run ever had, the first one first."""
        return self.ground.recorder.jobs(self.dag_id, self.run_id)

    @property
    def task(self) -> TaskInstance:
        """The task instance as it is now."""
        return self.ground.airflow.client.task_instance(self.dag_id, self.run_id, TASK)

    def wait(
        self, state: str, *, timeout_seconds: float = PATIENCE_SECONDS, try_number: int | None = None
    ) -> TaskInstance:
        """Wait until the task is in a state."""
        return self.ground.airflow.client.wait_task_state(
            self.dag_id, self.run_id, TASK, state, timeout_seconds, try_number=try_number
        )

    def wait_held(self, step: str, timeout_seconds: float = PATIENCE_SECONDS) -> tuple[int, int]:
        """Wait until the task is held at a step; return the pids of its process and of its supervisor."""
        reached = self.folder / f"{step}.reached"
        self.until(reached.exists, f"its task to come to {step}", timeout_seconds)
        task_pid, supervisor_pid = map(int, reached.read_text().split())
        return task_pid, supervisor_pid

    def release(self, step: str) -> None:
        """Let the task that is held at a step go on."""
        (self.folder / f"{step}.hold").unlink(missing_ok=True)

    def finish(self) -> None:
        """Let the remote program end with success, now or whenever it starts."""
        (self.folder / "finish").touch()

    def wait_jobs(self, count: int, timeout_seconds: float = PATIENCE_SECONDS) -> list[RemoteJob]:
        """Wait until there have been so many remote jobs, and the last one's program runs or has ended."""
        self.until(
            lambda: len(self.jobs) >= count and (self.jobs[-1].running_at or not self.jobs[-1].live),
            f"remote job number {count} to run",
            timeout_seconds,
        )
        return self.jobs

    def wait_created(self, count: int) -> None:
        """Wait until so many remote jobs were seen; what was created a moment ago may not be yet."""
        self.until(lambda: len(self.jobs) >= count, f"remote job number {count} to be seen")

    def wait_noted(self) -> None:
        """Wait until the scheduler knows that the worker is done with the deferred task.

        A scheduler that hears late of a deferral may take it for the end of what is resumed after it. It says
        nothing when the task's row was locked at that moment, so it is not waited for long.
        """
        deadline = time.monotonic() + NOTED_SECONDS
        while not self._is_noted(self.task) and time.monotonic() < deadline:
            time.sleep(ASK_SECONDS)

    def wait_deferred(self, count: int, *, but: str | None = None) -> None:
        """Wait until the newest of so many remote jobs runs, a trigger watches it and the scheduler knows.

        :param but: id of an earlier attempt, which is not meant.
        """
        self.wait_jobs(count)
        self.until(
            lambda: (task := self.task).state == "deferred" and task.id != but and self._has_trigger(task),
            "its task to be deferred and its trigger to be started",
            poll_seconds=ASK_SECONDS,
        )
        self.wait_noted()

    def _task_if_any(self) -> TaskInstance | None:
        """Return the task instance; ``None`` while it is deleted and not made anew."""
        try:
            return self.task
        except ApiError as error:
            if error.status_code != HTTPStatus.NOT_FOUND:
                raise
            return None

    def _is_noted(self, task: TaskInstance) -> bool:
        """Say whether the scheduler has heard that the worker of this try's first part is done."""
        wanted = re.compile(
            rf"TaskInstance Finished: dag_id={self.dag_id}, .*run_id={re.escape(self.run_id)}, "
            rf".*ti_id={task.id}, .*state=deferred"
        )
        return (
            wanted.search(self.ground.airflow.log_file("scheduler").read_text(errors="replace")) is not None
        )

    def _has_trigger(self, task: TaskInstance) -> bool:
        """Say whether the trigger of this try has begun to write its log."""
        logs = self.ground.airflow.home / "logs" / f"dag_id={self.dag_id}" / f"run_id={self.run_id}"
        return any(logs.glob(f"task_id={TASK}/attempt={task.try_number}.log.trigger.*"))

    def wait_over(self, timeout_seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until no remote job of this run is left: no open object and no process."""

        def over() -> bool:
            now = time.monotonic()
            return all(
                not job.live and not (job.running_at and now - job.running_at[-1] < LOOK_SECONDS)
                for job in self.jobs
            )

        self.until(over, "its remote jobs to be over", timeout_seconds)

    def until(
        self,
        condition: Callable[[], object],
        what: str,
        timeout_seconds: float = PATIENCE_SECONDS,
        *,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """Poll a condition; the error tells what is known of the run."""
        deadline = time.monotonic() + timeout_seconds
        while not condition():
            self.ground.airflow.check_alive()
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"{self.run_id}: waited {timeout_seconds:g} s for {what}\n{self._story()}"
                )
            time.sleep(poll_seconds)

    def assert_law_kept(self) -> None:
        """Assert that no two remote jobs of this run ever ran unfenced beside each other."""
        assert self.ground.recorder.violations(self.dag_id, self.run_id) == []

    def log(self, try_number: int) -> str:
        """Return the log of one try."""
        return self.ground.airflow.client.task_log(self.dag_id, self.run_id, TASK, try_number)

    def _story(self) -> str:
        task = self.task
        jobs = [
            f"{job.label} on {sorted(job.nodes)}: created {job.created.seen_at:.1f}, "
            f"deletion {job.deletion}, closed {job.closed}, last process {job.running_at[-1:]}"
            for job in self.jobs
        ]
        log = "\n".join(self.log(task.try_number).splitlines()[-40:])
        return "\n".join(
            [f"now {time.monotonic():.1f}; task {task.state} in try {task.try_number}", *jobs, log]
        )


def wait_no_triggers(airflow: AirflowProcesses, timeout_seconds: float = 30) -> None:
    """Wait until Airflow keeps no trigger any more."""
    deadline = time.monotonic() + timeout_seconds
    while left := airflow.query("SELECT id FROM trigger"):
        assert time.monotonic() < deadline, f"{len(left)} trigger rows are left after {timeout_seconds:g} s"
        time.sleep(0.5)


def wait_nothing_left(lab: Lab, airflow: AirflowProcesses) -> None:
    """Wait until clusters, nodes and Airflow hold nothing of any run any more."""
    scopes = [LeakScope(cluster.name, cluster.api, fleet.NAMESPACE) for cluster in lab.clusters]
    leaks = find_leaks(scopes, airflow=airflow.client, deadline_seconds=30, finished_is_leak=False)
    assert leaks == []
    assert fleet.containers_of(lab) == {}
    wait_no_triggers(airflow)
