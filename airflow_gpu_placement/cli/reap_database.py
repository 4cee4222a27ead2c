"""What Airflow's metadata database says of the tasks whose remote jobs were found."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.taskinstancehistory import TaskInstanceHistory
from airflow.utils.session import create_session
from airflow.utils.state import State
from sqlalchemy import select

from airflow_gpu_placement.engine.reaping import TaskNow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from sqlalchemy.orm import Session

    from airflow_gpu_placement.model.attempt import LogicalTask

_TASKS_A_QUESTION = 200

_Key = tuple[str, str, str, int]


def tasks_in_database(tasks: Collection[LogicalTask]) -> Mapping[LogicalTask, TaskNow]:
    """Look up the run, the task instance and all its known attempts of each task."""
    with create_session() as session:
        return dict(_look_up(session, sorted(tasks, key=_key)))


def _look_up(session: Session, tasks: list[LogicalTask]) -> Iterator[tuple[LogicalTask, TaskNow]]:
    for start in range(0, len(tasks), _TASKS_A_QUESTION):
        some = tasks[start : start + _TASKS_A_QUESTION]
        runs = _runs(session, some)
        instances: dict[_Key, tuple[str, str | None]] = {}
        attempts: dict[_Key, set[str]] = defaultdict(set)
        for attempt_id, key, state in _rows(session, some, TaskInstance.id, TaskInstance):
            instances[key] = attempt_id, state
            attempts[key].add(attempt_id)
        earlier = _rows(session, some, TaskInstanceHistory.task_instance_id, TaskInstanceHistory)
        for attempt_id, key, _ in earlier:
            attempts[key].add(attempt_id)
        for task in some:
            current, state = instances.get(_key(task), (None, None))
            yield (
                task,
                TaskNow(
                    run_exists=(task.dag_id, task.run_id) in runs,
                    exists=current is not None,
                    attempt_id=current,
                    attempts=frozenset(attempts[_key(task)]),
                    over=state in State.finished,
                    state=state,
                ),
            )


def _runs(session: Session, tasks: list[LogicalTask]) -> set[tuple[str, str]]:
    """Return the runs of these tasks that exist, and perhaps others."""
    question = select(DagRun.dag_id, DagRun.run_id).where(
        DagRun.dag_id.in_({task.dag_id for task in tasks}),
        DagRun.run_id.in_({task.run_id for task in tasks}),
    )
    return {(dag_id, run_id) for dag_id, run_id in session.execute(question)}


def _rows(
    session: Session, tasks: list[LogicalTask], attempt_id: Any, table: Any
) -> Iterator[tuple[str, _Key, str | None]]:
    """Return id, key and state of every row of these tasks, and perhaps of others.

    Each list by itself reads more than is asked for, and works on every database.

    :param attempt_id: column of ``table`` that holds the id of the task instance.
    """
    question = select(
        attempt_id, table.dag_id, table.run_id, table.task_id, table.map_index, table.state
    ).where(
        table.dag_id.in_({task.dag_id for task in tasks}),
        table.run_id.in_({task.run_id for task in tasks}),
        table.task_id.in_({task.task_id for task in tasks}),
    )
    for found, dag_id, run_id, task_id, map_index, state in session.execute(question):
        yield str(found), (dag_id, run_id, task_id, map_index), None if state is None else str(state)


def _key(task: LogicalTask) -> _Key:
    return task.dag_id, task.run_id, task.task_id, task.map_index
