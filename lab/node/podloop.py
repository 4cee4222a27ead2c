"""Follows the pods that are bound to this node: list, watch, and both again after any trouble."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from lab.node.api import CONNECTION_ERRORS, ApiError
from lab.node.faults import end_containers
from lab.node.volumes import remove_pod_dir
from lab.node.worker import NodeContext, PodWorker

if TYPE_CHECKING:
    from pathlib import Path

LOG = logging.getLogger(__name__)
RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0)
LEFTOVER_SECONDS = 1.0  # grace for processes whose pod is gone


class PodLoop:
    """One worker for each pod, found by uid: names come again, uids do not."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._path = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{context.config.name}"
        self.workers: dict[str, PodWorker] = {}
        self._leftovers: set[asyncio.Task[None]] = set()
        self._first = True

    def find(self, namespace: str, name: str) -> PodWorker | None:
        """Return the newest pod of this name."""
        found = [worker for worker in self.workers.values() if worker.key == (namespace, name)]
        return found[-1] if found else None

    async def run(self) -> None:
        """Follow the API server for ever."""
        failures = 0
        while True:
            try:
                version = await self._list()
                failures = 0
                while True:
                    version = await self._watch(version)
            except ApiError as error:
                LOG.warning("list or watch of pods: %s", error)
                if error.status == 410:
                    continue
            except CONNECTION_ERRORS as error:
                LOG.warning("list or watch of pods: %s: %s", type(error).__name__, error)
            await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
            failures += 1

    async def close(self) -> None:
        """Stop all workers; containers live on."""
        for worker in list(self.workers.values()):
            await worker.close()

    async def _list(self) -> str:
        answer = await self._context.api.get(self._path)
        pods = {pod["metadata"]["uid"]: pod for pod in answer["items"]}
        if self._first:
            self._first = False
            self._find_leftovers(set(pods))
        for uid in self.workers.keys() - pods.keys():
            self._remove(uid)
        for pod in pods.values():
            self._take(pod)
        return str(answer["metadata"]["resourceVersion"])

    async def _watch(self, version: str) -> str:
        async for kind, pod in self._context.api.watch(self._path, version):
            version = pod["metadata"]["resourceVersion"]
            if kind in ("ADDED", "MODIFIED"):
                self._take(pod)
            elif kind == "DELETED":
                self._remove(pod["metadata"]["uid"])
        return version

    def _take(self, pod: dict[str, Any]) -> None:
        worker = self.workers.get(pod["metadata"]["uid"])
        if worker is None:
            worker = PodWorker(self._context, pod)
            self.workers[worker.uid] = worker
        else:
            worker.update(pod)

    def _remove(self, uid: str) -> None:
        worker = self.workers.get(uid)
        if worker is not None:
            worker.set_gone()
            worker.task.add_done_callback(lambda _: self._forget(uid))

    def _forget(self, uid: str) -> None:
        """Drop a worker that is done; one that has broken down leaves containers behind, which are ended."""
        worker = self.workers.pop(uid, None)
        if worker is not None and worker.folder.exists():
            self._clear_soon(worker.folder)

    def _clear_soon(self, folder: Path) -> None:
        task = asyncio.create_task(self._clear(folder))
        self._leftovers.add(task)
        task.add_done_callback(self._leftovers.discard)

    def _find_leftovers(self, wanted: set[str]) -> None:
        """Look through what an earlier agent has left: GPUs stay held, unwanted containers are ended."""
        if not self._context.config.pods_dir.is_dir():
            return
        for folder in self._context.config.pods_dir.iterdir():
            self._context.devices.restore(folder.name, folder)
            if folder.name not in wanted:
                self._clear_soon(folder)

    async def _clear(self, folder: Path) -> None:
        """End what is left of a pod that nobody looks after."""
        LOG.info("pod %s is not wanted any more: its containers are ended", folder.name)
        self._context.dying.add(folder.name)
        await asyncio.to_thread(end_containers, folder, LEFTOVER_SECONDS)
        await asyncio.to_thread(remove_pod_dir, folder)
        self._context.devices.release(folder.name, folder)
        self._context.dying.discard(folder.name)
        self._context.freed.set()
