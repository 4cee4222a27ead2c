"""The request of a task, from the DAG file alone."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.cli.dag_request import request_of_task
from airflow_gpu_placement.cli.doctor.check_dags import check_dags
from airflow_gpu_placement.cli.doctor.finding import FixKind
from airflow_gpu_placement.cli.request import read_request
from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.model.request import GpuRequest
from tests.unit.cli.nodes import arguments

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_gpu_placement.cli.doctor.finding import Finding

SOURCE = """
from __future__ import annotations

from airflow.sdk import dag, task

from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.operators import GpuTrainingJobOperator

FIXED = {"image": "i", "command": ["c"]}


@dag(dag_id="llm", schedule=None, params={"gpus": 4})
def training():
    GpuTrainingJobOperator(
        task_id="fixed",
        gpu=GpuRequest(gpus_per_node=8, models=("H100",)),
        profile="{{ 'fastest' }}",
        pod_resources={"cpu": "32"},
        **FIXED,
    )
    GpuTrainingJobOperator(
        task_id="templated",
        gpu={"gpus_per_node": "{{ params.gpus }}", "checkpoint": {"uri": "s3://b/{{ ds }}"}},
        pod_resources={"cpu": "{{ 8 * params.gpus }}"},
        retries=0,
        **FIXED,
    )
    GpuTrainingJobOperator(
        task_id="of_the_run", gpu={"gpus_per_node": "{{ dag_run.conf['gpus'] }}"}, **FIXED
    )
    GpuTrainingJobOperator.partial(
        task_id="mapped_elsewhere", gpu={"nodes": 2}, pod_resources={"memory": "8Gi"}, **FIXED
    ).expand(arguments=[["a"], ["b"]])
    GpuTrainingJobOperator.partial(task_id="mapped", **FIXED).expand(gpu=[{"nodes": 1}, {"nodes": 2}])

    @task
    def plain():
        return {"nodes": 3}

    GpuTrainingJobOperator(task_id="computed", gpu=plain(), **FIXED)
    GpuTrainingJobOperator(task_id="part", gpu={"nodes": plain()}, **FIXED)
    GpuTrainingJobOperator(task_id="whole", gpu="{{ params.gpus }}", **FIXED)
    GpuTrainingJobOperator(task_id="least", gpu={}, **FIXED)
    GpuTrainingJobOperator(task_id="number", gpu=8, **FIXED)
    GpuTrainingJobOperator(task_id="broken", gpu={"nodes": "{{ params. }}"}, **FIXED)
    GpuTrainingJobOperator(task_id="divided", gpu={"nodes": "{{ 1 // 0 }}"}, **FIXED)
    GpuTrainingJobOperator(task_id="much", gpu={}, pod_resources={"cpu": "a lot"}, **FIXED)


training()
"""


@pytest.fixture(autouse=True)
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a bundle with one good and one broken DAG file."""
    # A file mended within the second keeps its size, so its bytecode would still count as fresh.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "training.py").write_text(SOURCE)
    (tmp_path / "broken.py").write_text("from airflow.sdk import dag\nraise ValueError('no good')\n")
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    bundles = [{"name": "here", "classpath": local, "kwargs": {"path": str(tmp_path)}}]
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps(bundles))
    monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    return tmp_path


def test_a_request_object_is_taken_as_it_is() -> None:
    """Only what the author wrote counts as given, so that flags can change the rest."""
    found = request_of_task("llm", "fixed")
    assert found == ({"gpus_per_node": 8, "models": ("H100",)}, "fastest", {"cpu": "32"})


def test_templates_are_rendered_with_parameters_and_the_date() -> None:
    """The defaults of the DAG's parameters are used, and the date of today."""
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    found = request_of_task("llm", "templated", ["here"])
    assert found.gpu == {"gpus_per_node": "4", "checkpoint": {"uri": f"s3://b/{today}"}}
    assert found.pod_resources == {"cpu": "32"}


def test_a_request_for_the_least_is_one() -> None:
    """One GPU is what a task gets that asks for nothing else."""
    assert request_of_task("llm", "least").gpu == {}
    assert read_request(Namespace(**arguments(dag="llm", task="least"))).request == GpuRequest()


def test_a_mapped_task_with_one_request_is_read() -> None:
    """What is the same for every map index is known without a run."""
    assert request_of_task("llm", "mapped_elsewhere") == ({"nodes": 2}, None, {"memory": "8Gi"})


