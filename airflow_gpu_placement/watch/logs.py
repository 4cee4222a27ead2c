"""Stream the logs of all ranks of a remote job while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import TYPE_CHECKING

from airflow_gpu_placement.exceptions import ClusterError, Forbidden, NotFound
from airflow_gpu_placement.watch.position import LogPosition
from airflow_gpu_placement.watch.ranks import TRAINING_CONTAINER, index_of, rank_of, training_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.model.kube import Pod
    from airflow_gpu_placement.model.outcome import Observation
    from airflow_gpu_placement.watch.cluster import ClusterWatch

logger = logging.getLogger(__name__)

TAIL_LINES = 20
_SHORTEST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 10.0
_LAST_READ_IDLE_SECONDS = 10.0


class JobLogs:
    """One stream a pod, each with a short memory of its last lines.

    :param report_log: takes one line, with its rank in front when there are several.
    """

    def __init__(self, watch: ClusterWatch, report_log: Callable[[str], None]) -> None:
        self._watch = watch
        self._report = report_log
        self._pods: dict[str, _PodLog] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def update(self, observation: Observation) -> None:
        """Begin to stream pods that have started, and pass on what became of the others."""
        for pod in observation.pods:
            uid, state = pod.metadata.uid, training_state(pod)
            if uid in self._pods:
                self._pods[uid].ended = state is not None and state.terminated is not None
                self._pods[uid].vanished = uid in observation.vanished
            elif state is not None and state.waiting is None and uid not in observation.vanished:
                index = index_of(pod)  # the pod tells it itself: the Job may come through its stream later
                prefix = "" if index is None else f"[rank {index}] "
                log = self._pods[uid] = _PodLog(self._watch, pod, prefix, self._report)
                log.ended = state.terminated is not None
                self._tasks[uid] = asyncio.create_task(log.run(), name=f"log of {pod.metadata.name}")

    async def drain(self, seconds: float) -> None:
        """Wait until the logs of the pods that have ended are read to their end, but not longer than that."""
        ended = [task for uid, task in self._tasks.items() if self._pods[uid].ended]
        if ended:
            await asyncio.wait(ended, timeout=seconds)

    async def close(self) -> None:
        """Stop every stream."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    def tail(self, pod_name: str | None) -> tuple[str, ...]:
        """Return the last lines of a pod, of rank 0 when none is named."""
        for log in sorted(self._pods.values(), key=lambda log: rank_of(log.pod)):
            if pod_name in {None, log.pod.metadata.name}:
                return tuple(log.tail)
        return ()


class _PodLog:
    """The log of one pod, from its first line to its last, over every end of a stream."""

    def __init__(self, watch: ClusterWatch, pod: Pod, prefix: str, report: Callable[[str], None]) -> None:
        self.pod = pod
        self.ended = False
        self.vanished = False
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._watch = watch
        self._prefix = prefix
        self._report = report
        self._position = LogPosition()

    async def run(self) -> None:
        """Stream until the container has ended and its log was read, or there is nothing to read."""
        pause_seconds = _SHORTEST_PAUSE_SECONDS
        while True:
            # A stream also ends in good order when the node's agent dies. Only one that began after the
            # container had ended is known to be complete.
            last = self.ended
            try:
                if await self._stream(follow=not last):
                    pause_seconds = _SHORTEST_PAUSE_SECONDS
            except NotFound:
                return
            except Forbidden as error:
                if error.status != 401:
                    self._report(f"{self._prefix}(the log cannot be read: {error})")
                    return
                await self._pause(pause_seconds, error)
            except ClusterError as error:
                if self.vanished:
                    return
                await self._pause(pause_seconds, error)
            else:
                if last:
                    return
                await asyncio.sleep(_SHORTEST_PAUSE_SECONDS)
                continue
            pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)

    async def _stream(self, *, follow: bool) -> bool:
        client = await self._watch.client()
        query = self._position.query() | ({"follow": "true"} if follow else {})
        lines = client.log(
            self.pod.metadata.namespace,
            self.pod.metadata.name,
            TRAINING_CONTAINER,
            query,
            idle_timeout_seconds=None if follow else _LAST_READ_IDLE_SECONDS,
            unfinished=not follow,
        )
        received = False
        async with contextlib.aclosing(lines):
            async for line in lines:
                text = self._position.take(line)
                if text is not None:
                    received = True
                    shown = self._prefix + text.decode("utf-8", "replace").rstrip("\r")
                    self.tail.append(shown)
                    self._report(shown)
        return received

    async def _pause(self, seconds: float, error: ClusterError) -> None:
        logger.debug("log of pod %s: %s", self.pod.metadata.name, error)
        await asyncio.sleep(seconds)
