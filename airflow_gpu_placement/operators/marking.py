"""Hand a task over to the triggerer so that nothing is left behind when Airflow has changed its mind."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.hooks.task_states import state_key, states_of
from airflow_gpu_placement.model.attempt import MARKER_KEY, RESUMED_KEY
from airflow_gpu_placement.operators.identity import logical_task
from airflow_gpu_placement.operators.sweep import LOOK_SECONDS, withdraw_attempt
from airflow_gpu_placement.triggers.log_bookmarks import HOLDERS_KEY, POSITIONS_KEY

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_gpu_placement.model.attempt import AttemptRecord

log = logging.getLogger(__name__)


def mark(context: Context) -> None:
    """Push the attempt's id as an XCom, which Airflow deletes when another try begins.

    By this mark a trigger knows whether its attempt is still the one that Airflow wants.
    """
    ti = context["ti"]
    ti.xcom_push(key=MARKER_KEY, value={"attempt_id": str(ti.id)})


def hand_over(context: Context, known: AttemptRecord) -> None:
    """Mark the attempt, then withdraw its remote job if Airflow does not wait for it any more.

    A worker hears of the end of its task with the next heartbeat only. Airflow refuses a deferral that comes
    before that, when no code of the task is left that could withdraw the job.

    :raises SystemExit: the task was ended from outside.
    """
    mark(context)
    context["ti"].xcom_push(key=RESUMED_KEY, value="")
    if not known.watch_breaks:
        # Nobody has watched this launch yet. Airflow logs an error for each XCom that is not there.
        context["ti"].xcom_push(key=HOLDERS_KEY, value=[])
        context["ti"].xcom_push(key=POSITIONS_KEY, value={})
    state = _state(context)
    if state == "running":
        return
    log.warning("Airflow has ended this try (the task is %s now)", state)
    asyncio.run(withdraw_attempt(known, open_cluster=open_on_worker, timeout_seconds=LOOK_SECONDS))
    raise SystemExit("Airflow ended this task")


def _state(context: Context) -> str | None:
    """Return the state of the task instance; ``None``: it was cleared or does not exist any more."""
    task = logical_task(context["ti"])
    try:
        return states_of(task).get(state_key(task))
    except AirflowRuntimeError as error:
        log.warning("Airflow did not tell the state of this task (%s); it goes on", error)
        return "running"
