"""What Airflow's metadata database says of the tasks whose remote jobs were found."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.taskinstancehistory import TaskInstanceHistory
from airflow.utils.session import create_session
from airflow.utils.state import State
from sqlalchemy import select

from airflow_gpu_placement.engine.reaping import TaskNow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

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
        runs = {(task.dag_id, task.run_id) for task in some}
        dag_ids, run_ids = {dag for dag, _ in runs}, {run for _, run in runs}
        task_ids = {task.task_id for task in some}
        # Each list by itself reads more than is asked for, and works on every database.
        existing = {
            (run.dag_id, run.run_id)
            for run in session.execute(
                select(DagRun.dag_id, DagRun.run_id).where(
                    DagRun.dag_id.in_(dag_ids), DagRun.run_id.in_(run_ids)
                )
            )
        }
        instances = {
            (row.dag_id, row.run_id, row.task_id, row.map_index): (str(row.id), row.state)
            for row in session.execute(
                select(
                    TaskInstance.id,
                    TaskInstance.dag_id,
                    TaskInstance.run_id,
                    TaskInstance.task_id,
                    TaskInstance.map_index,
                    TaskInstance.state,
                ).where(
                    TaskInstance.dag_id.in_(dag_ids),
                    TaskInstance.run_id.in_(run_ids),
                    TaskInstance.task_id.in_(task_ids),
                )
            )
        }
        earlier = _earlier(
            session.execute(
                select(
                    TaskInstanceHistory.task_instance_id,
                    TaskInstanceHistory.dag_id,
                    TaskInstanceHistory.run_id,
                    TaskInstanceHistory.task_id,
                    TaskInstanceHistory.map_index,
                ).where(
                    TaskInstanceHistory.dag_id.in_(dag_ids),
                    TaskInstanceHistory.run_id.in_(run_ids),
                    TaskInstanceHistory.task_id.in_(task_ids),
                )
            )
        )
        for task in some:
            attempt_id, state = instances.get(_key(task), (None, None))
            known = earlier[_key(task)] | ({attempt_id} if attempt_id else set())
            yield (
                task,
                TaskNow(
                    run_exists=(task.dag_id, task.run_id) in existing,
                    exists=attempt_id is not None,
                    attempt_id=attempt_id,
                    attempts=frozenset(known),
                    over=state in State.finished,
                    state=None if state is None else str(state),
                ),
            )


def _earlier(rows: Iterable[tuple[object, str, str, str, int]]) -> Mapping[_Key, set[str]]:
    found: dict[_Key, set[str]] = defaultdict(set)
    for attempt_id, dag_id, run_id, task_id, map_index in rows:
        found[dag_id, run_id, task_id, map_index].add(str(attempt_id))
    return found


def _key(task: LogicalTask) -> _Key:
    return task.dag_id, task.run_id, task.task_id, task.map_index
