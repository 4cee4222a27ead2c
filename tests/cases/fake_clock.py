"""How long it takes to read all clusters when some never answer, on a clock that jumps instead of waiting."""

from __future__ import annotations

import asyncio
import selectors
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.exceptions import Unreachable
from airflow_gpu_placement.model.pool import ClusterRef, GpuPool
from airflow_gpu_placement.signals.collect import collect

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class _JumpingSelector(selectors.DefaultSelector):
    """Tells the loop how long it would have waited, and does not wait."""

    def __init__(self, jump: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; when nothing is, let the time pass at once."""
        ready = super().select(0)
        if not ready and timeout:
            self._jump(timeout)
        return ready


class _JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while it has nothing to do."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_JumpingSelector(self._pass))
        self.set_default_executor(_SameThread(max_workers=1))

    def _pass(self, seconds: float) -> None:
        self._now += seconds

    def time(self) -> float:
        """Return the seconds that have passed."""
        return self._now


class _SameThread(ThreadPoolExecutor):
    """Runs at once what would go to a thread: another thread knows nothing of our time."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run and return a future that is done."""
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def seconds_to_read(answering: Collection[str], silent: Collection[str], *, timeout_seconds: float) -> float:
    """Return the seconds until all clusters are read or given up.

    :param answering: clusters that refuse at once, which is an answer.
    :param silent: clusters that never answer.
    :param timeout_seconds: how long one may take.
    """

    async def open_cluster(conn_id: str, _: str | None) -> Any:
        if conn_id in silent:
            await asyncio.Event().wait()
        raise Unreachable(f"{conn_id} refuses")

    async def read() -> float:
        pools = [
            GpuPool(name=name, cluster=ClusterRef(kubernetes_conn_id=name)) for name in (*answering, *silent)
        ]
        await collect(
            pools,
            open_cluster,
            deadline_seconds=timeout_seconds,
            clock=lambda: datetime(2026, 1, 5, tzinfo=UTC),
        )
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=_JumpingLoop) as runner:
        return runner.run(read())
