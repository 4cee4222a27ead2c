"""The leak check's logic, on plain dictionaries in the shape of API answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lab.airflow.records import TaskInstance
from tests.harness.leaks import LeakScope, find_leaks

if TYPE_CHECKING:
    from collections.abc import Iterable

OURS = {"airflow-gpu-placement/attempt": "a1"}


def item(name: str, *, labels: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """Return one API object with the product's label unless other labels are given."""
    metadata = {"name": name, "labels": OURS if labels is None else labels, **fields.pop("metadata", {})}
    return {"metadata": metadata, **fields}


class DictApi:
    """A cluster as a list of looks, each a dictionary of kind -> items; the last one is for ever."""

    def __init__(self, *looks: dict[str, list[dict[str, Any]]]) -> None:
        self.looks = list(looks)

    def get(self, path: str, **_: Any) -> dict[str, Any]:
        """Return the items of the path's last part; Services are asked for last and end a look."""
        kind = path.rpartition("/")[2]
        assert "/namespaces/ns/" in path
        items = self.looks[0].get(kind, [])
        if kind == "services" and len(self.looks) > 1:
            self.looks.pop(0)
        return {"items": items}


class Tasks:
    """An Airflow with a fixed list of unfinished task instances."""

    def __init__(self, *instances: TaskInstance) -> None:
        self.instances = instances

    def unfinished_task_instances(self, dag_ids: Iterable[str] | None = None) -> list[TaskInstance]:
        """Return the instances of the asked DAGs."""
        return [one for one in self.instances if dag_ids is None or one.dag_id in set(dag_ids)]


class FakeClock:
    """A clock that moves only when somebody sleeps."""

    def __init__(self) -> None:
        self.now_seconds = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_seconds

    def sleep(self, seconds: float) -> None:
        """Move the time."""
        self.now_seconds += seconds


def leaks_of(api: DictApi, **options: Any) -> list[str]:
    """Look at one namespace with a fake clock."""
    clock = FakeClock()
    return find_leaks([LeakScope("east", api, "ns")], clock=clock, sleep=clock.sleep, **options)


def task_instance(dag_id: str, state: str, map_index: int = -1) -> TaskInstance:
    """Return a task instance in a state."""
    return TaskInstance.from_json(
        {
            "id": "1",
            "dag_id": dag_id,
            "dag_run_id": "r1",
            "task_id": "train",
            "map_index": map_index,
            "state": state,
            "try_number": 2,
            "max_tries": 5,
            "start_date": None,
            "end_date": None,
        }
    )


def test_an_empty_namespace_is_clean() -> None:
    """Nothing there, nothing reported."""
    assert leaks_of(DictApi({})) == []


def test_each_kind_is_named_with_its_state() -> None:
    """A Job, a pod and a Service give one line each with cluster, name and state."""
    api = DictApi(
        {
            "jobs": [item("j1", status={}), item("j2", status=ended("Failed"))],
            "pods": [
                item("p1", status={"phase": "Running"}, spec={"nodeName": "n1"}),
                item(
                    "p2",
                    status={"phase": "Pending"},
                    spec={},
                    metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
                ),
            ],
            "services": [item("s1")],
        }
    )
    assert leaks_of(api) == [
        "east: Job ns/j1 (active)",
        "east: Job ns/j2 (Failed)",
        "east: Pod ns/p1 (Running on node n1)",
        "east: Pod ns/p2 (Pending, on no node, terminating since 2026-01-01T00:00:00Z)",
        "east: Service ns/s1",
    ]


@pytest.mark.parametrize("labels", [{}, {"app": "x"}, {"other.airflow-gpu-placement/x": "y"}])
def test_objects_of_others_are_no_leaks(labels: dict[str, str]) -> None:
    """Only a label whose key starts with the product's prefix counts."""
    assert (
        leaks_of(DictApi({"jobs": [item("j", labels=labels)], "pods": [{"metadata": {"name": "p"}}]})) == []
    )


def test_what_is_on_its_way_out_gets_until_the_deadline() -> None:
    """A pod that is gone at a later look is no leak; without patience it is."""
    looks: list[dict[str, list[dict[str, Any]]]] = [{"pods": [item("p")]}, {"pods": [item("p")]}, {}]
    assert leaks_of(DictApi(*looks), deadline_seconds=5) == []
    assert len(leaks_of(DictApi(*looks), deadline_seconds=0)) == 1


def test_ended_jobs_may_wait_for_their_time_to_live() -> None:
    """With ``finished_is_leak=False`` an ended Job, its ended pods and its Service are accepted."""
    api = DictApi(
        {
            "jobs": [
                item("done", status=ended("Complete")),
                item("going", status=ended("Complete", "False")),
            ],
            "pods": [
                item("done-x", status={"phase": "Succeeded"}),
                item("stays", status={"phase": "Running"}),
            ],
            "services": [item("done"), item("going")],
        }
    )
    assert [line.split(" (")[0] for line in leaks_of(api, finished_is_leak=False)] == [
        "east: Job ns/going",
        "east: Pod ns/stays",
        "east: Service ns/going",
    ]


def test_task_instances_that_have_not_ended_are_leaks() -> None:
    """A deferred task is named with run and try; other DAGs are left alone when dag ids are given."""
    tasks = Tasks(task_instance("mine", "deferred", 3), task_instance("other", "running"))
    assert leaks_of(DictApi({}), airflow=tasks, dag_ids=["mine"]) == [
        "Airflow: task mine.train[3] of run r1 is deferred in try 2"
    ]
    assert len(leaks_of(DictApi({}), airflow=tasks)) == 2


def ended(kind: str, status: str = "True") -> dict[str, Any]:
    """Return the status of a Job with one condition."""
    return {"conditions": [{"type": kind, "status": status}]}