@pytest.mark.parametrize(
    ("dag_id", "task_id", "want"),
    [
        pytest.param("llm", "of_the_run", "'dag_run' is undefined", id="a template of the run"),
        pytest.param("llm", "mapped", "differs from one map index to the next", id="mapped over gpu"),
        pytest.param("llm", "computed", "known in a run only", id="the result of another task"),
        pytest.param("llm", "part", "gpu .* known in a run only", id="a field of another task's result"),
        pytest.param("llm", "whole", "known in a run only", id="a template for all of it"),
        pytest.param("llm", "number", "expected a GpuRequest or a dict .* got 8", id="no request"),
        pytest.param("llm", "broken", "cannot be rendered, in a run neither", id="no template"),
        pytest.param("llm", "divided", "in a run neither: ZeroDivisionError", id="a template that fails"),
        pytest.param("llm", "much", "llm.much: pod_resources.cpu: must be a quantity", id="no quantity"),
        pytest.param("llm", "plain", "has no argument gpu", id="another kind of task"),
        pytest.param("llm", "fixd", "has no task 'fixd'; did you mean 'fixed'", id="a misspelt task"),
        pytest.param("lm", "fixed", "no DAG 'lm'; did you mean 'llm'.*broken.py.*no good", id="no such DAG"),
    ],
)
def test_what_is_not_known_outside_of_a_run_is_refused(dag_id: str, task_id: str, want: str) -> None:
    """The message says what to do instead."""
    with pytest.raises(RequestError, match=want):
        request_of_task(dag_id, task_id)


def test_an_unknown_bundle_is_refused() -> None:
    """A misspelt bundle is not silently the same as none."""
    with pytest.raises(RequestError, match="no DAG bundle 'her'; did you mean 'here'"):
        request_of_task("llm", "fixed", ["her"])


def test_a_task_that_is_never_retried_is_found_and_its_mending_works(bundle: Path) -> None:
    """The command that is told takes the finding away, and changes nothing else."""
    (finding,) = check_dags()
    assert (finding.id, finding.kind) == ("RetriesZero", FixKind.COMMAND)
    assert finding.where == f"task llm.templated in {bundle / 'training.py'}"
    run(finding)
    assert check_dags() == []
    assert (bundle / "training.py").read_text() == SOURCE.replace("retries=0", "retries=5")


def run(finding: Finding) -> None:
    """Run the command of a finding in a shell."""
    subprocess.run(["sh", "-e", "-c", finding.fix], check=True, timeout=30)


def test_retries_that_come_from_elsewhere_are_written_into_the_task(bundle: Path) -> None:
    """Into that of a group and into a mapped one too; strange letters in the line do no harm."""
    (bundle / "training.py").write_text(
        FROM_DEFAULTS := """
from airflow.sdk import TaskGroup, dag
from airflow_gpu_placement import operators as gpu
@dag(schedule=None, default_args={"retries": 0})
def llm():
    with TaskGroup("night"):
        gpu.GpuTrainingJobOperator(image="a/b&c.*", task_id='fit', gpu={"models": "[H100]"}, command=["c"])
    gpu.GpuTrainingJobOperator.partial(task_id="many", gpu={}, image="i").expand(command=[["a"], ["b"]])
llm()
"""
    )
    found = check_dags()
    assert [one.where.split()[1] for one in found] == ["llm.night.fit", "llm.many"]
    for finding in found:
        run(finding)
    assert check_dags() == []
    mended = FROM_DEFAULTS.replace("'fit'", "'fit', retries=5").replace('"many"', '"many", retries=5')
    assert (bundle / "training.py").read_text() == mended


@pytest.mark.parametrize(
    "task",
    [
        pytest.param('Operator(task_id="fit", retries=NONE, **REST)', id="a name for the number"),
        pytest.param('Operator(task_id="f" + "it", retries=0, **REST)', id="an id that is put together"),
        pytest.param('[Operator(task_id=one, retries=0, **REST) for one in ["fit"]]', id="made in a loop"),
    ],
)
def test_where_the_file_does_not_show_how_a_task_is_made_its_author_writes_the_line(
    bundle: Path, task: str
) -> None:
    """No command is told that might change the wrong place."""
    (bundle / "training.py").write_text(
        "from airflow.sdk import DAG\n"
        "from airflow_gpu_placement.operators import GpuTrainingJobOperator as Operator\n"
        "NONE, REST = 0, {'gpu': {}, 'image': 'i', 'command': ['c']}\n"
        f"with DAG('llm', schedule=None):\n    {task}\n"
    )
    (finding,) = check_dags()
    assert (finding.kind, finding.fix) == (FixKind.PYTHON, "retries=5,")
