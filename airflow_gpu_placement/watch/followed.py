"""Remote jobs that somebody follows, and how their followers are woken."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Job, Pod


class JobRef(msgspec.Struct, frozen=True):
    """One remote job: a later one of the same name is another."""

    namespace: str
    name: str
    uid: str


class Subscription:
    """One follower of one remote job."""

    def __init__(self, ref: JobRef) -> None:
        self.ref = ref
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Say that something about the job may have changed."""
        self._event.set()

    async def changed(self) -> None:
        """Wait until something may have changed since the last call."""
        await self._event.wait()
        self._event.clear()


class Followed:
    """A remote job that somebody follows, with what is remembered of it beyond what exists."""

    def __init__(self, ref: JobRef) -> None:
        self.ref = ref
        self.subscriptions: set[Subscription] = set()
        self.nodes: frozenset[str] = frozenset()
        self.gone = False
        self.deleted: Job | None = None  # its last state, when its deletion was watched
        self.boot_ids: dict[str, str] = {}  # node name -> boot id when the job was first seen there
        self.doubtful = True  # neither seen by a stream nor asked for yet: no stream may say that it is gone
        self.vanished: dict[str, Pod] = {}
        self.failing_since: float | None = None
