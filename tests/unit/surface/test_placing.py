"""What a task reads before it is placed, and what its attempts hand on to the next."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from airflow_gpu_placement.exceptions import CatalogError, RequestError
from airflow_gpu_placement.hooks.checkpoints import CheckpointScan
from airflow_gpu_placement.model.attempt import TaskRecord
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.operators import GpuTrainingJobOperator
from airflow_gpu_placement.operators.placing import Placing
from airflow_gpu_placement.operators.resuming import checkpoint_region, gpu_model_of
from airflow_gpu_placement.settings import load_settings
from tests.unit.engine.builders import A100_40, decide, pool, seen, signals
from tests.unit.surface.test_memory import JsonStore, attempt

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import Context

CATALOG = """
version: 1
tenants: [{name: vision, teams: [vision], max_priority: 3}]
datasets: [{name: d, size_gib: 1, locations: [nowhere]}]
pools: [{name: p, kubernetes_conn_id: c, region: here}]
"""
OVERLAY = """
version: 1
pools: [{name: q, kubernetes_conn_id: c}]
"""


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a catalogue and an overlay the configured ones."""
    for option, text in (("CATALOG", CATALOG), ("CATALOG_OVERLAY", OVERLAY)):
        path = tmp_path / f"{option.lower()}.yaml"
        path.write_text(text)
        monkeypatch.setenv(f"AIRFLOW__GPU_PLACEMENT__{option}", str(path))
    return tmp_path


def placing(team: str | None = "vision", **arguments: Any) -> Placing:
    """Read what an operator's task needs, in a run of a team."""
    arguments.setdefault("gpu", {"gpus_per_node": "8", "priority": 9})
    operator = GpuTrainingJobOperator(task_id="t", image="i", command=["c"], **arguments)
    context = {
        "ti": SimpleNamespace(
            dag_id="d", run_id="r", task_id="t", map_index=-1, id="0-1", try_number=1, max_tries=5
        ),
        "dag_run": SimpleNamespace(team_name=team, clear_number=0),
        "task_state_store": JsonStore(),
    }
    return Placing.of(operator, cast("Context", context), load_settings())


@pytest.mark.usefixtures("configured")
def test_a_task_reads_its_setting(caplog: pytest.LogCaptureFixture) -> None:
    """The first lines say what is asked for, how and for whom, and what was changed of it."""
    found = placing(profile="balanced")
    with caplog.at_level(logging.INFO):
        found.announce()
    assert [record.getMessage() for record in caplog.records] == [
        "d.t asks for 8 GPUs = 1 x 8; profile balanced, tenant vision",
        "priority 9 counts as 3, the most of tenant vision",
        *found.catalog.warnings,
    ]
    assert len(found.catalog.warnings) == 1
    assert found.request.priority == 3
    assert [one.name for one in found.catalog.pools] == ["p", "q"]


@pytest.mark.usefixtures("configured")
def test_money_alone_counts_unless_said_otherwise() -> None:
    """An operator without a profile has the profile cheapest."""
    assert placing().setting.profile.name == "cheapest"


@pytest.mark.usefixtures("configured")
def test_what_does_not_exist_is_told_before_anything_is_done() -> None:
    """An unknown profile is the author's mistake, a team without a tenant the platform team's."""
    with pytest.raises(RequestError, match="did you mean 'fastest'"):
        placing(profile="fast")
    with pytest.raises(CatalogError, match="team 'x' belongs to no tenant"):
        placing(team="x")


def test_the_next_decision_sees_a_changed_catalogue(configured: Path) -> None:
    """A platform team need not restart anything."""
    before = placing().catalog
    (configured / "catalog.yaml").write_text(CATALOG.replace("here", "there"))
    assert before.pools[0].place.region == "here"
    assert placing().catalog.pools[0].place.region == "there"


@pytest.mark.parametrize(
    ("found", "want"),
    [
        pytest.param(CheckpointScan("x", 7, 1, 2), "eu", id="where the writer of the newest one ran"),
        pytest.param(CheckpointScan("x", 7, 2, 2), "us", id="where the later one ran"),
        pytest.param(CheckpointScan("x", 7, 5, 5), None, id="nobody remembers the writer"),
        pytest.param(CheckpointScan(), None, id="no checkpoint was written"),
        pytest.param(None, None, id="nobody looked"),
    ],
)
def test_the_newest_checkpoint_is_near_its_writer(found: CheckpointScan | None, want: str | None) -> None:
    """An attempt that died before it wrote anything says nothing."""
    record = TaskRecord(attempts=(attempt(1, region="eu"), attempt(2, region="us")))
    assert checkpoint_region(record, found) == want


@pytest.mark.parametrize(
    ("declared", "nodes", "want"),
    [
        pytest.param(None, [seen("a"), seen("b")], "H100", id="the one that all nodes have"),
        pytest.param("L4", [seen("a")], "L4", id="the catalogue's word first"),
        pytest.param(None, [seen("a"), seen("b", product=A100_40)], None, id="either of two"),
        pytest.param(None, [seen("a", product=None)], None, id="unknown"),
    ],
)
def test_a_runtime_counts_for_the_model_that_it_was_measured_on(
    declared: str | None, nodes: list[Any], want: str | None
) -> None:
    """Where it could have been either of two models, it counts for none alone."""
    where = pool(model=declared)
    assert gpu_model_of(decide(GpuRequest(), [where], signals("p", *nodes)), where) == want


def test_nodes_that_are_avoided_do_not_count() -> None:
    """A request for one model is not confused by another one's nodes in the same pool."""
    where = pool()
    nodes = [seen("a"), seen("b", product=A100_40)]
    assert gpu_model_of(decide(GpuRequest(models=("H100",)), [where], signals("p", *nodes)), where) == "H100"
