"""What a task reads before it is placed, and what its attempts hand on to the next."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from airflow_gpu_placement.engine.bought import SPOT_LABELS
from airflow_gpu_placement.exceptions import CatalogError, RequestError
from airflow_gpu_placement.hooks.checkpoints import CheckpointScan
from airflow_gpu_placement.hooks.memory import TaskStateMemory
from airflow_gpu_placement.model.attempt import Attempt, Counting, LogicalTask, TaskRecord
from airflow_gpu_placement.model.pool import CapacityType
from airflow_gpu_placement.model.request import GpuRequest, WhereNeed
from airflow_gpu_placement.operators import GpuTrainingJobOperator
from airflow_gpu_placement.operators.launching import record_of
from airflow_gpu_placement.operators.placing import Placing
from airflow_gpu_placement.operators.resuming import checkpoint_region, gpu_model_of, still_counting
from airflow_gpu_placement.operators.steps import Waiting
from airflow_gpu_placement.settings import load_settings
from tests.unit.engine.builders import A100_40, NOW, decide, pool, seen, signals
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
FOURTH = Attempt(task=LogicalTask(dag_id="d", run_id="r", task_id="t"), attempt_id="id-4", try_number=4)
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


def placing(
    team: str | None = "vision",
    *,
    store: JsonStore | None = None,
    try_number: int = 1,
    max_tries: int = 5,
    **arguments: Any,
) -> Placing:
    """Read what an operator's task needs, in a run of a team."""
    arguments.setdefault("gpu", {"gpus_per_node": "8", "priority": 9})
    operator = GpuTrainingJobOperator(task_id="t", image="i", command=["c"], **arguments)
    context = {
        "ti": SimpleNamespace(
            dag_id="d",
            run_id="r",
            task_id="t",
            map_index=-1,
            id=f"0-{try_number}",
            try_number=try_number,
            max_tries=max_tries,
        ),
        "dag_run": SimpleNamespace(team_name=team, clear_number=0, start_date=NOW),
        "task_state_store": store or JsonStore(),
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
def test_what_pods_need_beside_gpus_is_part_of_the_question() -> None:
    """The decision is to find the CPU and memory that the manifest asks for."""
    assert placing(pod_resources={"cpu": "32", "memory": 8}).setting.pod_resources == {
        "cpu": "32",
        "memory": 8,
    }
    assert placing().setting.pod_resources == {}


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


@pytest.mark.usefixtures("configured")
def test_time_counts_from_the_first_decision_though_nothing_was_launched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over waits and retries; a task that is cleared has all its time again."""
    monkeypatch.setenv("AIRFLOW_CONN_C", '{"conn_type": "http"}')  # no way to any cluster
    store = JsonStore()

    def since(decision: str, **now: Any) -> Any:
        assert isinstance(asyncio.run(placing(store=store, **now).attempt()), Waiting)
        return store.get(decision)["history"].get("since"), TaskStateMemory(store).read().counting

    at_first, begun = since("gpu_placement.decision.1")
    assert at_first is None
    assert begun is not None
    retries: tuple[dict[str, Any], ...] = ({}, {"try_number": 2}, {"try_number": 2}, {"try_number": 3})
    for now in retries:
        told, still = since("gpu_placement.decision.1", **now)
        assert datetime.fromisoformat(told) == begun.since
        assert still is not None
        assert still.since == begun.since
    told, anew = since("gpu_placement.decision.1", try_number=4, max_tries=8)
    assert told is None
    assert anew is not None
    assert anew.since > begun.since


@pytest.mark.parametrize(
    ("counting", "max_tries", "kept"),
    [
        pytest.param((1, 3), 3, True, id="a retry"),
        pytest.param((2, 3), 5, False, id="cleared"),
        pytest.param((4, 3), 3, False, id="its instance was deleted"),
        pytest.param((5, 3), 3, False, id="its instance was deleted, later"),
    ],
)
def test_only_a_clear_ends_the_count(counting: tuple[int, int], max_tries: int, *, kept: bool) -> None:
    """A try that comes after the last one is a retry until Airflow allows more tries."""
    number, allowed = counting
    begun = Counting(since=NOW, attempt_id="id", try_number=number, max_tries=allowed)
    found = still_counting(TaskRecord(counting=begun), FOURTH, max_tries=max_tries, clear_number=0)
    assert found.counting == (begun if kept else None)
    same = msgspec.structs.replace(begun, attempt_id="id-4")
    assert still_counting(TaskRecord(counting=same), FOURTH, max_tries=9, clear_number=0).counting == same


def test_a_record_of_before_is_counted_from_its_first_launch_since_the_clear() -> None:
    """Earlier versions did not keep when they first decided."""
    record = TaskRecord(
        attempts=(
            attempt(1, clear_number=0, started_at=NOW - timedelta(days=9)),
            attempt(2, clear_number=1),
            attempt(3, clear_number=1, started_at=NOW),
            attempt(3, clear_number=1, move=1, started_at=NOW + timedelta(hours=1)),
            attempt(5, clear_number=1, started_at=NOW - timedelta(hours=1)),
        )
    )
    begun = still_counting(record, FOURTH, max_tries=3, clear_number=1).counting
    assert begun == Counting(since=NOW, attempt_id="id-4", try_number=4, max_tries=3)
    for nothing in (record, TaskRecord()):
        assert still_counting(nothing, FOURTH, max_tries=3, clear_number=2) == nothing


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


def test_a_launch_is_remembered_as_spot_where_it_may_be_taken_away() -> None:
    """By the label of a node that it was not kept off, whatever the catalogue says of the pool."""
    mixed = [seen("a"), seen("b", capacity_type=CapacityType.SPOT)]
    firm = GpuRequest(where=WhereNeed(capacity_types=(CapacityType.ON_DEMAND,)))
    by_hand = Attempt(task=LogicalTask(dag_id="d", run_id="r", task_id="t"), attempt_id="0", try_number=1)
    for request, nodes, want in ((GpuRequest(), mixed, True), (firm, mixed, False), (firm, mixed[:1], False)):
        decision = decide(request, [pool()], signals("p", *nodes))
        kept = record_of(by_hand, decision, decision.pools[0], gpus=1, max_tries=0, clear_number=0)
        assert kept.spot is want


@pytest.mark.usefixtures("configured")
def test_a_job_is_launched_with_all_that_keeps_wrong_nodes_out() -> None:
    """Names, labels that a node must have and labels that it must not have are those of the decision."""
    firm = GpuRequest(models=("H100",), where=WhereNeed(capacity_types=(CapacityType.ON_DEMAND,)))
    nodes = [seen("a", labels={"zone": "z"}), seen("b", capacity_type=CapacityType.SPOT)]
    decision = decide(firm, [pool()], signals("p", *nodes))
    by_hand = Attempt(task=LogicalTask(dag_id="d", run_id="r", task_id="t"), attempt_id="0", try_number=1)
    made = placing()._spec(decision, decision.pools[0], by_hand, TaskRecord(), CheckpointScan())
    first = decision.verdicts[0]
    assert (made.excluded_nodes, made.barred_labels) == (("b",), SPOT_LABELS)
    assert made.node_labels == first.node_labels
