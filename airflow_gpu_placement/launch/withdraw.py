"""Take a remote job away and tell how well it is proven that nothing of it runs any more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from airflow_gpu_placement.clusters.errors import may_pass, pause_seconds
from airflow_gpu_placement.engine.ranks import CONTROLLER_UID_LABEL
from airflow_gpu_placement.exceptions import ClusterError, Conflict, NotFound
from airflow_gpu_placement.launch.evidence import asserted, reported_ended, vanished_ended, worst
from airflow_gpu_placement.launch.find import pods_path
from airflow_gpu_placement.launch.job import jobs_path
from airflow_gpu_placement.launch.manifest import JOB_NAME_LABEL
from airflow_gpu_placement.model.kube import Job, Node, Pod
from airflow_gpu_placement.model.outcome import EndGrade

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_gpu_placement.clusters.client import ClusterClient

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
_ASK_SECONDS = 2.0
"""Time to ask for a deletion, also when nobody waits for the proof of the end."""

_WATCH_SECONDS = 60
_IDLE_SECONDS = _WATCH_SECONDS + 15.0


async def withdraw(
    client: ClusterClient,
    namespace: str,
    job_name: str,
    *,
    job_uid: str | None,
    node_deletion_is_proof: bool,
    timeout_seconds: float,
    boot_ids: Mapping[str, str] = MappingProxyType({}),
    labels: Mapping[str, str] = MappingProxyType({}),
) -> EndGrade:
    """Delete a remote job with its pods and wait until its end is proven, or the time is over.

    What is gone already is fine. A job that was never created has ended for sure; one that was (``job_uid``
    given) and of which nothing is left to look at has not: nobody can say any more how it went.

    :param job_uid: ``None``: not known; whatever job has the name is meant.
    :param node_deletion_is_proof: a setting of the pool.
    :param timeout_seconds: how long to wait for the proof; the deletion is asked for even with 0. A pod on a
        healthy node may take its termination grace (30 s) to end.
    :param boot_ids: node -> its boot id while the job ran: one that was booted anew runs nothing of it.
    :param labels: what the job carries if it is the one that is meant; any other is left alone. Who may edit
        what Airflow remembers of a task must not be able to delete every job by that.
    :raises ClusterError: the API refuses, as in ``Forbidden``. When it does not answer, the grade is
        ``unknown``.
    """
    withdrawal = _Withdrawal(client, namespace, job_name, job_uid, node_deletion_is_proof, boot_ids, labels)
    watcher: asyncio.Task[None] | None = None
    until = asyncio.get_running_loop().time() + timeout_seconds
    try:
        async with asyncio.timeout(max(timeout_seconds, _ASK_SECONDS)):
            await withdrawal.begin()
        async with asyncio.timeout_at(until):
            watcher = asyncio.create_task(withdrawal.follow_pods())
            await withdrawal.wait()
    except TimeoutError:
        logger.warning("job %s/%s has not provably ended after %g s", namespace, job_name, timeout_seconds)
    finally:
        if watcher is not None:
            watcher.cancel()
            await asyncio.wait({watcher})
    return withdrawal.grade()


async def has_succeeded(client: ClusterClient, namespace: str, job_name: str, job_uid: str) -> bool:
    """Whether a job is there and complete: nothing of it runs, and it may be kept to be looked at."""
    try:
        job = await client.get_as(jobs_path(namespace, job_name), Job)
    except NotFound:
        return False
    complete = any(one.type == "Complete" and one.status == "True" for one in job.status.conditions)
    return complete and job.metadata.uid == job_uid


class _Withdrawal:
    """One job on its way out: what was seen of its pods, and of the nodes of those that have not ended."""

    def __init__(
        self,
        client: ClusterClient,
        namespace: str,
        job_name: str,
        job_uid: str | None,
        node_deletion_is_proof: bool,
        boot_ids: Mapping[str, str],
        labels: Mapping[str, str],
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._job_path = jobs_path(namespace, job_name)
        self._job_name = job_name
        self._job_uid = job_uid
        self._node_deletion_is_proof = node_deletion_is_proof
        self._boot_ids = boot_ids
        self._labels = labels
        self._selector: dict[str, str] = {}
        self._version = ""
        self._pods: dict[str, Pod] = {}
        self._vanished: set[str] = set()
        self._nodes: dict[str, Node | None] = {}
        self._begun = False
        self._existed = False
        self._over = False
        self._unseen = 0
        self._changed = asyncio.Event()

    async def begin(self) -> None:
        """Read what there is, then ask for its deletion; again and again while the API does not answer."""
        while True:
            try:
                await self._begin()
            except ClusterError as error:
                if not may_pass(error):
                    raise
                logger.info("withdrawing job %s: %s", self._job_name, error)
                await asyncio.sleep(pause_seconds(error, _POLL_SECONDS))
            else:
                return

    async def _begin(self) -> None:
        created = self._job_uid is not None
        job = await self._job()
        if job is not None:
            self._job_uid = job.metadata.uid
            self._existed = True
        label = f"{JOB_NAME_LABEL}={self._job_name}"
        if self._job_uid is not None:
            label = f"{CONTROLLER_UID_LABEL}={self._job_uid}"
        self._selector = {"labelSelector": label}
        await self._list()
        if job is not None:
            status = job.status
            counted = status.active + status.terminating + status.failed + status.succeeded
            self._unseen = max(self._unseen, counted - len(self._pods))
            with contextlib.suppress(NotFound, Conflict):
                await self._client.delete(self._job_path, uid=self._job_uid, propagation="Foreground")
        elif created and not self._pods:
            self._unseen = 1
        self._begun = True

    async def wait(self) -> None:
        """Return once the job is gone and every pod of it has ended, has vanished, or is vouched for."""
        while True:
            self._changed.clear()
            try:
                await self._look_at_nodes()
                if all(self._is_settled(uid) for uid in self._pods) and await self._no_more_pods():
                    self._over = True
                    return
            except ClusterError as error:
                if not may_pass(error):
                    raise
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await self._changed.wait()

    async def follow_pods(self) -> None:
        """Keep the last state of every pod, above all the one just before its object goes."""
        while True:
            query = self._selector | {
                "resourceVersion": self._version,
                "allowWatchBookmarks": "true",
                "timeoutSeconds": str(_WATCH_SECONDS),
            }
            try:
                events = self._client.watch(
                    pods_path(self._namespace), query, idle_timeout_seconds=_IDLE_SECONDS
                )
                async for event in events:
                    if event.type == "BOOKMARK":
                        self._version = event.resource_version
                    else:
                        self._note(event.type, msgspec.json.decode(event.object, type=Pod))
            except (ClusterError, msgspec.MsgspecError) as error:
                logger.info("pods of job %s: %s", self._job_name, error)
                await asyncio.sleep(_POLL_SECONDS)
                with contextlib.suppress(ClusterError):
                    await self._list()

    def grade(self) -> EndGrade:
        """Return the proof for the whole job: that of its worst pod."""
        if not self._begun or (self._unseen and not self._all_booted_anew()):
            return EndGrade.UNKNOWN
        if self._existed and not self._pods and not self._over:
            return EndGrade.UNKNOWN  # its first pod may have come before its deletion
        return worst(self._grade_of(uid) for uid in self._pods)

    def _grade_of(self, uid: str) -> EndGrade:
        pod, node = self._pods[uid], self._nodes.get(self._pods[uid].spec.node_name)
        if reported_ended(pod) or (uid in self._vanished and vanished_ended(pod, node)):
            return EndGrade.CONFIRMED
        if self._booted_anew(pod.spec.node_name):
            return EndGrade.CONFIRMED
        known = pod.spec.node_name in self._nodes
        if known and asserted(node, node_deletion_is_proof=self._node_deletion_is_proof):
            return EndGrade.ASSERTED
        return EndGrade.UNKNOWN

    def _booted_anew(self, name: str) -> bool:
        node, before = self._nodes.get(name), self._boot_ids.get(name)
        now = "" if node is None else node.status.node_info.boot_id
        return bool(before and now) and now != before

    def _all_booted_anew(self) -> bool:
        """Whether every node that was lost is up again: what was not seen to end was there."""
        return bool(self._boot_ids) and all(map(self._booted_anew, self._boot_ids))

    def _is_settled(self, uid: str) -> bool:
        return uid in self._vanished or self._grade_of(uid) is not EndGrade.UNKNOWN

    async def _no_more_pods(self) -> bool:
        """Whether no pod can appear any more: the job is gone, or ends only for want of a node's word."""
        if any(self._grade_of(uid) is EndGrade.ASSERTED for uid in self._pods):
            return True  # the job stays until the garbage collector has removed the pods of that node
        return await self._job() is None

    async def _look_at_nodes(self) -> None:
        names = {
            pod.spec.node_name
            for uid, pod in self._pods.items()
            if not reported_ended(pod)
            and (uid not in self._vanished or pod.spec.node_name not in self._nodes)
        }
        for name in sorted(names | (self._boot_ids.keys() if self._unseen else set())):
            if name:
                await self._look_at_node(name)

    async def _look_at_node(self, name: str) -> None:
        try:
            self._nodes[name] = await self._client.get_as(f"/api/v1/nodes/{quote(name)}", Node)
        except NotFound:
            self._nodes[name] = None

    async def _job(self) -> Job | None:
        """Return the job; ``None`` also when the one of that name is another."""
        try:
            job = await self._client.get_as(self._job_path, Job)
        except NotFound:
            return None
        is_meant = self._job_uid in {None, job.metadata.uid}
        return job if is_meant and self._labels.items() <= job.metadata.labels.items() else None

    async def _list(self) -> None:
        pods, self._version = await self._client.list_all(pods_path(self._namespace), Pod, self._selector)
        listed = {pod.metadata.uid: pod for pod in pods}
        self._vanished |= self._pods.keys() - listed.keys()
        self._pods |= listed
        self._changed.set()

    def _note(self, kind: str, pod: Pod) -> None:
        self._version = pod.metadata.resource_version
        self._pods[pod.metadata.uid] = pod
        if kind == "DELETED":
            self._vanished.add(pod.metadata.uid)
        self._changed.set()
