"""Wait until a moment, then decide again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_gpu_placement.triggers.remote_job import SHORTEST_WATCH_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class PauseTrigger(BaseTrigger):
    """Yield one event at a moment.

    It has no ``on_kill``: while a task waits for a pool, nothing of this try exists on any cluster, and the
    end of earlier remote jobs was asked for before the wait began. Arguments of a later version of the
    package are left out.

    :param until: the moment as ISO 8601 text with a time zone, so that a restarted triggerer does not wait
        anew.
    """

    def __init__(self, until: str, **_later: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # untyped in Airflow
        self.until = until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to make this trigger again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {"until": self.until}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Sleep until the moment has passed, and never so shortly that Airflow gets confused by it."""
        left = (datetime.fromisoformat(self.until) - datetime.now(UTC)).total_seconds()
        await asyncio.sleep(max(left, SHORTEST_WATCH_SECONDS))
        event = {"version": 1, "kind": "decide_again"}
        yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # untyped in Airflow
