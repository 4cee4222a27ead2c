"""From flags or a file to a request."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_gpu_placement.cli.request import read_request
from airflow_gpu_placement.exceptions import RequestError
from airflow_gpu_placement.model.pool import CapacityType
from tests.unit.cli.nodes import arguments

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_gpu_placement.model.request import GpuRequest


def asked(**values: Any) -> GpuRequest:
    """Read the request of these arguments."""
    return read_request(Namespace(**arguments(**values))).request


def test_flags_make_a_request() -> None:
    """Texts become numbers and groups, by the rules of the request itself."""
    request = asked(
        gpus_per_node="8",
        nodes="2",
        model=["H100", "H200"],
        min_memory_gb="80",
        capacity_type=["spot"],
        same_zone=True,
        runtime_hours_on=["H100=3.5", "H200=2"],
        checkpoint_uri="s3://bucket/llm",
        price_cap="4",
    )
    assert (request.gpus_per_node, request.nodes, request.models) == (8, 2, ("H100", "H200"))
    assert request.where.capacity_types == (CapacityType.SPOT,)
    assert request.network.same_zone
    assert request.time.runtime_hours_by_model == {"H100": 3.5, "H200": 2.0}
    assert request.checkpoint.uri == "s3://bucket/llm"
    assert request.price_cap_usd_per_gpu_hour == 4


def test_a_file_is_read_and_flags_win(tmp_path: Path) -> None:
    """A flag changes one field of a group and leaves its neighbours."""
    path = tmp_path / "request.yaml"
    path.write_text("gpus_per_node: 4\nwhere: {regions: [eu-west], capacity_types: [spot]}\n")
    found = read_request(Namespace(**arguments(request=str(path), region=["us-east"], nodes="3")))
    assert found.subject == str(path)
    assert (found.request.gpus_per_node, found.request.nodes) == (4, 3)
    assert found.request.where.regions == ("us-east",)
    assert found.request.where.capacity_types == (CapacityType.SPOT,)


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param({}, "no request: say what the job needs", id="nothing at all"),
        pytest.param({"request": "a", "dag": "b", "task": "c"}, "give one of them", id="two requests"),
        pytest.param({"dag": "b"}, "no request: say what the job needs", id="a DAG without a task"),
        pytest.param({"task": "b"}, "--task needs --dag", id="a task without a DAG"),
        pytest.param({"gpus_per_node": "many"}, "gpu.gpus_per_node", id="not a number"),
        pytest.param({"nodes": "0"}, "gpu.nodes", id="too small"),
        pytest.param({"runtime_hours_on": ["H100"]}, "--runtime-hours-on: write MODEL=HOURS", id="no pair"),
        pytest.param({"nodes": "1", "bundle_name": ["b"]}, "--bundle-name says", id="a bundle for nothing"),
        pytest.param({"request": "/no/such/file"}, "/no/such/file: cannot be read", id="no such file"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused(values: dict[str, Any], want: str) -> None:
    """The message says what to write instead."""
    with pytest.raises(RequestError, match=want):
        asked(**values)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("- 1", "expected a mapping", id="a list"),
        pytest.param("gpus: 8", "gpu.gpus: unknown field; did you mean", id="an unknown field"),
        pytest.param("{", r"line 1, column 2: is not valid YAML", id="broken"),
        pytest.param("", "is empty; it needs at least 'gpus_per_node: 1'", id="empty"),
        pytest.param("nodes: 1\nnodes: 2", r"nodes: is given twice \(lines 1 and 2\)", id="a key twice"),
        pytest.param("gpu: {nodes: 1}", "request.yaml:gpu: leave this key out", id="the argument's name"),
        pytest.param(f"models: {'[' * 5000}{']' * 5000}", "nested too deeply", id="nested"),
        pytest.param(f"nodes: {'9' * 5000}", "nodes: .* is not a whole number", id="a huge number"),
        pytest.param("nodes: 1.5\nmin_memory_gb: 80GB", r"gpu.nodes: .*\ngpu.min_memory_gb:", id="two"),
    ],
)
def test_a_file_that_is_no_request_is_refused(tmp_path: Path, text: str, want: str) -> None:
    """A file has to hold the fields of a request."""
    path = tmp_path / "request.yaml"
    path.write_text(text)
    with pytest.raises(RequestError, match=want):
        asked(request=str(path))


def test_json_with_tabs_is_read(tmp_path: Path) -> None:
    """Such JSON is no YAML for each of its parsers."""
    path = tmp_path / "request.json"
    path.write_text('{\n\t"nodes": 3\n}')
    assert asked(request=str(path)).nodes == 3
