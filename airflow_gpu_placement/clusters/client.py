"""A cluster's API as raw bytes and typed subsets, with a time-out on every call and typed failures."""

from __future__ import annotations

import asyncio
import contextlib
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import quote

import msgspec

from airflow_gpu_placement.clusters.errors import from_event
from airflow_gpu_placement.clusters.lines import LineSplitter
from airflow_gpu_placement.clusters.turns import a_turn
from airflow_gpu_placement.clusters.wire import Wire
from airflow_gpu_placement.exceptions import ClusterError, WrongCluster
from airflow_gpu_placement.model.kube import ListPage, ObjectMeta, Status, Struct

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
    from datetime import datetime

    from kubernetes_asyncio.client import ApiClient

_READ_TRIES = 3
_LONGEST_WAIT_SECONDS = 5.0
_LONGEST_LOG_PIECE = 16 * 1024
_LIST_RESTARTS = 2

T = TypeVar("T")

_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {}


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch; the object is decoded by whoever knows its type."""

    type: str
    object: msgspec.Raw

    @property
    def resource_version(self) -> str:
        """Version that the watch has reached.

        A bookmark tells nothing else: it is an empty object of its kind, whose required lists are ``null``.
        """
        return msgspec.json.decode(self.object, type=_Named).metadata.resource_version


class _Named(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class ClusterClient:
    """One cluster's API.

    Reads that the server turns away with a ``Retry-After`` are repeated a few times; writes never are, since
    only their caller knows whether doing them twice is harmless.

    :param api_client: owned from here on: :meth:`close` closes it.
    :param server: address of the API, for texts.
    """

    def __init__(self, api_client: ApiClient, *, server: str) -> None:
        self.server = server
        self._wire = Wire(api_client, server)
        self._uid: str | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; streams that are being read end with an error."""
        await self._wire.close()

    async def uid(self) -> str:
        """Return what identifies this cluster: the uid of its namespace ``kube-system``."""
        if self._uid is None:
            self._uid = (await self.get_as("/api/v1/namespaces/kube-system", _Named)).metadata.uid
        return self._uid

    async def check_uid(self, expected: str | None, conn_id: str) -> None:
        """Refuse to go on in another cluster than the expected one.

        :param expected: ``None``: any cluster will do.
        :param conn_id: Airflow connection that led here, for the text.
        :raises WrongCluster: another cluster answers.
        """
        if expected is not None and await self.uid() != expected:
            raise WrongCluster(
                f"connection {conn_id!r} leads to cluster {self._uid} ({self.server}), not to {expected}"
            )

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return the body of a GET."""
        for left in reversed(range(_READ_TRIES)):
            try:
                return await self._wire.call("GET", path, query)
            except ClusterError as error:
                if not left or (error.retry_after_seconds is None and error.status != 429):
                    raise
                await asyncio.sleep(min(error.retry_after_seconds or 1.0, _LONGEST_WAIT_SECONDS))
        raise AssertionError("unreachable: the last try returns or raises")

    async def get_as(self, path: str, type_: type[T], query: Mapping[str, str] | None = None) -> T:
        """Return the body of a GET as a typed subset."""
        return self._decoded(path, await self.get(path, query), type_)

    async def server_time(self) -> datetime | None:
        """Return the time, to the second, that the server put on an answer; ``None``: it put none."""
        _, headers = await self._wire.exchange("GET", "/version")
        date = headers.get("Date")
        return None if date is None else parsedate_to_datetime(date)

    async def pages(
        self, path: str, item_type: type[T], query: Mapping[str, str] | None = None, *, limit: int = 500
    ) -> AsyncIterator[ListPage[T]]:
        """Yield a list page by page; all pages show the state at the first one."""
        token = ""
        while True:
            paging = {"limit": str(limit)} | ({"continue": token} if token else {})
            body = await self.get(path, {**(query or {}), **paging})
            async with a_turn():
                page: ListPage[T] = self._decoded(path, body, ListPage[item_type])  # type: ignore[valid-type]  # known at run time only
            yield page
            token = page.metadata.continue_
            if not token:
                return

    async def list_all(
        self, path: str, item_type: type[T], query: Mapping[str, str] | None = None
    ) -> tuple[tuple[T, ...], str]:
        """Return every item of a list and the resource version to watch from.

        A list that grows too old between two of its pages is begun again.
        """
        for left in reversed(range(_LIST_RESTARTS + 1)):
            items: list[T] = []
            version = ""
            try:
                async for page in self.pages(path, item_type, query):
                    items += page.items
                    version = page.metadata.resource_version
            except ClusterError as error:
                if error.status != HTTPStatus.GONE or not left:
                    raise
            else:
                return tuple(items), version
        raise AssertionError("unreachable: the last try returns or raises")

    async def create(self, path: str, body: Mapping[str, Any]) -> bytes:
        """POST an object once and return what the server made of it."""
        return await self._wire.call("POST", path, body=body)

    async def delete(self, path: str, *, uid: str | None = None, propagation: str = "Foreground") -> None:
        """DELETE an object; with ``uid`` only if it is still that one (else ``Conflict``)."""
        options: dict[str, Any] = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": propagation,
        }
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        await self._wire.call("DELETE", path, body=options)

    async def watch(
        self,
        path: str,
        query: Mapping[str, str],
        *,
        idle_timeout_seconds: float,
        opened: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield the events of a watch until the server ends it.

        :param query: without ``watch``; ``resourceVersion`` and ``timeoutSeconds`` are the caller's.
        :param idle_timeout_seconds: silence after which the connection counts as dead (``Unreachable``).
        :param opened: called once the server has accepted the watch.
        :raises Expired: the resource version is too old.
        """
        call = f"WATCH {self.server}{path}"
        decoder = msgspec.json.Decoder(WatchEvent)
        splitter = LineSplitter()
        chunks = self._wire.chunks(call, path, {**query, "watch": "true"}, idle_timeout_seconds, opened)
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                for line in splitter.feed(chunk):
                    try:
                        event = decoder.decode(line)
                        if event.type == "ERROR":
                            raise from_event(call, msgspec.json.decode(event.object, type=Status))
                    except msgspec.MsgspecError as error:
                        raise ClusterError(f"{call}: not an event ({error}): {line[:200]!r}") from error
                    yield event

    async def log(
        self,
        namespace: str,
        pod: str,
        container: str,
        query: Mapping[str, str] | None = None,
        *,
        idle_timeout_seconds: float | None = None,
        unfinished: bool = True,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a container's log, without line ends; very long lines come in pieces.

        :param query: ``follow``, ``sinceTime``, ``tailLines``, ``timestamps`` as in the API.
        :param idle_timeout_seconds: ``None``: a container may be silent as long as it likes.
        :param unfinished: whether a last line without an end counts; where a stream may have been cut it
            should not.
        """
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/log"
        call = f"GET {self.server}{path}"
        splitter = LineSplitter(_LONGEST_LOG_PIECE)
        chunks = self._wire.chunks(
            call, path, {"container": container, **(query or {})}, idle_timeout_seconds
        )
        async with contextlib.aclosing(chunks):
            async for chunk in chunks:
                for line in splitter.feed(chunk):
                    yield line
        if unfinished:
            for line in splitter.flush():
                yield line

    def _decoded(self, path: str, body: bytes, type_: type[T]) -> T:
        try:
            decoded: T = _decoder(type_).decode(body)
        except msgspec.MsgspecError as error:
            raise ClusterError(
                f"GET {self.server}{path}: an answer of an unexpected shape ({error})"
            ) from error
        return decoded


def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    if type_ not in _DECODERS:
        _DECODERS[type_] = msgspec.json.Decoder(type_)
    return _DECODERS[type_]
