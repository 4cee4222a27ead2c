"""One watcher a cluster and event loop, however many remote jobs are followed there."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import weakref
from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow_gpu_placement.exceptions import ClusterError, NotFound
from airflow_gpu_placement.model.kube import Job
from airflow_gpu_placement.watch.clock import AwakeClock
from airflow_gpu_placement.watch.connection import ClusterKey, SharedClient
from airflow_gpu_placement.watch.log_turns import LogTurns
from airflow_gpu_placement.watch.pulse import PulseCheck
from airflow_gpu_placement.watch.sinks import of_cluster, of_namespace
from airflow_gpu_placement.watch.store import ClusterStore

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from typing import Any

    from airflow_gpu_placement.clusters.client import ClusterClient
    from airflow_gpu_placement.clusters.connect import OpenCluster
    from airflow_gpu_placement.model.outcome import Observation
    from airflow_gpu_placement.watch.followed import JobRef, Subscription
    from airflow_gpu_placement.watch.stream import Stream

__all__ = ["ClusterKey", "ClusterWatch", "shared_watch"]

logger = logging.getLogger(__name__)

_TICK_SECONDS = 0.5
_LONGEST_STEP_SECONDS = 2.0
_UNREACHABLE_AFTER_SECONDS = 1.0
_READ_AGAIN_SECONDS = 30.0
"""Silence of the cluster after which its connection is read again, and the pause until the next time."""

_WOKEN_A_TICK = 100
_ASKED_AT_ONCE = 8


class ClusterWatch:
    """Everything that one event loop hears from one cluster.

    Get one by :func:`shared_watch`. The streams of nodes and Leases run from the first user to the last,
    those of a namespace while a job there is followed.
    """

    def __init__(self, key: ClusterKey, open_cluster: OpenCluster) -> None:
        self.key = key
        self.users = 0
        self.log_turns = LogTurns()
        self._clock = AwakeClock(longest_step_seconds=_LONGEST_STEP_SECONDS)
        self._store = ClusterStore(self._clock.now)
        self._open_cluster = open_cluster
        self._shared = SharedClient(key, self._read_connection, self.answered)
        self._last_answer = self._clock.now()
        self._reading_since: float | None = None  # while Airflow is asked for the connection
        self._streams: dict[str | None, tuple[Stream[Any], ...]] = {}  # by namespace; None: of the cluster
        self._tasks: dict[str | None, list[asyncio.Task[None]]] = {}
        self._followed: dict[str, int] = {}  # subscriptions by namespace
        self._troubles: dict[str, str | None] = {}
        self._asking: dict[JobRef, asyncio.Task[None]] = {}
        self._pulse = PulseCheck(self._store, self, lambda: self._streams[None][-1].is_open)
        self._checking: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._renewed_at = self._clock.now()
        self._start(None, of_cluster(self._store, self))
        self._ticker = self._spawn(self._tick(), "tick")

    # Followers

    def track(self, ref: JobRef) -> Tracked:
        """Follow a job: inside, :meth:`observe` knows it and the subscription is woken by its changes."""
        return Tracked(self, ref)

    def begin(self, ref: JobRef) -> Subscription:
        """Begin to follow a job; :meth:`end` has to come, so rather use :meth:`track`."""
        namespace = ref.namespace
        self._followed[namespace] = self._followed.get(namespace, 0) + 1
        if namespace not in self._streams:
            self._start(namespace, of_namespace(self._store, self, namespace))
        return self._store.subscribe(ref)

    def end(self, subscription: Subscription) -> None:
        """Follow it no longer."""
        namespace = subscription.ref.namespace
        self._store.unsubscribe(subscription)
        self._followed[namespace] -= 1
        if not self._followed[namespace]:
            del self._followed[namespace], self._streams[namespace]
            for task in self._tasks.pop(namespace):
                task.cancel()
            self._store.forget(namespace)

    def observe(self, ref: JobRef) -> Observation:
        """Return what is known of a followed job right now."""
        return self._store.observation(ref, unreachable_seconds=self.unreachable_seconds())

    def now(self) -> float:
        """Return seconds of this watch's own clock, which stands still while nothing could be heard."""
        return self._clock.now()

    def unreachable_seconds(self) -> float:
        """Return how long the cluster has answered nothing at all; 0 while it is heard."""
        until = self._clock.now() if self._reading_since is None else self._reading_since
        silent = until - self._last_answer
        hearing = any(stream.is_open for streams in self._streams.values() for stream in streams)
        return 0.0 if hearing or silent < _UNREACHABLE_AFTER_SECONDS else silent

    def asleep_seconds(self) -> float:
        """Return how long this process was stopped or starved so far, of all times together."""
        return self._clock.asleep_seconds()

    def troubles(self) -> frozenset[str]:
        """Return what keeps this watch from seeing everything and does not pass by itself."""
        return frozenset(error for error in self._troubles.values() if error is not None)

    def opens(self) -> dict[str, int]:
        """Return how often each stream has been opened, by its name."""
        return {stream.what: stream.opens for streams in self._streams.values() for stream in streams}

    # Uplink of the streams

    async def client(self) -> ClusterClient:
        """Return the client, opening it first when there is none.

        :raises ClusterError: it cannot be opened now.
        """
        return await self._shared.get()

    async def _read_connection(self, conn_id: str, context: str | None) -> ClusterClient:
        """Open a client; the time that Airflow takes to give its connection is not the cluster's silence."""
        self._reading_since = began = self._clock.now()
        try:
            return await self._open_cluster(conn_id, context)
        finally:
            self._reading_since = None
            self._last_answer += self._clock.now() - began

    async def reopen(self, refused: ClusterClient) -> None:
        """Read the credentials again, once for all streams whose requests the old ones were refused for."""
        await self._shared.reopen(refused)

    def answered(self) -> None:
        """Know that the cluster has just answered something."""
        self._last_answer = self._clock.now()

    def trouble(self, what: str, error: str | None) -> None:
        """Know that a stream is refused; ``None``: it is not any more."""
        if self._troubles.get(what) != error:
            self._troubles[what] = error
            self._store.wake_all()

    async def close(self) -> None:
        """End every stream and close the client."""
        streams = [task for tasks in self._tasks.values() for task in tasks]
        single = [task for task in (self._checking, self._renewing) if task is not None]
        tasks = [self._ticker, *streams, *self._asking.values(), *single]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await self._shared.close()

    def _start(self, namespace: str | None, streams: Iterable[Stream[Any]]) -> None:
        self._streams[namespace] = tuple(streams)
        self._tasks[namespace] = [
            self._spawn(stream.run(), stream.what) for stream in self._streams[namespace]
        ]

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        """Start a task in a context of its own: it outlives the user that happened to be the first."""
        name = f"watch {self.key.kubernetes_conn_id}: {what}"
        return asyncio.create_task(work, name=name, context=contextvars.Context())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._clock.tick()
            try:
                self._on_tick()
            except Exception:
                # The edge of the task: without ticks the clock stands still and no node is ever lost.
                logger.exception("watch of %s", self.key.kubernetes_conn_id)

    def _on_tick(self) -> None:
        """Wake followers whose job may change by time alone, and ask for jobs that no stream has shown."""
        self._store.wake_some(_WOKEN_A_TICK, all_jobs=self.unreachable_seconds() > 0)
        for ref in self._store.doubtful():
            if len(self._asking) < _ASKED_AT_ONCE and ref not in self._asking:
                self._asking[ref] = self._spawn(self._ask(ref), f"job {ref.name}")
        silent = self._pulse.due()
        if silent is not None and (self._checking is None or self._checking.done()):
            self._checking = self._spawn(self._pulse.ask(silent), f"lease of node {silent}")
        rested = self._clock.now() - self._renewed_at >= _READ_AGAIN_SECONDS
        if rested and self.unreachable_seconds() >= _READ_AGAIN_SECONDS:
            self._renewed_at = self._clock.now()
            if self._renewing is None or self._renewing.done():
                self._renewing = self._spawn(self._renew(), "connection")

    async def _renew(self) -> None:
        """Look whether the connection leads elsewhere by now."""
        try:
            await self._shared.renew(self._open_cluster)
        except ClusterError as error:
            logger.info("connection %s, read again: %s", self.key.kubernetes_conn_id, error)

    async def _ask(self, ref: JobRef) -> None:
        path = f"/apis/batch/v1/namespaces/{quote(ref.namespace)}/jobs/{quote(ref.name)}"
        try:
            client = await self.client()
            self._store.answered(ref, await client.get_as(path, Job))
        except NotFound:
            self._store.answered(ref, None)
        except ClusterError as error:
            logger.info("job %s/%s: %s; asking again", ref.namespace, ref.name, error)
        finally:
            del self._asking[ref]


