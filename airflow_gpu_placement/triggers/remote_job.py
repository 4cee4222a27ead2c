"""Watch one remote job from the triggerer until it has ended or is lost."""

from __future__ import annotations

import asyncio
import functools
import importlib
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_gpu_placement.clusters.turns import in_turn
from airflow_gpu_placement.hooks.clusters import open_on_triggerer
from airflow_gpu_placement.model.outcome import LossPolicy
from airflow_gpu_placement.model.storable import storable
from airflow_gpu_placement.triggers.cancel import (
    Watched,
    note_resumption,
    shielded,
    warm_up,
    withdraw_if_over,
)
from airflow_gpu_placement.triggers.log_bookmarks import XComBookmarks
from airflow_gpu_placement.triggers.unread import unread

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.model.outcome import Outcome

EVENT_VERSION = 1
SHORTEST_WATCH_SECONDS = 10.0
"""A task that is resumed within a moment of its deferral may be failed by Airflow's scheduler.

It then takes the executor's word that the first part of the task has ended for the end of the resumed part.
"""

_WRITE_SECONDS = 20.0
"""Time for Airflow to write the last lines of a log, of which it may be behind."""

_LAST_LOOK_SECONDS = 30.0
"""Time for a last look at a job whose deadline has passed, perhaps before its watch began."""

_have_loaded: list[bool] = []
"""Not empty once this process has loaded what a watch needs."""


async def _loaded() -> None:
    """Load what a watch needs: the client library takes long, and other triggers share this event loop."""
    if not _have_loaded:
        await asyncio.to_thread(importlib.import_module, "airflow_gpu_placement.watch.follow")
        _have_loaded.append(True)


@functools.lru_cache(maxsize=256)
def _one_of_equal(policy: LossPolicy) -> LossPolicy:
    return policy


