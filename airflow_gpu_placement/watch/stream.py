"""One endless list-and-watch of one kind of object, through everything that ends a watch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec

from airflow_gpu_placement.clusters.errors import Expired, may_pass
from airflow_gpu_placement.clusters.turns import a_turn
from airflow_gpu_placement.exceptions import ClusterError
from airflow_gpu_placement.model.kube import ObjectMeta, Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_gpu_placement.clusters.client import ClusterClient, WatchEvent

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 10.0
_LONGEST_ASKED_PAUSE_SECONDS = 60.0
_SHORTEST_WATCH_SECONDS = 1.0
_LIST_AFTER_FAILURES = 6
_PAGE_OBJECTS = 100
"""Little is kept of a page, which has a megabyte, but a process does not give back what it once needed."""
# Answers that say that the cluster is there. A refusal does not: our remote jobs are out of sight then.
_ALIVE = frozenset({410, 429})
# Short watches that the server ends in good order are how a dead connection is told from a quiet cluster: no
# end in time means that nobody is there. Load balancers drop quiet connections after a minute or more.
_WATCH_SECONDS = 45
_IDLE_MARGIN_SECONDS = 10.0


class _Object(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


class _Named(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


ObjectT = TypeVar("ObjectT", bound=_Object)
ContraT = TypeVar("ContraT", contravariant=True)


class Sink(Protocol[ContraT]):
    """Where a stream puts what it receives."""

    def listed(self, items: Sequence[ContraT], unreadable: Sequence[ObjectMeta]) -> None:
        """Take a complete list: what is not in it does not exist.

        :param unreadable: what exists as well but has an unexpected shape.
        """

    def changed(self, kind: str, item: ContraT) -> None:
        """Take one event: ``ADDED``, ``MODIFIED`` or ``DELETED``."""

    def unreadable(self, item: ObjectMeta) -> None:
        """Know that an object has changed or come, and that it has an unexpected shape."""

    def opened(self) -> None:
        """Know that the stream is (again) receiving."""

    def broken(self) -> None:
        """Know that the stream is not receiving, from now until it is opened."""


class Uplink(Protocol):
    """The cluster's client, which may be opened anew behind the stream's back."""

    async def client(self) -> ClusterClient:
        """Return the client in use, opening it when there is none."""

    async def reopen(self, refused: ClusterClient) -> None:
        """Read the credentials again: ``refused`` was answered 401."""

    def answered(self) -> None:
        """Know that the cluster has just answered something."""

    def trouble(self, what: str, error: str | None) -> None:
        """Know that a stream is refused, which does not pass by itself; ``None``: it is not any more."""


class Stream(Generic[ObjectT]):
    """List, watch from there on, and again.

    A watch that ends in good order goes on where it ended. One that breaks does too, after a pause that
    grows; only when the server no longer knows the place (410), or keeps refusing it, is everything listed
    again. An object of an unexpected shape is told as a trouble and hides no other.

    :param what: for texts, such as ``pods in namespace default``.
    :param slim: makes of an object what the sink is given, so that a long list is never held whole.
    :param selector: query parameters of both list and watch.
    :param watch_seconds: longest time of one watch; a dead connection is noticed a little later.
    """

    def __init__(
        self,
        what: str,
        path: str,
        item_type: type[ObjectT],
        sink: Sink[ObjectT],
        uplink: Uplink,
        slim: Callable[[ObjectT], ObjectT] = lambda item: item,
        selector: dict[str, str] | None = None,
        watch_seconds: int = _WATCH_SECONDS,
    ) -> None:
        self.what = what
        self.opens = 0
        self.is_open = False
        self._path = path
        self._item_type = item_type
        self._decoder = msgspec.json.Decoder(item_type)
        self._sink = sink
        self._uplink = uplink
        self._slim = slim
        self._selector = selector or {}
        self._watch_seconds = watch_seconds
        self._version = ""
        self._failures = 0
        self._asked_pause_seconds = 0.0
        self._unreadable: set[str] = set()  # names

    async def run(self) -> None:
        """Receive until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            client: ClusterClient | None = None
            try:
                client = await self._uplink.client()
                await self._once(client)
            except ClusterError as error:
                await self._failed(error, client)
            except Exception:
                # The edge of the task: a stream that died silently would blind every remote job.
                if not self._failures:
                    logger.exception("stream of %s: listing again", self.what)
                self._version = ""
                self._broken()
            else:
                if loop.time() - began < _SHORTEST_WATCH_SECONDS:
                    self._failures += 1
            if self._failures:
                await asyncio.sleep(max(_pause_seconds(self._failures), self._asked_pause_seconds))

    async def _once(self, client: ClusterClient) -> None:
        if not self._version:
            self._version = await self._list(client)
        query = self._selector | {
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._watch_seconds),
        }
        idle_seconds = self._watch_seconds + _IDLE_MARGIN_SECONDS
        events = client.watch(self._path, query, idle_timeout_seconds=idle_seconds, opened=self._opened)
        async with contextlib.aclosing(events):
            async for event in events:
                self._uplink.answered()
                self._received(event)
        self._uplink.answered()

    async def _list(self, client: ClusterClient) -> str:
        """Hand the sink everything that there is, and return the version to watch from."""
        items: list[ObjectT] = []
        unreadable: list[ObjectMeta] = []
        version = ""
        async for page in client.pages(self._path, msgspec.Raw, self._selector, limit=_PAGE_OBJECTS):
            self._uplink.answered()
            version = page.metadata.resource_version
            async with a_turn():
                for one in page.items:
                    try:
                        items.append(self._slim(self._decoder.decode(one)))
                    except msgspec.MsgspecError as error:
                        unreadable.append(self._cannot_read(one, error))
        for name in self._unreadable - {one.name for one in unreadable}:
            self._can_read(name)
        self._sink.listed(items, unreadable)
        return version

    def _received(self, event: WatchEvent) -> None:
        if event.type == "BOOKMARK":
            self._version = event.resource_version
            return
        try:
            item = self._decoder.decode(event.object)
        except msgspec.MsgspecError as error:
            metadata = self._cannot_read(event.object, error)
            self._version = metadata.resource_version
            if event.type == "DELETED":
                raise Expired(f"{metadata.name} was deleted and cannot be read", status=410) from error
            self._sink.unreadable(metadata)
            return
        self._version = item.metadata.resource_version
        if self._unreadable:
            self._can_read(item.metadata.name)
        self._sink.changed(event.type, self._slim(item))

    def _cannot_read(self, raw: msgspec.Raw, error: msgspec.MsgspecError) -> ObjectMeta:
        """Tell the trouble and return what the object is; one without even a name ends the stream."""
        metadata = msgspec.json.decode(raw, type=_Named).metadata
        self._unreadable.add(metadata.name)
        self._uplink.trouble(
            f"{self.what}: {metadata.name}",
            f"{metadata.name} of {self.what} has an unexpected shape ({error}); "
            "what was known of it before is still believed",
        )
        return metadata

    def _can_read(self, name: str) -> None:
        if name in self._unreadable:
            self._unreadable.discard(name)
            self._uplink.trouble(f"{self.what}: {name}", None)

    def _opened(self) -> None:
        self.opens += 1
        self.is_open = True
        if self._failures:
            logger.info("stream of %s is open again", self.what)
        self._failures = 0
        self._asked_pause_seconds = 0.0
        self._uplink.answered()
        self._uplink.trouble(self.what, None)
        self._sink.opened()

    async def _failed(self, error: ClusterError, client: ClusterClient | None) -> None:
        if isinstance(error, Expired):
            logger.info("stream of %s: %s; listing again", self.what, error)
            self._version = ""
        elif not self._failures:
            logger.warning("stream of %s is broken: %s", self.what, error)
        elif error.status is not None and self._failures >= _LIST_AFTER_FAILURES:
            self._version = ""  # it may be the place that is refused, as after the cluster was restored
        self._asked_pause_seconds = min(error.retry_after_seconds or 0.0, _LONGEST_ASKED_PAUSE_SECONDS)
        if error.status in _ALIVE:
            self._uplink.answered()
        elif not may_pass(error):
            self._uplink.trouble(self.what, str(error))
        self._broken()
        if error.status == 401 and client is not None:
            try:
                await self._uplink.reopen(client)
            except ClusterError as again:
                logger.warning("stream of %s: credentials cannot be read again: %s", self.what, again)

    def _broken(self) -> None:
        self.is_open = False
        self._failures += 1
        self._sink.broken()


def _pause_seconds(failures: int) -> float:
    longest = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2.0 ** (min(failures, 10) - 1))
    return longest * random.uniform(0.5, 1.0)
