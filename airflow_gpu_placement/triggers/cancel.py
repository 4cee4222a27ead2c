"""Withdraw the remote job of a deferred task that Airflow has given up.

Airflow calls ``on_kill`` of a trigger when a person marks the task as failed or as succeeded, clears it or
deletes it. It does so as well when the trigger was merely given to another triggerer, as after a stall of
this one; the job must then go on. And the call is cut off after about a second. So the work runs in a task of
its own, and it begins with a look at whether the attempt is really over.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow.sdk.execution_time.xcom import XCom

from airflow_gpu_placement.hooks.task_states import marked_attempt, state_key, states_of
from airflow_gpu_placement.launch.manifest import label_value
from airflow_gpu_placement.model.attempt import ATTEMPT_LABEL, MARKER_KEY, RESUMED_KEY

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.model.outcome import EndGrade

log = logging.getLogger(__name__)

LOOK_UP_SECONDS = 120.0
"""The first question in a triggerer's life takes Airflow 15 seconds and, on a busy machine, much longer."""

WITHDRAW_SECONDS = 120.0
"""A pod may take its whole termination grace to end, and a cluster that is silent now may answer soon."""

_DEFERRED = "deferred"
_MARKED = frozenset({_DEFERRED, "running"})
"""States in which the marker tells one try from another."""

_BETWEEN = frozenset({None, "scheduled", "queued"})
"""States of a task that was cleared and of one that a worker will resume; both still have the marker."""

_NOTE_SECONDS = 10.0


_under_way: set[asyncio.Task[None]] = set()
"""The event loop holds its tasks by weak references only."""


_warmed: list[bool] = []
"""Not empty once the first question of this process was asked."""


class Watched(NamedTuple):
    """The remote job of one attempt, and the task instance that waits for it."""

    ti: Any
    kubernetes_conn_id: str
    context: str | None
    cluster_uid: str | None
    namespace: str
    job_name: str
    job_uid: str
    node_deletion_is_proof: bool


class TryNow(NamedTuple):
    """What Airflow says of the task instance now, as far as it tells one try from another.

    :param exists: ``False``: it was deleted.
    :param marker: id of the attempt that deferred last, where that matters; ``None``: none has since the task
        began anew.
    :param resumed: id of the attempt that a worker resumes or has resumed, where that matters.
    """

    exists: bool
    state: str | None = None
    marker: str | None = None
    resumed: str | None = None


async def note_resumption(ti: Any) -> None:
    """Write down that a worker decides on this attempt from here on, for a trigger that was left behind.

    It has an XCom of its own: a trigger that comes back late must not touch the marker of the next try.
    """
    try:
        async with asyncio.timeout(_NOTE_SECONDS):
            await XCom.aset(RESUMED_KEY, str(ti.id), **_where(ti))
    except Exception:
        # The event has to go out whatever happens.
        log.info("Airflow did not take the note that the task is resumed", exc_info=True)


async def shielded(work: Coroutine[Any, Any, None]) -> None:
    """Run work that goes on when the caller is cut off."""
    await asyncio.shield(_detached(work))


def warm_up(ti: Any) -> None:
    """Ask Airflow once, so that it has the answer at hand when a task is ended.

    The first question makes the triggerer load half of Airflow's server, and all its triggers wait meanwhile;
    asked at the moment of a cancellation, it would come too late for the task's log.
    """
    if not _warmed:
        _warmed.append(True)
        _detached(_ask_once(ti))


def _detached(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.create_task(work)
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)
    return task


async def _ask_once(ti: Any) -> None:
    try:
        await _states(ti)
    except Exception:
        # The edge of a task that nobody awaits; the answer itself is not needed.
        log.info("Airflow did not tell the state of the task", exc_info=True)


