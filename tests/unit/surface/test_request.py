"""What an author may write as a request, and what is said when it is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.operators.request import parse_request


def test_rendered_texts_become_numbers() -> None:
    """Jinja makes texts of everything, so texts are read as numbers."""
    request = parse_request({"gpus_per_node": "8", "nodes": "2", "min_memory_gb": "80", "models": "H100"})

    assert request == GpuRequest(gpus_per_node=8, nodes=2, min_memory_gb=80, models=("H100",))
    assert request.describe() == "16 GPUs = 2 x 8 (H100, at least 80 GB)"


@pytest.mark.parametrize(
    ("gpu", "want"),
    [
        pytest.param(
            {"gpus": 8}, r"gpu\.gpus: unknown field; did you mean", id="a field that does not exist"
        ),
        pytest.param(
            {"checkpoint": {"url": "s3://x"}},
            r"gpu\.checkpoint\.url: unknown field; did you mean 'uri'\?",
            id="a field of a group that does not exist",
        ),
        pytest.param({"gpus_per_node": 0}, r"gpu\.gpus_per_node: .*\(got 0\)", id="no GPU at all"),
        pytest.param({"gpus_per_node": "many"}, r"gpu\.gpus_per_node: .*\(got 'many'\)", id="not a number"),
        pytest.param(
            {"checkpoint": {"uri": "here"}}, r"neither a URL nor an absolute path", id="relative path"
        ),
        pytest.param("8 GPUs", r"expected a GpuRequest or a dict", id="a text"),
    ],
)
def test_a_wrong_request_says_where_and_what_instead(gpu: Any, want: str) -> None:
    """The message names the field, the problem and the remedy."""
    with pytest.raises(RequestError, match=want):
        parse_request(gpu)


def test_a_template_inside_an_object_is_refused() -> None:
    """Airflow does not render objects, so the text would reach the cluster as it stands."""
    with pytest.raises(ValueError, match="pass a dict instead"):
        GpuRequest(checkpoint={"uri": "s3://bucket/{{ ds }}"})  # type: ignore[arg-type]  # pydantic coerces it


def test_every_problem_is_named_at_once() -> None:
    """Nobody should have to run a DAG twice to learn of two mistakes."""
    with pytest.raises(RequestError) as caught:
        parse_request({"gpus_per_node": 0, "nodes": -1})

    assert str(caught.value).count("\n") == 1
