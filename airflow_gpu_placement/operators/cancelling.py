"""Withdraw the remote job when Airflow ends a task while a worker runs it.

Airflow sends SIGTERM, calls ``on_kill`` in the signal handler, and kills the process five seconds later; it
does not stop the task by itself, which would go on and launch what nobody wants any more. The signal may come
between any two steps, so what is to be withdrawn is armed before the create call, and the withdrawal runs
in a thread with a client of its own: the event loop of the task stands still meanwhile, and Airflow is not
asked for anything, as the task may be in the middle of a question.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from airflow.sdk.exceptions import TaskDeferred

from airflow_gpu_placement.exceptions import ClusterError, GpuPlacementError, NotFound
from airflow_gpu_placement.launch.manifest import label_value
from airflow_gpu_placement.model.attempt import ATTEMPT_LABEL
from airflow_gpu_placement.model.kube import Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.hooks.clusters import ClusterAccess
    from airflow_gpu_placement.model.attempt import AttemptRecord

log = logging.getLogger(__name__)

KILLED_SECONDS = 4.0
"""Airflow kills the process five seconds after the signal."""

TIMED_OUT_SECONDS = 20.0
"""After ``execution_timeout`` nobody is about to kill the process."""

_LOOK_AGAIN_SECONDS = 0.1
_ENDED = "Airflow ended this task"


class _Armed(NamedTuple):
    known: AttemptRecord
    access: ClusterAccess


class Cancelling:
    """What to take away when a task is ended from outside."""

    def __init__(self) -> None:
        self._armed: _Armed | None = None
        self._at_work = False
        self._worked = False
        self._begun = False

    def arm(self, known: AttemptRecord, access: ClusterAccess) -> None:
        """Name the remote job that is about to be created, or that exists when its uid is known.

        :param access: credentials read already.
        """
        self._armed = _Armed(known, access)

    def disarm(self) -> None:
        """Know that the remote job was taken away already."""
        self._armed = None

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Surround what a worker does for the task.

        A task that deferred has handed its job to the triggerer, and one that returned has no job any more: a
        signal that this process gets afterwards, because its worker shuts down, must not touch the job. After
        an error that nobody foresaw the job has nobody left: above all when Airflow does not take this
        attempt's word any more, because another try may have looked for the job before it was created.

        :raises SystemExit: the signal came before the work.
        """
        if self._begun:
            raise SystemExit(_ENDED)
        self._at_work = self._worked = True
        try:
            yield
        except (TaskDeferred, GpuPlacementError):
            self._armed = None  # handed to the triggerer, or settled before the error was raised
            raise
        except Exception:
            self._take_away("This try has failed", TIMED_OUT_SECONDS)
            raise
        else:
            self._armed = None
        finally:
            self._at_work = False

    def on_kill(self) -> None:
        """Withdraw what is armed, then leave the task if it is still at work.

        :raises SystemExit: the one way out that no event loop and no library on the way holds up.
        """
        if self._begun:
            return
        # After a time-out the next try may work in this very process, as in dag.test().
        self._begun = self._at_work or not self._worked
        self._take_away(_ENDED, KILLED_SECONDS if self._at_work else TIMED_OUT_SECONDS)
        if self._at_work:
            raise SystemExit(_ENDED)

    def _take_away(self, why: str, seconds: float) -> None:
        if self._armed is None:
            return
        # The thread logs, not a signal handler: the task may hold the lock of the log at this moment.
        withdrawal = threading.Thread(
            target=_run, args=(self._armed, why, seconds), name="withdraw", daemon=True
        )
        withdrawal.start()
        withdrawal.join(seconds)
        self._armed = None


def _run(armed: _Armed, why: str, seconds: float) -> None:
    known = armed.known
    log.warning("%s: withdrawing remote job %s in pool %s", why, known.job_name, known.pool)
    try:
        asyncio.run(_withdraw(armed, time.monotonic() + seconds))
    except TimeoutError:
        log.warning("Remote job %s was not there to be withdrawn", known.job_name)
    except ClusterError as error:
        log.warning(
            "Remote job %s may still run (%s); see it with: airflow gpu-placement reap", known.job_name, error
        )


async def _withdraw(armed: _Armed, until: float) -> None:
    from airflow_gpu_placement.launch.withdraw import withdraw

    known = armed.known
    client = await armed.access.open()
    try:
        async with asyncio.timeout(until - time.monotonic()):
            await client.check_uid(known.cluster_uid, known.kubernetes_conn_id)
            uid = known.job_uid or await _awaited(client, known)
        grade = await withdraw(
            client,
            known.namespace,
            known.job_name,
            job_uid=uid,
            node_deletion_is_proof=False,
            timeout_seconds=max(until - time.monotonic(), _LOOK_AGAIN_SECONDS),
        )
    finally:
        await client.close()
    log.info("Remote job %s is withdrawn; its end is %s", known.job_name, grade)


async def _awaited(client: ClusterClient, known: AttemptRecord) -> str:
    """Return the uid of the job of this attempt once it is there: its create call may be under way.

    :raises TimeoutError: by the caller's time-out; most likely the call was never made.
    """
    from airflow_gpu_placement.launch.job import jobs_path

    while True:
        with contextlib.suppress(NotFound):
            job = await client.get_as(jobs_path(known.namespace, known.job_name), Job)
            if job.metadata.labels.get(ATTEMPT_LABEL) == label_value(known.attempt_id):
                return job.metadata.uid
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