async def withdraw_if_over(watched: Watched, open_cluster: OpenCluster) -> None:
    """Withdraw the remote job unless its attempt may still be wanted.

    In any doubt nothing is done: the next try withdraws what earlier ones left, and the reaper the rest.
    """
    name = watched.job_name
    try:
        now = await _try_now(watched.ti)
        if not is_over(now, str(watched.ti.id)):
            log.info("Remote job %s goes on: its task is still %s in this try", name, now.state)
            return
        log.info(
            "Airflow has ended this try (the task is %s now): withdrawing remote job %s", _words(now), name
        )
        grade = await _withdraw(watched, open_cluster)
    except Exception:
        # The edge of a task that nobody awaits.
        log.exception("Remote job %s may still run; see it with: airflow gpu-placement reap", name)
        return
    if grade is None:
        log.info("Remote job %s has succeeded meanwhile, so nothing was withdrawn", name)
    else:
        log.info("Remote job %s is withdrawn; its end is %s", name, grade)


def is_over(now: TryNow, attempt_id: str) -> bool:
    """Whether an attempt is not wanted any more.

    A task that is deferred with this attempt's marker has only changed its triggerer, and one that runs with
    it was resumed by another triggerer's event. With another marker it was cleared and has deferred again;
    without any, it runs anew when it runs, and is just between when it is deferred. A task that waits to run
    was cleared, unless a trigger has noted that a worker is to resume it.
    """
    if now.state in _BETWEEN:
        return not now.exists or now.resumed != attempt_id
    if not now.exists or now.state not in _MARKED:
        return True
    if now.marker is None:
        return now.state != _DEFERRED
    return now.marker != attempt_id


async def _try_now(ti: Any) -> TryNow:
    states, key = await _states(ti), state_key(ti)
    if key not in states:
        if states:
            raise LookupError(f"Airflow told of {sorted(states)}, not of {key}")
        return TryNow(exists=False)
    state = states[key]
    if state in _BETWEEN:
        return TryNow(exists=True, state=state, resumed=await _xcom(ti, RESUMED_KEY))
    if state not in _MARKED:
        return TryNow(exists=True, state=state)
    return TryNow(exists=True, state=state, marker=marked_attempt(await _xcom(ti, MARKER_KEY)))


async def _xcom(ti: Any, key: str) -> Any:
    async with asyncio.timeout(LOOK_UP_SECONDS):
        return await XCom.aget_one(key=key, **_where(ti))


def _where(ti: Any) -> dict[str, Any]:
    return {"dag_id": ti.dag_id, "task_id": ti.task_id, "run_id": ti.run_id, "map_index": ti.map_index}


async def _states(ti: Any) -> Mapping[str, str | None]:
    async with asyncio.timeout(LOOK_UP_SECONDS):
        return await asyncio.to_thread(states_of, ti)


def _words(now: TryNow) -> str:
    if not now.exists:
        return "deleted"
    return f"{now.state} in another try" if now.state in _MARKED else now.state or "to run anew"


async def _withdraw(watched: Watched, open_cluster: OpenCluster) -> EndGrade | None:
    """Ask for the end of the job and return its grade; ``None``: it has succeeded and stays to be seen."""
    # The client library takes long to load, and other triggers share this event loop.
    await asyncio.to_thread(importlib.import_module, "airflow_gpu_placement.launch.withdraw")
    from airflow_gpu_placement.launch.withdraw import has_succeeded, withdraw

    client = await open_cluster(watched.kubernetes_conn_id, watched.context)
    try:
        await client.check_uid(watched.cluster_uid, watched.kubernetes_conn_id)
        if await has_succeeded(client, watched.namespace, watched.job_name, watched.job_uid):
            return None
        return await withdraw(
            client,
            watched.namespace,
            watched.job_name,
            job_uid=watched.job_uid,
            node_deletion_is_proof=watched.node_deletion_is_proof,
            timeout_seconds=WITHDRAW_SECONDS,
            labels={ATTEMPT_LABEL: label_value(str(watched.ti.id))},
        )
    finally:
        await client.close()
