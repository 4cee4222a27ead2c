"""Wait for the proof that an earlier remote job has ended."""

from __future__ import annotations

import asyncio
import importlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_gpu_placement.exceptions import ClusterError
from airflow_gpu_placement.hooks.clusters import open_on_triggerer
from airflow_gpu_placement.model.outcome import EndGrade
from airflow_gpu_placement.model.storable import storable
from airflow_gpu_placement.triggers.remote_job import EVENT_VERSION, SHORTEST_WATCH_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.model.attempt import AttemptRecord

_LOOK_SECONDS = 60.0
_PAUSE_SECONDS = 5.0


class ProofTrigger(BaseTrigger):
    """Yield exactly one event: the end of a remote job is confirmed, or nobody waits for that any longer.

    It has no ``on_kill``: the deletion of the job was asked for already, and is asked for all the time.
    Arguments of a later version of the package are left out.

    :param kubernetes_conn_id: Airflow connection of the cluster.
    :param cluster_uid: the cluster that the connection must lead to.
    :param job_uid: ``None``: not known; whatever job has the name is meant.
    :param boot_ids: node that was lost -> its boot id then: one booted anew runs nothing from before.
    :param labels: what the job carries; another one of that name is left alone.
    :param until: when to stop waiting, as ISO 8601 text with a time zone.
    """

    def __init__(
        self,
        *,
        kubernetes_conn_id: str,
        context: str | None,
        cluster_uid: str | None,
        namespace: str,
        job_name: str,
        job_uid: str | None,
        boot_ids: Mapping[str, str],
        labels: Mapping[str, str],
        until: str,
        **_later: Any,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in Airflow
        self.kubernetes_conn_id = kubernetes_conn_id
        self.context = context
        self.cluster_uid = cluster_uid
        self.namespace = namespace
        self.job_name = job_name
        self.job_uid = job_uid
        self.boot_ids = dict(boot_ids)
        self.labels = dict(labels)
        self.until = until

    @classmethod
    def of(cls, known: AttemptRecord, *, labels: Mapping[str, str], until: datetime) -> ProofTrigger:
        """Wait for the end of one launch."""
        return cls(
            kubernetes_conn_id=known.kubernetes_conn_id,
            context=known.context,
            cluster_uid=known.cluster_uid,
            namespace=known.namespace,
            job_name=known.job_name,
            job_uid=known.job_uid,
            boot_ids=known.lost_boots,
            labels=labels,
            until=until.isoformat(),
        )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to make this trigger again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "kubernetes_conn_id": self.kubernetes_conn_id,
            "context": self.context,
            "cluster_uid": self.cluster_uid,
            "namespace": self.namespace,
            "job_name": self.job_name,
            "job_uid": self.job_uid,
            "boot_ids": self.boot_ids,
            "labels": self.labels,
            "until": self.until,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look until there is a proof; what goes wrong is an event too."""
        begun = asyncio.get_running_loop().time()
        event = await self.news(open_on_triggerer)
        await asyncio.sleep(SHORTEST_WATCH_SECONDS - (asyncio.get_running_loop().time() - begun))
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # untyped in Airflow

    async def news(self, open_cluster: OpenCluster) -> dict[str, Any]:
        """Return the one event.

        :param open_cluster: gives a client of the cluster, with credentials read anew.
        """
        left = (datetime.fromisoformat(self.until) - datetime.now(UTC)).total_seconds()
        try:
            async with asyncio.timeout(left) as limit:
                while True:
                    if await self._grade(open_cluster) is EndGrade.CONFIRMED:
                        break
                    await asyncio.sleep(_PAUSE_SECONDS)
        except Exception as error:
            if limit.expired():
                return self._event("deadline")
            self.log.exception("The wait for the end of remote job %s broke", self.job_name)
            return self._event("watch_broke", message=f"{type(error).__name__}: {error}")
        self.log.info("The end of remote job %s is confirmed", self.job_name)
        return self._event("proof", grade=EndGrade.CONFIRMED.value)

    async def _grade(self, open_cluster: OpenCluster) -> EndGrade:
        """Ask for the end once more and watch what becomes of it for a while."""
        # The client library takes long to load, and other triggers share this event loop.
        await asyncio.to_thread(importlib.import_module, "airflow_gpu_placement.launch.withdraw")
        from airflow_gpu_placement.launch.withdraw import withdraw

        try:
            client = await open_cluster(self.kubernetes_conn_id, self.context)
            try:
                await client.check_uid(self.cluster_uid, self.kubernetes_conn_id)
                return await withdraw(
                    client,
                    self.namespace,
                    self.job_name,
                    job_uid=self.job_uid,
                    node_deletion_is_proof=False,
                    timeout_seconds=_LOOK_SECONDS,
                    boot_ids=self.boot_ids,
                    labels=self.labels,
                )
            finally:
                await client.close()
        except ClusterError as error:
            self.log.info("Remote job %s: %s", self.job_name, error)
            return EndGrade.UNKNOWN

    def _event(self, kind: str, **more: Any) -> dict[str, Any]:
        """Return an event that can be stored: the triggerer dies of any other, each time that it starts."""
        event: dict[str, Any] = storable(
            {"version": EVENT_VERSION, "job_name": self.job_name, "kind": kind, **more}
        )
        return event
