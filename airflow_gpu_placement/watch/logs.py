"""Stream the logs of all ranks of a remote job while it runs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.ranks import index_of, training_state
from airflow_gpu_placement.exceptions import ClusterError
from airflow_gpu_placement.watch.bookmarks import LogBook
from airflow_gpu_placement.watch.pod_log import PodLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.model.outcome import Observation
    from airflow_gpu_placement.watch.bookmarks import LogBookmarks
    from airflow_gpu_placement.watch.cluster import ClusterWatch

_TAIL_SECONDS = 5.0


class JobLogs:
    """One reader a pod, each with a short memory of its last lines.

    :param report_log: takes one line after its moment, with its rank in front when there are several.
    :param bookmarks: where positions are kept for the next watcher; ``None``: nowhere.
    """

    __slots__ = ("_book", "_pods", "_report", "_watch")

    def __init__(
        self,
        watch: ClusterWatch,
        report_log: Callable[[datetime, str], None],
        bookmarks: LogBookmarks | None = None,
    ) -> None:
        self._watch = watch
        self._report = report_log
        self._book = LogBook(bookmarks, watch.asleep_seconds)
        self._pods: dict[str, tuple[int, PodLog, asyncio.Task[None]]] = {}  # by uid: rank, reader, its task

    def update(self, observation: Observation) -> None:
        """Begin to stream pods that have started, and pass on what became of the others."""
        for pod in observation.pods:
            uid, state = pod.metadata.uid, training_state(pod)
            ended = state is not None and state.terminated is not None
            vanished = uid in observation.vanished
            if uid not in self._pods and state is not None and state.waiting is None and not vanished:
                index = index_of(pod)  # the pod tells it itself: the Job may come through its stream later
                log = PodLog(self._watch, self._book, pod, index, self._report)
                log.know(ended=ended, vanished=False)
                task = asyncio.create_task(log.run(), name=f"log of {pod.metadata.name}")
                self._pods[uid] = (index or 0, log, task)
            elif uid in self._pods:
                self._pods[uid][1].know(ended=ended, vanished=vanished)

    async def drain(self, seconds: float) -> None:
        """Wait until the logs of the pods that have ended are read to their end, but not longer than that.

        Of a log that is longer, the last lines are given out all the same; of one that cannot be read, why.
        """
        ended = [task for _, log, task in self._pods.values() if log.ended]
        if ended:
            await asyncio.wait(ended, timeout=seconds)
        for _, log, task in self._pods.values():
            if log.ended and not task.done():
                task.cancel()
                await asyncio.wait([task])
                await self._cut_short(log)

    async def close(self, *, handed_over: bool) -> None:
        """Stop every stream.

        :param handed_over: somebody else goes on with the logs.
        """
        tasks = [task for _, _, task in self._pods.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._book.close(save=handed_over)

    def tail(self, pod_name: str | None) -> tuple[str, ...]:
        """Return the last lines given out of a pod, of rank 0 when none is named."""
        log = self._log(pod_name)
        return () if log is None else tuple(log.tail)

    def is_complete(self, pod_name: str | None) -> bool:
        """Whether these are the last lines of its log."""
        log = self._log(pod_name)
        return log is not None and log.complete

    async def _cut_short(self, log: PodLog) -> None:
        why = log.trouble
        if not why:
            try:
                async with asyncio.timeout(_TAIL_SECONDS):
                    await log.skip_to_the_end()
                return
            except (ClusterError, TimeoutError) as error:
                why = str(error) or "no answer in time"
        text = f"(the end of the log of pod {log.pod_name} is not available: {why})"
        self._report(datetime.now(UTC), text)

    def _log(self, pod_name: str | None) -> PodLog | None:
        logs = [(rank, log) for rank, log, _ in self._pods.values() if pod_name in {None, log.pod_name}]
        return min(logs, key=lambda one: one[0])[1] if logs else None
