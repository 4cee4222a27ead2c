"""Single calls to one cluster's API: bytes in and out, a time-out on everything, typed failures."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import aiohttp

from airflow_gpu_placement.clusters.errors import WIRE_ERRORS, from_answer, from_exception
from airflow_gpu_placement.clusters.turns import a_turn
from airflow_gpu_placement.exceptions import Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping

    from kubernetes_asyncio.client import ApiClient

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
_LARGE_BYTES = 2**20
"""Larger answers take a millisecond and more to put together."""


class Wire:
    """The connection pool of one cluster.

    :param api_client: owned from here on: :meth:`close` closes it.
    :param server: address of the API, for texts.
    """

    def __init__(self, api_client: ApiClient, server: str) -> None:
        self._server = server
        self._api = api_client
        self._closed = False
        self._asking: set[asyncio.Timeout] = set()
        self._reading: set[aiohttp.ClientResponse] = set()

    async def close(self) -> None:
        """Close every connection; calls under way and streams that are being read end with an error.

        The HTTP library would let them wait for ever. Nor is there a farewell, whose answer would be waited
        for on a connection that leads nowhere.
        """
        self._closed = True
        for limit in self._asking:
            limit.reschedule(asyncio.get_running_loop().time())
        for response in self._reading:
            response.content.set_exception(aiohttp.ClientConnectionError("this client was closed"))
        connector = self._api.rest_client.pool_manager.connector
        if connector is not None:
            await connector.close(abort_ssl=True)
        await self._api.close()

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> bytes:
        """Make one call and return the body of the answer."""
        answer, _ = await self.exchange(method, path, query, body)
        return answer

    async def exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> tuple[bytes, Mapping[str, str]]:
        """Make one call and return body and headers of the answer."""
        call = f"{method} {self._server}{path}"
        try:
            response = await self._request(method, path, query, body, READ_SECONDS)
            async with response:
                with self._read(response):
                    parts = [bytes(part) async for part in response.content.iter_any()]
        except WIRE_ERRORS as error:
            raise from_exception(call, error) from error
        if sum(map(len, parts)) < _LARGE_BYTES:
            answer = b"".join(parts)
        else:
            async with a_turn():
                answer = b"".join(parts)
        if not response.ok:
            raise from_answer(call, response.status, answer, response.headers)
        return answer, response.headers

    async def chunks(
        self,
        call: str,
        path: str,
        query: Mapping[str, str],
        idle_timeout_seconds: float | None,
        opened: Callable[[], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the body of a GET as it arrives.

        :param call: verb and URL, for texts.
        :param idle_timeout_seconds: silence after which the connection counts as dead; ``None``: never.
        :param opened: called once the server has accepted the call.
        """
        try:
            response = await self._request("GET", path, query, None, idle_timeout_seconds)
            async with response:
                if not response.ok:
                    raise from_answer(call, response.status, await response.read(), response.headers)
                if opened is not None:
                    opened()
                with self._read(response):
                    async for chunk in response.content.iter_any():
                        yield chunk
        except WIRE_ERRORS as error:
            raise from_exception(call, error) from error

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        read_seconds: float | None,
    ) -> aiohttp.ClientResponse:
        limits = aiohttp.ClientTimeout(
            total=None, connect=CONNECT_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=read_seconds
        )
        if self._closed:
            raise Unreachable(f"{method} {self._server}{path}: this client was closed")
        async with asyncio.timeout(None) as until_closed:
            self._asking.add(until_closed)
            try:
                response: aiohttp.ClientResponse = await self._api.call_api(
                    path,
                    method,
                    query_params=list((query or {}).items()),
                    header_params={"Accept": "application/json, */*", "Content-Type": "application/json"},
                    body=body,
                    auth_settings=["BearerToken"],
                    _preload_content=False,
                    _request_timeout=limits,
                )
            finally:
                self._asking.discard(until_closed)
        return response

    @contextlib.contextmanager
    def _read(self, response: aiohttp.ClientResponse) -> Iterator[None]:
        """Let :meth:`close` find a response while its body is being read."""
        self._reading.add(response)
        try:
            yield
        finally:
            self._reading.discard(response)
