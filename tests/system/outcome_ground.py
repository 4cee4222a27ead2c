"""What scenarios of outcomes are made of: a DAG and a catalogue each, on one fleet and one Airflow."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, Semaphore
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.harness.leaks import LeakScope, find_leaks
from tests.harness.side_by_side import Plays, Scenario
from tests.system import fleet, outcome_fleet
from tests.system.playground import PATIENCE_SECONDS, TASK, Playground, Run, wait_no_triggers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pytest

    from lab import Lab
    from lab.airflow.records import TaskInstance
    from lab.airflow.servers import AirflowProcesses
    from tests.harness.recorder import JobRecorder

#: Tasks that may be in their first worker together: as many as this machine has processors, on small ones.
STARTING_TOGETHER = 2
OUT_OF_WORKER = frozenset({"deferred", "up_for_retry", "success", "failed"})
#: Nodes of one cluster that may be silent together; more would look like a fault of the cluster.
SILENT_TOGETHER = 4
ONE_GPU = {"gpus_per_node": 1, "models": ["H100"]}
#: Numbered lines until the run's folder says how its n-th remote job ends: by a code, or with success.
PROGRAM = """
trap 'exit 143' TERM
n=0
while [ ! -e "$1/finish" ]; do
  if [ -e "$1/memory-$GPU_PLACEMENT_FENCE" ]; then touch "$HOME/oom-killed"; exit 137; fi
  if [ -e "$1/exit-$GPU_PLACEMENT_FENCE" ]; then exit "$(cat "$1/exit-$GPU_PLACEMENT_FENCE")"; fi
  n=$((n+1)); echo "line $n"; sleep 0.5
done
echo "{\\"lines\\": $n, \\"fence\\": $GPU_PLACEMENT_FENCE}" > "$GPU_PLACEMENT_RESULT_PATH"
"""
#: The training on the digits: the first remote job takes its time, so that it is still there much later.
TRAINING = """
seconds=0.05; [ "$GPU_PLACEMENT_FENCE" = 1 ] && seconds=1
exec "$0" "$1" --epochs "$2" --seconds-per-epoch "$seconds"
"""
DAG_FILE = """
from __future__ import annotations

import datetime
import os

from airflow.sdk import DAG

from airflow_gpu_placement.operators import GpuTrainingJobOperator
from tests.harness import gates

gates.install({root!r})


def use_own_catalog(context):
    os.environ["AIRFLOW__GPU_PLACEMENT__CATALOG"] = f"{root}/{{context['ti'].dag_id}}.yaml"


for dag_id, arguments in {dags!r}.items():
    with DAG(dag_id, schedule=None, catchup=False) as dag:
        GpuTrainingJobOperator(
            pre_execute=use_own_catalog, retry_delay=datetime.timedelta(seconds=1), **arguments
        )
    globals()[dag_id] = dag
"""

_FOLLOWED = re.compile(r"\b(line 10|epoch 3/\d+)\b")


class Launch(NamedTuple):
    """What is remembered of one remote job."""

    pool: str
    outcome: str
    cause: str


@dataclass(frozen=True, kw_only=True)
class Case(Scenario["Stage"]):
    """A scenario with pools and operator arguments of its own.

    :param pools: its catalogue; the job starts in the cheapest.
    :param operator: arguments of the operator beside the usual ones.
    """

    pools: Sequence[Mapping[str, Any]]
    operator: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What the cases of a module share.

    :param starting: taken until a run's task has left its first worker: many that start together starve.
    :param quiet: taken while a node of cluster ``main`` is silent.
    :param alone: by cluster: taken while it fails as a whole.
    """

    lab: Lab
    ground: Playground
    starting: Semaphore = field(default_factory=lambda: Semaphore(STARTING_TOGETHER))
    quiet: Semaphore = field(default_factory=lambda: Semaphore(SILENT_TOGETHER))
    alone: Mapping[str, Lock] = field(default_factory=lambda: {"dark": Lock(), "frail": Lock()})

    def start(self, case: Scenario[Stage], *, hold: str | None = None) -> Run:
        """Start the run of a case."""
        with self.starting:
            run = self.ground.start(case.id.lower(), variant=case.id, hold=hold)
            if hold is None:
                run.until(lambda: run.task.state in OUT_OF_WORKER, "its first part")
            else:
                run.wait_held(hold)
        return run

    @contextmanager
    def silent(self, harm: Callable[[], object], mend: Callable[[], object]) -> Iterator[None]:
        """Do in the block what is to be seen while a node of cluster ``main`` is silent.

        :param harm: silences it.
        :param mend: lets it be heard of again; done in any case.
        """
        with self.quiet:
            harm()
            try:
                yield
            finally:
                mend()


