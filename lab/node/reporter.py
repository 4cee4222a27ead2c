"""Writes one pod's status to the API server, again and again until it is there."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

from lab.node.api import CONNECTION_ERRORS, Api, ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

LOG = logging.getLogger(__name__)
RETRY_SECONDS = 0.5


class Reporter:
    """Level-driven: many changes may end in one write, and the last one is always written."""

    def __init__(self, api: Api, path: str, uid: str, build: Callable[[], dict[str, Any]]) -> None:
        self._api = api
        self._path = path
        self._uid = uid
        self._build = build
        self._asked = 0
        self._written = 0
        self._wake = asyncio.Event()
        self._progress = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.gone = False  # the API server does not know this pod any more

    def touch(self) -> None:
        """Say that the status may have changed."""
        self._asked += 1
        self._wake.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def flush(self) -> None:
        """Wait until what is known now has been written, or the pod is gone."""
        wanted = self._asked
        while self._written < wanted and not self.gone:
            self._progress.clear()
            await self._progress.wait()

    async def close(self) -> None:
        """Stop writing."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def forget(self) -> None:
        """Say that the pod's object is gone, so that there is nothing to write to."""
        self.gone = True
        self._progress.set()

    async def _run(self) -> None:
        while not self.gone:
            await self._wake.wait()
            self._wake.clear()
            asked = self._asked
            if await self._write():
                self._written = asked
                self._progress.set()
            else:
                await asyncio.sleep(RETRY_SECONDS)
                self._wake.set()

    async def _write(self) -> bool:
        if self.gone:
            return True
        try:
            await self._api.patch(self._path, {"metadata": {"uid": self._uid}, "status": self._build()})
        except ApiError as error:
            if error.status == 404 or (error.status == 422 and "metadata.uid" in str(error)):
                LOG.info("%s is gone, or another pod has its name: %s", self._path, error)
                self.forget()
                return True
            LOG.warning("cannot write %s: %s", self._path, error)
            return False
        except CONNECTION_ERRORS as error:
            LOG.warning("cannot write %s: %s", self._path, error)
            return False
        return True