class RemoteJobTrigger(BaseTrigger):
    """Yield exactly one event: the outcome of a remote job, or that its deadline has passed.

    All jobs of a cluster that one triggerer watches share one set of streams. The arguments hold no secret,
    since Airflow stores them as plain text. When a person ends the task meanwhile, the job is withdrawn.
    Arguments that are not known are of a later version of the package, which workers may have before the
    triggerer does; what they ask for is not done then, and the job is watched all the same.

    :param kubernetes_conn_id: Airflow connection of the cluster.
    :param cluster_uid: the cluster that the connection must lead to.
    :param job_uid: a later job of the same name is another one.
    :param node_grace_seconds: silence of a node after which it counts as lost.
    :param cluster_grace_seconds: the same for a whole cluster.
    :param node_deletion_is_proof: a deleted Node object proves that the machine is gone.
    :param start_timeout_seconds: how long it may take until every pod of the job has started.
    :param unschedulable_timeout_seconds: the same once the scheduler finds no node; ``None``: no shorter.
    :param pause_seconds: rest before the watch begins, after one that broke.
    :param deadline: moment at which the task must have ended, as ISO 8601 text with a time zone; ``None``:
        it has all the time.
    """

    def __init__(
        self,
        *,
        kubernetes_conn_id: str,
        context: str | None,
        cluster_uid: str | None,
        namespace: str,
        job_name: str,
        job_uid: str,
        node_grace_seconds: float,
        cluster_grace_seconds: float,
        node_deletion_is_proof: bool,
        start_timeout_seconds: float = LossPolicy().start_timeout_seconds,
        unschedulable_timeout_seconds: float | None = LossPolicy().unschedulable_timeout_seconds,
        deadline: str | None = None,
        pause_seconds: float = 0.0,
        **_later: Any,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in Airflow
        self.kubernetes_conn_id = kubernetes_conn_id
        self.context = context
        self.cluster_uid = cluster_uid
        # A triggerer has a thousand of these: what is equal in them, or as a cluster tells it, is kept once.
        self.namespace, self.job_name, self.job_uid = map(sys.intern, (namespace, job_name, job_uid))
        self.logger()  # makes the one of the class, which stands in for one of a kilobyte each
        self.policy = _one_of_equal(
            LossPolicy(
                node_grace_seconds=node_grace_seconds,
                cluster_grace_seconds=cluster_grace_seconds,
                node_deletion_is_proof=node_deletion_is_proof,
                start_timeout_seconds=start_timeout_seconds,
                unschedulable_timeout_seconds=unschedulable_timeout_seconds,
            )
        )
        self.deadline = deadline
        self.pause_seconds = pause_seconds
        self._done = False

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to make this trigger again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "kubernetes_conn_id": self.kubernetes_conn_id,
            "context": self.context,
            "cluster_uid": self.cluster_uid,
            "namespace": self.namespace,
            "job_name": self.job_name,
            "job_uid": self.job_uid,
            "deadline": self.deadline,
            "pause_seconds": self.pause_seconds,
            **msgspec.to_builtins(self.policy),
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follow the job; what goes wrong is an event too: an error here would lose its type and text."""
        if self.task_instance is not None:
            warm_up(self.task_instance)
        began = time.monotonic()
        event = await self.event(open_on_triggerer)
        await asyncio.sleep(SHORTEST_WATCH_SECONDS - (time.monotonic() - began))
        await self._let_airflow_write()
        if self.task_instance is not None:
            await note_resumption(self.task_instance)
        self._done = True  # from here on the worker decides what becomes of the job
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # untyped in Airflow

    async def on_kill(self) -> None:
        """Withdraw the remote job when a person has ended the task; never when only the triggerer changed.

        Airflow calls this at other times as well and cuts it off after a second; see
        :mod:`~airflow_gpu_placement.triggers.cancel`.
        """
        if self._done or self.task_instance is None:
            return
        watched = Watched(
            ti=self.task_instance,
            kubernetes_conn_id=self.kubernetes_conn_id,
            context=self.context,
            cluster_uid=self.cluster_uid,
            namespace=self.namespace,
            job_name=self.job_name,
            job_uid=self.job_uid,
            node_deletion_is_proof=self.policy.node_deletion_is_proof,
        )
        await shielded(withdraw_if_over(watched, open_on_triggerer))

    async def event(self, open_cluster: OpenCluster) -> dict[str, Any]:
        """Return the one event, whatever goes wrong.

        :param open_cluster: gives a client of the cluster, with credentials read anew.
        """
        try:
            return await self.news(open_cluster)
        except Exception as error:
            self.log.exception("The watch of remote job %s broke", self.job_name)
            return self._event("watch_broke", message=f"{type(error).__name__}: {error}")

    async def news(self, open_cluster: OpenCluster) -> dict[str, Any]:
        """Follow the job to its end or to the deadline and return the event that tells which came first.

        :param open_cluster: gives a client of the cluster, with credentials read anew.
        """
        left = None
        if self.deadline is not None:
            left = (datetime.fromisoformat(self.deadline) - datetime.now(UTC)).total_seconds()
        try:
            async with asyncio.timeout(left) as limit:
                await asyncio.sleep(self.pause_seconds)
                await in_turn()  # after a restart all triggers begin at once
                outcome = await self.watch(open_cluster)
        except TimeoutError:
            if not limit.expired():
                raise
            return await self._late_news(open_cluster)
        return self._event("ended", outcome=msgspec.to_builtins(outcome))

    async def _late_news(self, open_cluster: OpenCluster) -> dict[str, Any]:
        """Look once more at a job whose deadline has passed: it may have ended while nobody was watching."""
        try:
            async with asyncio.timeout(_LAST_LOOK_SECONDS):
                if await self._has_ended(open_cluster):
                    return self._event("ended", outcome=msgspec.to_builtins(await self.watch(open_cluster)))
        except Exception:
            # The edge of the trigger: what cannot be seen has not ended as far as anybody knows.
            self.log.warning("Remote job %s cannot be seen after its deadline", self.job_name, exc_info=True)
        return self._event("deadline")

    async def _has_ended(self, open_cluster: OpenCluster) -> bool:
        # The client library takes long to load, and other triggers share this event loop.
        await asyncio.to_thread(importlib.import_module, "airflow_gpu_placement.launch.earned")
        from airflow_gpu_placement.launch.earned import has_ended

        client = await open_cluster(self.kubernetes_conn_id, self.context)
        try:
            await client.check_uid(self.cluster_uid, self.kubernetes_conn_id)
            return await has_ended(client, self.namespace, self.job_name, self.job_uid)
        finally:
            await client.close()

    def _event(self, kind: str, **more: Any) -> dict[str, Any]:
        """Return an event that can be stored: the triggerer dies of any other, each time that it starts."""
        event: dict[str, Any] = storable(
            {"version": EVENT_VERSION, "job_name": self.job_name, "kind": kind, **more}
        )
        return event

    async def watch(self, open_cluster: OpenCluster) -> Outcome:
        """Follow the job to its end, with its logs in this task's log.

        :param open_cluster: gives a client of the cluster, with credentials read anew.
        """
        await _loaded()
        from airflow_gpu_placement.watch.cluster import ClusterKey, shared_watch
        from airflow_gpu_placement.watch.follow import follow
        from airflow_gpu_placement.watch.followed import JobRef

        async with shared_watch(
            ClusterKey(self.kubernetes_conn_id, self.context, self.cluster_uid), open_cluster
        ) as cluster:
            return await follow(
                cluster,
                JobRef(self.namespace, self.job_name, self.job_uid),
                self.policy,
                report=self._tell,
                report_log=self._tell_line,
                bookmarks=None if self.task_instance is None else XComBookmarks(self.task_instance),
            )

    def _tell(self, line: str) -> None:
        unread.add(line)
        self.log.info("%s", line)

    def _tell_line(self, moment: datetime, line: str) -> None:
        """Log a line of the remote log with a moment of its own, in the form that Airflow gives moments."""
        unread.add(line)
        self.log.info("%s", line, timestamp=moment.isoformat().replace("+00:00", "Z"))

    async def _let_airflow_write(self) -> None:
        """Wait until the last lines are in the task's log: Airflow drops those that it reads too late."""
        if self.task_instance is None:
            return
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await XComBookmarks(self.task_instance).written()
        except Exception:
            # The edge to Airflow's store, which may raise anything; the news is worth more than the log.
            self.log.warning("Airflow may not have written the end of this log", exc_info=True)