def plays_of(
    request: pytest.FixtureRequest,
    cases: Sequence[Case],
    *,
    lab: Lab,
    airflow: AirflowProcesses,
    recorder: JobRecorder,
    root: Path,
) -> Iterator[Plays[Stage]]:
    """Set the stage of a module; in the end nothing may be left on clusters, on nodes or in Airflow."""
    outcome_fleet.connect(lab, airflow.client)
    stage = Stage(lab=lab, ground=_ground(cases, airflow, recorder, root))
    yield Plays(request, cases, stage)
    for folder in root.glob("out-*"):
        (folder / "finish").touch()  # what a failed case has left ends too
    others = [outcome_fleet.NO_PODS, outcome_fleet.NO_JOBS]
    names = [outcome_fleet.NAMESPACE] * len(lab.clusters) + others
    clusters = [*lab.clusters, *(lab.cluster("main") for _ in others)]
    scopes = [LeakScope(one.name, one.api, name) for one, name in zip(clusters, names, strict=True)]
    dags = list(stage.ground.dags.values())
    leaks = find_leaks(
        scopes, airflow=airflow.client, dag_ids=dags, deadline_seconds=60, finished_is_leak=False
    )
    assert leaks == []
    assert fleet.containers_of(lab, timeout_seconds=30) == {}
    wait_no_triggers(airflow)


def _ground(
    cases: Sequence[Case], airflow: AirflowProcesses, recorder: JobRecorder, root: Path
) -> Playground:
    dags = {case.id: f"outcome_{case.id.removeprefix('OUT-').lower()}" for case in cases}
    common = {
        "task_id": TASK,
        "image": "lab/train-digits",
        "command": ["/bin/sh"],
        "arguments": ["-c", PROGRAM, "program", f"{root}/{{{{ run_id }}}}"],
        "gpu": ONE_GPU,
        "volumes": [{"name": "runs", "hostPath": {"path": str(root)}}],
        "volume_mounts": [{"name": "runs", "mountPath": str(root)}],
    }
    for case in cases:
        outcome_fleet.write_catalog(root / f"{dags[case.id]}.yaml", case.pools)
    written = {dags[case.id]: {**common, **_own(case, root)} for case in cases}
    name = root.name
    airflow.add_dag(name, DAG_FILE.format(root=str(root), dags=written))
    for dag_id in dags.values():
        airflow.client.wait_dag_parsed(dag_id, file_name=f"{name}.py")
    return Playground(airflow, recorder, root, dags)


def _own(case: Case, root: Path) -> dict[str, Any]:
    """Return a case's own arguments; ``epochs`` stands for a training with checkpoints."""
    own = dict(case.operator)
    epochs = own.pop("epochs", None)
    if epochs is None:
        return own
    checkpoint = {"uri": f"file://{root}/{{{{ run_id }}}}/checkpoints"}
    return {
        "arguments": ["-c", TRAINING, sys.executable, str(fleet.TRAINING), str(epochs)],
        "gpu": {**ONE_GPU, "checkpoint": checkpoint},
        **own,
    }


def records(run: Run) -> list[dict[str, Any]]:
    """Return what the task remembers of each of its remote jobs, the first one first."""
    store = run.ground.airflow.client.task_store(run.dag_id, run.run_id, TASK)
    attempts: list[dict[str, Any]] = store["gpu_placement.record"]["attempts"]
    return attempts


def launches(run: Run) -> list[Launch]:
    """Return where each remote job ran and how it ended."""
    return [Launch(one["pool"], one.get("outcome", ""), one.get("cause", "")) for one in records(run)]


def ends(run: Run, state: str, *, try_number: int) -> TaskInstance:
    """Wait until a run has ended, and assert how, and that nothing of it is left."""
    task = run.ground.airflow.client.wait_task_state(
        run.dag_id, run.run_id, TASK, {"success", "failed"}, PATIENCE_SECONDS
    )
    story = run.log(task.try_number)
    assert (task.state, task.try_number) == (state, try_number), story
    run.wait_over()
    run.assert_law_kept()
    return task


def watched(run: Run, count: int = 1) -> None:
    """Wait until the newest of so many remote jobs is followed: what befalls it from now on is seen.

    Some lines of its log are awaited too: Airflow's scheduler has then long heard of the deferral.
    """
    run.wait_deferred(count)
    try_number = run.task.try_number
    run.until(lambda: _FOLLOWED.search(written(run, try_number)), "its log to be followed")


def written(run: Run, try_number: int) -> str:
    """Return what the log files of a try hold by now, as JSON: it is asked for many times a second."""
    logs = run.ground.airflow.home / "logs" / f"dag_id={run.dag_id}" / f"run_id={run.run_id}"
    files = sorted(logs.glob(f"task_id={TASK}/attempt={try_number}.log*"))
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in files)


def exits(run: Run, code: int, *, fence: int = 1) -> None:
    """Let the remote program with a fence end with a code."""
    partial = run.folder / "code"
    partial.write_text(str(code), encoding="ascii")
    partial.rename(run.folder / f"exit-{fence}")


def job_exists(lab: Lab, cluster: str, name: str, namespace: str = outcome_fleet.NAMESPACE) -> bool:
    """Whether a Job is there."""
    found = lab.cluster(cluster).api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")["items"]
    return any(job["metadata"]["name"] == name for job in found)