_shared: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[ClusterKey, ClusterWatch]] = (
    weakref.WeakKeyDictionary()
)


# Both of these are entered for as long as a job is followed. As generators they would take a kilobyte a job.


class Tracked:
    """A job that is followed while this is entered."""

    __slots__ = ("_ref", "_subscription", "_watch")

    def __init__(self, watch: ClusterWatch, ref: JobRef) -> None:
        self._watch = watch
        self._ref = ref

    def __enter__(self) -> Subscription:
        self._subscription = self._watch.begin(self._ref)
        return self._subscription

    def __exit__(self, *_: object) -> None:
        self._watch.end(self._subscription)


class SharedWatch:
    """A watch of a cluster that is used while this is entered."""

    __slots__ = ("_key", "_open_cluster", "_watch")

    def __init__(self, key: ClusterKey, open_cluster: OpenCluster) -> None:
        self._key = key
        self._open_cluster = open_cluster

    async def __aenter__(self) -> ClusterWatch:
        watches = _shared.setdefault(asyncio.get_running_loop(), {})
        watch = watches.get(self._key)
        if watch is None:
            watch = watches[self._key] = ClusterWatch(self._key, self._open_cluster)
        watch.users += 1
        self._watch, self._key = watch, watch.key  # an equal key, of which there is one
        return watch

    async def __aexit__(self, *_: object) -> None:
        watch = self._watch
        watch.users -= 1
        if not watch.users:
            del _shared[asyncio.get_running_loop()][self._key]
            await asyncio.shield(watch.close())


def shared_watch(key: ClusterKey, open_cluster: OpenCluster) -> SharedWatch:
    """Share the watcher of a cluster: the first user in this event loop starts it, the last one stops it."""
    return SharedWatch(key, open_cluster)
