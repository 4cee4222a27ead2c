"""The log of one pod, from its first line to its last, over every end of a stream."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.ranks import TRAINING_CONTAINER
from airflow_gpu_placement.exceptions import ClusterError, Forbidden, NotFound, Unreachable
from airflow_gpu_placement.watch.followed import Bell
from airflow_gpu_placement.watch.log_turns import pod_pace
from airflow_gpu_placement.watch.stamps import NodeClock, grid_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from airflow_gpu_placement.model.kube import Pod
    from airflow_gpu_placement.watch.bookmarks import LogBook
    from airflow_gpu_placement.watch.cluster import ClusterWatch
    from airflow_gpu_placement.watch.position import Line, LogPosition

logger = logging.getLogger(__name__)

TAIL_LINES = 20
_TAIL_CHARACTERS = 1000
_SHORTEST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 10.0
_IDLE_SECONDS = 120.0  # a quiet program and a dead connection look alike; a new request costs little
_LAST_READ_IDLE_SECONDS = 10.0
_GOES_ON_SECONDS = 2.0
_LAST_FAILURES, _FAILING_SECONDS = 3, 5.0  # so often, or for so long, a node did not give the end of a log


class PodLog:
    """Reads the log of one pod and gives out each line once.

    :param rank: told in front of every line; ``None``: the job has one pod.
    :param report: takes one line, after its moment.
    """

    __slots__ = (
        "_bell",
        "_book",
        "_clock",
        "_cut_bytes",
        "_cut_moment",
        "_grid",
        "_limit",
        "_pace",
        "_prefix",
        "_report",
        "_said_by_node",
        "_watch",
        "complete",
        "ended",
        "pod_name",
        "pod_namespace",
        "pod_uid",
        "tail",
        "trouble",
        "vanished",
    )

    def __init__(
        self,
        watch: ClusterWatch,
        book: LogBook,
        pod: Pod,
        rank: int | None,
        report: Callable[[datetime, str], None],
    ) -> None:
        self.pod_namespace, self.pod_name = pod.metadata.namespace, pod.metadata.name
        self.pod_uid = pod.metadata.uid
        self.ended = False
        self.vanished = False
        self.complete = False  # whether the log was read to its end
        self.trouble = ""  # why it cannot be read at the moment
        self.tail: list[str] = []
        self._watch = watch
        self._book = book
        self._prefix = "" if rank is None else f"[rank {rank}] "
        self._grid = grid_of(rank)
        self._clock = NodeClock(pod)
        self._report = report
        self._bell = Bell()
        self._pace = pod_pace()
        self._limit: asyncio.Timeout | None = None  # of the stream that is being followed
        self._cut_bytes = self._cut_moment = 0  # of a line that was too long
        self._said_by_node = b""

    def know(self, *, ended: bool, vanished: bool) -> None:
        """Know what has become of the pod: after its end the log is read once, and no longer followed."""
        just_ended = ended and not self.ended
        self.ended, self.vanished = ended, vanished
        if just_ended:
            self._bell.wake()
            self._set_limit(_GOES_ON_SECONDS)

    async def run(self) -> None:
        """Read until the container has ended and its log was read, or there is nothing to read."""
        position = await self._book.position(self.pod_uid, self._grid)
        turns = self._watch.log_turns
        failures, failing_since = 0, 0.0
        with turns.taking_part():
            while True:
                # A stream also ends in good order when the node's agent dies. Only one that began after the
                # container had ended is known to be complete.
                last = self.ended
                try:
                    async with turns.turn(last=last) as may_follow:
                        follow = may_follow and not last
                        await self._read(position, follow=follow)
                except ClusterError as error:
                    self.trouble = str(error)
                    failing_since = failing_since if failures else time.monotonic()
                    failures += 1
                    for_long = (
                        failures > _LAST_FAILURES or time.monotonic() - failing_since > _FAILING_SECONDS
                    )
                    if self._is_hopeless(error, last_and_for_long=last and for_long):
                        self._note(None, f"the log cannot be read any further: {error}")
                        return
                    pause_seconds = min(_SHORTEST_PAUSE_SECONDS * 2.0**failures, _LONGEST_PAUSE_SECONDS)
                else:
                    self.trouble, failures = "", 0
                    if last:
                        self._tell_cut()
                        self.complete = True
                        return
                    pause_seconds = _SHORTEST_PAUSE_SECONDS if follow else 0.0
                if not await self._book.may_give():
                    return
                if not follow and not last:
                    pause_seconds = max(pause_seconds, turns.round_seconds())
                await self._bell.changed(within_seconds=pause_seconds)

    async def skip_to_the_end(self) -> None:
        """Give out the last lines of a log that there is no time to read to its end."""
        lines = self._lines({"tailLines": str(TAIL_LINES), "timestamps": "true"}, _LAST_READ_IDLE_SECONDS)
        position = await self._book.position(self.pod_uid, self._grid)
        self._note(position.moment + 1, "too much to read in time: lines are left out here")
        async with contextlib.aclosing(lines):
            async for line in lines:
                newer = position.take_newer(line)
                if newer is not None:
                    self._give(newer)
        self.complete = True

    def _is_hopeless(self, error: ClusterError, *, last_and_for_long: bool) -> bool:
        if isinstance(error, NotFound) or (isinstance(error, Forbidden) and error.status != 401):
            return True
        # The API server answers for a node that it cannot reach, again and again.
        of_node = error.status is not None and not isinstance(error, Unreachable | Forbidden)
        return self.vanished or (last_and_for_long and of_node)

    async def _read(self, position: LogPosition, *, follow: bool) -> None:
        query = position.query() | ({"follow": "true"} if follow else {})
        lines = self._lines(query, None if follow else _LAST_READ_IDLE_SECONDS, unfinished=not follow)
        # A stream that comes to its time limit ends in good order.
        with contextlib.suppress(TimeoutError):
            async with contextlib.aclosing(lines), asyncio.timeout(None) as limit:
                if not follow:
                    async for line in lines:
                        await self._take(position, line)
                    return
                self._limit = limit
                try:
                    self._set_limit(_IDLE_SECONDS)
                    async for line in lines:
                        await self._take(position, line)
                        if not self.ended:
                            self._set_limit(_IDLE_SECONDS)
                finally:
                    self._limit = None

    def _set_limit(self, seconds: float) -> None:
        """Let the stream that is being followed go on for so long, if there is one."""
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + seconds)

    async def _take(self, position: LogPosition, stamped: bytes) -> None:
        if not await self._book.may_give():
            return
        line = position.take(stamped)  # from here on it counts as given out
        if line is None:
            return
        if line.of_node:
            self._tell_of_node(line.text)
            return
        if line.continues and b"\r" not in line.text:
            self._cut_bytes += len(line.text)
            self._cut_moment = line.moment
        else:
            self._tell_cut()
            self._give(line)
        self._book.changed()
        delay_seconds = self._watch.log_turns.passed(stamped, self._pace)
        if delay_seconds:
            await asyncio.sleep(delay_seconds)

    def _tell_cut(self) -> None:
        """Say that a long line was cut, now that its end is known."""
        if self._cut_bytes:
            self._note(self._cut_moment, f"{self._cut_bytes} bytes of a long line are left out")
            self._cut_bytes = 0

    def _tell_of_node(self, text: bytes) -> None:
        """Tell once why the node gives no log; it says so each time that it is asked."""
        if text != self._said_by_node:
            self._said_by_node = text
            self._note(None, f"the node says: {text.decode('utf-8', 'replace')[:_TAIL_CHARACTERS]}")

    def _give(self, line: Line) -> None:
        """Give out a line as a terminal would show it: after a carriage return it is written over."""
        shown = self._prefix + line.text.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
        self.tail.append(shown[:_TAIL_CHARACTERS])
        if len(self.tail) > TAIL_LINES:
            del self.tail[0]
        self._report(self._clock.shown(line.moment, datetime.now(UTC)), shown)

    def _note(self, moment: int | None, text: str) -> None:
        """Say something about the log in its midst; ``None``: now."""
        now = datetime.now(UTC)
        self._report(now if moment is None else self._clock.shown(moment, now), f"{self._prefix}({text})")

    async def _lines(
        self, query: dict[str, str], idle_seconds: float | None, *, unfinished: bool = True
    ) -> AsyncGenerator[bytes, None]:
        client = await self._watch.client()
        lines = client.log(
            self.pod_namespace,
            self.pod_name,
            TRAINING_CONTAINER,
            query,
            idle_timeout_seconds=idle_seconds,
            unfinished=unfinished,
        )
        async with contextlib.aclosing(lines):
            async for line in lines:
                yield line
