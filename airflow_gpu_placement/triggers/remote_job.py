"""Watch one remote job from the triggerer until it has ended or is lost."""

from __future__ import annotations

import asyncio
import importlib
import time
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_gpu_placement.hooks.clusters import open_on_triggerer
from airflow_gpu_placement.model.outcome import LossPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.model.outcome import Outcome

EVENT_VERSION = 1
SHORTEST_WATCH_SECONDS = 5.0
"""A task that is resumed within a moment of its deferral may be failed by Airflow's scheduler.

It then takes the executor's word that the first part of the task has ended for the end of the resumed part.
"""


class RemoteJobTrigger(BaseTrigger):
    """Yield exactly one event: the outcome of a remote job.

    All jobs of a cluster that one triggerer watches share one set of streams. The arguments hold no secret,
    since Airflow stores them as plain text.

    :param kubernetes_conn_id: Airflow connection of the cluster.
    :param cluster_uid: the cluster that the connection must lead to.
    :param job_uid: a later job of the same name is another one.
    :param node_grace_seconds: silence of a node after which it counts as lost.
    :param cluster_grace_seconds: the same for a whole cluster.
    :param node_deletion_is_proof: a deleted Node object proves that the machine is gone.
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
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in Airflow
        self.kubernetes_conn_id = kubernetes_conn_id
        self.context = context
        self.cluster_uid = cluster_uid
        self.namespace = namespace
        self.job_name = job_name
        self.job_uid = job_uid
        self.policy = LossPolicy(
            node_grace_seconds=node_grace_seconds,
            cluster_grace_seconds=cluster_grace_seconds,
            node_deletion_is_proof=node_deletion_is_proof,
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
            **msgspec.to_builtins(self.policy),
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Follow the job; what goes wrong is an event too: an error here would lose its type and text."""
        began = time.monotonic()
        try:
            outcome = await self.watch(open_on_triggerer)
        except Exception as error:
            self.log.exception("The watch of remote job %s broke", self.job_name)
            event: dict[str, Any] = {"kind": "watch_broke", "message": f"{type(error).__name__}: {error}"}
        else:
            event = {"kind": "ended", "outcome": msgspec.to_builtins(outcome)}
        await asyncio.sleep(SHORTEST_WATCH_SECONDS - (time.monotonic() - began))
        payload = {"version": EVENT_VERSION, "job_name": self.job_name, **event}
        yield TriggerEvent(payload)  # type: ignore[no-untyped-call]  # untyped in Airflow

    async def watch(self, open_cluster: OpenCluster) -> Outcome:
        """Follow the job to its end, with its logs in this task's log.

        :param open_cluster: gives a client of the cluster, with credentials read anew.
        """
        # The client library takes long to load, and other triggers share this event loop.
        await asyncio.to_thread(importlib.import_module, "airflow_gpu_placement.watch.follow")
        from airflow_gpu_placement.watch.cluster import ClusterKey, shared_watch
        from airflow_gpu_placement.watch.follow import follow
        from airflow_gpu_placement.watch.store import JobRef

        key = ClusterKey(self.kubernetes_conn_id, self.context, self.cluster_uid)
        async with shared_watch(key, open_cluster) as cluster:
            return await follow(
                cluster,
                JobRef(self.namespace, self.job_name, self.job_uid),
                self.policy,
                report=lambda line: self.log.info("%s", line),
                report_log=lambda line: self.log.info("%s", line),
            )
