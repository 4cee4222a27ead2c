"""The agent's client of the API server: plain REST."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lab.node.link import Link

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
REQUEST_SECONDS = 15.0
WATCH_SECONDS = 240  # the server ends a watch after this time, and the client opens the next
SILENCE_SECONDS = 100.0  # the server sends a bookmark each minute; longer silence means a dead connection

CONNECTION_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason


class Api:
    """Requests to one API server with one token."""

    def __init__(self, server: str, ca_file: str, token: str, link: Link) -> None:
        self._server = server
        self._headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._tls = ssl.create_default_context(cafile=ca_file)
        self._session: aiohttp.ClientSession | None = None
        self._link = link

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The HTTP session, opened when it is first used."""
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._tls, limit=16)
            timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
            self._session = aiohttp.ClientSession(connector=connector, headers=self._headers, timeout=timeout)
        return self._session

    async def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> dict[str, Any]:
        """Send one request and return the object that comes back."""
        data = None if body is None else json.dumps(body)
        headers = {} if body is None else {"Content-Type": content_type}
        async with (
            self._link.carry(REQUEST_SECONDS),
            self.session.request(method, self._server + path, data=data, headers=headers) as response,
        ):
            text = await response.text()
            if response.status >= 400:
                raise _error(response.status, text)
            answer: dict[str, Any] = json.loads(text)
            return answer

    async def get(self, path: str) -> dict[str, Any]:
        """Read one object or list."""
        return await self.request("GET", path)

    async def patch(self, path: str, body: object, content_type: str = STRATEGIC) -> dict[str, Any]:
        """Change a part of an object."""
        return await self.request("PATCH", path, body, content_type=content_type)

    async def watch(self, path: str, version: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Yield (type, object) for each change after a version, until the server ends the stream."""
        query = (
            f"&watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={version}"
        )
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_SECONDS, sock_read=SILENCE_SECONDS)
        async with (
            self._link.carry(REQUEST_SECONDS),
            self.session.get(self._server + path + query, timeout=timeout) as response,
        ):
            if response.status != 200:
                raise _error(response.status, await response.text())
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise _error(event["object"].get("code", 500), json.dumps(event["object"]))
                    yield event["type"], event["object"]


def _error(status: int, text: str) -> ApiError:
    try:
        answer = json.loads(text)
        return ApiError(status, answer.get("reason", ""), answer.get("message", text))
    except (ValueError, AttributeError):
        return ApiError(status, "", text.strip())


async def pause(event: asyncio.Event, seconds: float | None) -> None:
    """Wait for an event, but not longer than some seconds if any are given."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
