"""What an author writes beside the request is checked before anything is created."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.operators.arguments import check_arguments, env_texts, texts
from airflow_gpu_placement.operators.gpu_training import GpuTrainingJobOperator


def operator(**arguments: Any) -> GpuTrainingJobOperator:
    """Build an operator that is right but for these arguments."""
    right: dict[str, Any] = {"image": "i", "command": ["python"], "gpu": {"gpus_per_node": 1}}
    return GpuTrainingJobOperator(task_id="t", **(right | arguments))


def test_right_arguments_pass() -> None:
    """Everything in its usual form is accepted."""
    check_arguments(
        operator(
            arguments=["--epochs", "3"],
            env={"A": "1"},
            pod_resources={"cpu": "8"},
            volumes=[{"name": "v", "emptyDir": {}}],
            volume_mounts=({"name": "v", "mountPath": "/v"},),
        )
    )


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param({"image": ""}, r"image: must name a container image", id="no image"),
        pytest.param({"image": None}, r"image: must name a container image, not None", id="image None"),
        pytest.param(
            {"command": "python train.py"},
            r"command: must be a list of texts.*'/bin/sh', '-c'",
            id="one text",
        ),
        pytest.param({"command": ["python", None]}, r"command\[1\]: must be a text, not None", id="nothing"),
        pytest.param(
            {"arguments": "--a b"}, r"arguments: must be a list of texts", id="arguments as one text"
        ),
        pytest.param({"env": {"A": None}}, r"env\.A: must be a text, not None", id="nothing in env"),
        pytest.param(
            {"env": {"GPU_PLACEMENT_TRY": "1"}}, r"env\.GPU_PLACEMENT_TRY: .*use another name", id="ours"
        ),
        pytest.param(
            {"pod_resources": {"nvidia.com/gpu": "4"}}, r"pod_resources\.nvidia\.com/gpu", id="GPUs twice"
        ),
        pytest.param(
            {"pod_resources": {"memory": "200 GB"}},
            r"pod_resources\.memory: must be a quantity such as .*'200Gi', not '200 GB'",
            id="no quantity",
        ),
        pytest.param({"volumes": "data"}, r"volumes: must be a list of dicts", id="volumes as text"),
        pytest.param(
            {"volume_mounts": [{"nam": "v"}]}, r"volume_mounts\[0\]: must be a dict with a 'name'", id="nam"
        ),
        pytest.param(
            {"placement_timeout": 5}, r"placement_timeout: must be a timedelta", id="time-out as number"
        ),
        pytest.param({"placement_timeout": timedelta(0)}, r"placement_timeout", id="no time at all"),
        pytest.param({"ttl_seconds_after_finished": -1}, r"ttl_seconds_after_finished", id="negative ttl"),
        pytest.param(
            {"resume": "sometimes"}, r"resume: 'sometimes' is none of auto, always, never", id="resume"
        ),
    ],
)
def test_a_wrong_argument_says_where_and_what_instead(arguments: dict[str, Any], want: str) -> None:
    """Nothing of this may reach an API server and be retried there."""
    with pytest.raises(RequestError, match=want):
        check_arguments(operator(**arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        {"placement_timeout": 5},
        {"ttl_seconds_after_finished": "1 day"},
        {"resume": "sometimes"},
        {"on_unreachable": "ignore"},
    ],
)
def test_what_no_template_changes_is_refused_when_the_dag_is_read(arguments: dict[str, Any]) -> None:
    """The author is told before anything runs."""
    (name,) = arguments
    with pytest.raises(RequestError, match=f"^{name}: "):
        operator(**arguments)


def test_every_wrong_argument_is_named_at_once() -> None:
    """One run of a DAG shows all mistakes."""
    with pytest.raises(RequestError) as caught:
        check_arguments(operator(image="", command="x", env={"A": None}))

    assert str(caught.value).count("\n") == 2


def test_numbers_are_taken_as_texts() -> None:
    """A DAG that renders its templates as native objects makes "12" a number, quoted or not."""
    with DAG("d", schedule=None, render_template_as_native_obj=True):
        native = operator(
            arguments=["--epochs", "12", "--rate", "0.5", "--day", "{{ ds_nodash }}", "--amp", "True"],
            env={"SEED": "7", "DEBUG": "{{ true }}"},
        )
    native.render_template_fields({"ds_nodash": "20260101"})
    check_arguments(native)
    assert not isinstance(native.arguments[1], str)
    assert texts(native.arguments) == (
        "--epochs",
        "12",
        "--rate",
        "0.5",
        "--day",
        "20260101",
        "--amp",
        "True",
    )
    assert env_texts(native.env) == {"SEED": "7", "DEBUG": "True"}
    assert env_texts(None) == {}


def test_an_image_may_bring_its_own_command() -> None:
    """Its entry point is run when no command is given."""
    check_arguments(operator(command=[]))
    check_arguments(GpuTrainingJobOperator(task_id="t", image="i", gpu={"gpus_per_node": 1}))
