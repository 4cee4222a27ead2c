"""Requests that are objects or have several faults: what is said, and when."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.operators.request import parse_request


@pytest.mark.parametrize(
    ("fields"),
    [
        pytest.param({"checkpoint": {"uri": "s3://bucket/{{ ds }}"}}, id="the checkpoint's address"),
        pytest.param({"models": ["{{ params.model }}"]}, id="a model"),
        pytest.param({"data": ["{{ params.data }}"]}, id="a dataset"),
        pytest.param({"where": {"regions": ["{% if a %}eu{% endif %}"]}}, id="a region"),
        pytest.param({"where": {"denied_regions": ["{{ var.value.x }}"]}}, id="a denied region"),
        pytest.param({"time": {"runtime_hours_by_model": {"{{ params.model }}": 3}}}, id="a key"),
    ],
)
def test_a_template_inside_an_object_is_refused(fields: dict[str, Any]) -> None:
    """Airflow does not render objects, so the text would reach the cluster as it stands."""
    with pytest.raises(ValidationError, match="pass a dict instead"):
        GpuRequest(**fields)


def test_every_problem_is_named_at_once() -> None:
    """Nobody should have to run a DAG twice to learn of two mistakes."""
    with pytest.raises(RequestError) as caught:
        parse_request({"gpus_per_node": 0, "nodes": -1})

    assert str(caught.value).count("\n") == 1


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param({"gpus": 8}, "unknown field; did you mean 'gpus_per_node'?", id="misspelt"),
        pytest.param({"count": 8}, "unknown field; write gpus_per_node", id="a count"),
        pytest.param({"regions": ["eu"]}, "it belongs to the group 'where'", id="the wrong group"),
        pytest.param({"where": {"region": "eu"}}, "did you mean 'regions'?", id="misspelt in a group"),
        pytest.param({"network": "ib"}, "must be a dict with some of kinds, min_gbps", id="no group"),
    ],
)
def test_a_wrong_object_says_the_same_when_the_dag_is_read(fields: dict[str, Any], want: str) -> None:
    """The hints are those of a dict, and every mistake is told at once."""
    with pytest.raises(ValidationError) as caught:
        GpuRequest(**fields, nodes=0)

    assert caught.value.error_count() == 2
    assert want in str(caught.value)
