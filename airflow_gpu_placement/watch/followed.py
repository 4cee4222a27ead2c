"""Remote jobs that somebody follows, and how their followers are woken."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Job, Pod


_NOBODY: frozenset[str] = frozenset()  # each empty one is an object of its own


class JobRef(msgspec.Struct, frozen=True):
    """One remote job: a later one of the same name is another."""

    namespace: str
    name: str
    uid: str


class Bell:
    """Wakes the one task that waits for it, also when it is rung before."""

    __slots__ = ("_news", "_waiting")

    def __init__(self) -> None:
        self._news = False
        self._waiting: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Say that something may have changed."""
        self._news = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def changed(self, within_seconds: float | None = None) -> None:
        """Wait until something may have changed since the last call.

        :param within_seconds: return after that long in any case; ``None``: only then.
        """
        if not self._news:
            loop = asyncio.get_running_loop()
            self._waiting = loop.create_future()
            alarm = None if within_seconds is None else loop.call_later(within_seconds, self.wake)
            try:
                await self._waiting
            finally:
                self._waiting = None
                if alarm is not None:
                    alarm.cancel()
        self._news = False


class Subscription(Bell):
    """One follower of one remote job."""

    __slots__ = ("ref",)

    def __init__(self, ref: JobRef) -> None:
        super().__init__()
        self.ref = ref


class Followed:
    """A remote job that somebody follows, with what is remembered of it beyond what exists."""

    __slots__ = (
        "boot_ids",
        "deleted",
        "failing_since",
        "gone",
        "left",
        "nodes",
        "ref",
        "subscriptions",
        "vanished",
    )

    def __init__(self, ref: JobRef) -> None:
        self.ref = ref
        self.subscriptions: list[Subscription] = []
        self.nodes: tuple[str, ...] = ()
        self.gone = False
        self.deleted: Job | None = None  # its last state, when its deletion was watched
        self.boot_ids: dict[str, str] = {}  # node name -> boot id when the job was first seen there
        self.vanished: dict[str, Pod] = {}
        self.failing_since: float | None = None
        self.left: frozenset[str] = _NOBODY  # uids of pods that its suspension took away

    def wake(self) -> None:
        """Wake everybody who follows the job."""
        for subscription in self.subscriptions:
            subscription.wake()
