"""What cannot be read becomes a gap, and takes nothing else along."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.exceptions import (
    ClusterError,
    ConnectionMissing,
    Forbidden,
    NotFound,
    Unreachable,
    WrongCluster,
)
from airflow_gpu_placement.model.pool import ClusterRef, GpuPool
from airflow_gpu_placement.model.signals import GapKind
from airflow_gpu_placement.signals.collect import collect, gap_of

if TYPE_CHECKING:
    from airflow_gpu_placement.clusters.client import ClusterClient

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionMissing("x"), GapKind.CONNECTION_MISSING),
        (WrongCluster("x"), GapKind.WRONG_CLUSTER),
        (Forbidden("x", status=401), GapKind.UNAUTHORIZED),
        (Forbidden("x", status=403), GapKind.FORBIDDEN),
        (Unreachable("x"), GapKind.UNREACHABLE),
        (Unreachable("x", status=503), GapKind.UNREACHABLE),
        (NotFound("x", status=404), GapKind.INVALID),
        (ClusterError("x", status=500), GapKind.INVALID),
    ],
)
def test_each_error_has_its_gap(error: ClusterError, kind: GapKind) -> None:
    """And keeps its text."""
    gap = gap_of(error)
    assert (gap.kind, gap.message) == (kind, "x")


def test_no_pools_are_no_signals() -> None:
    """An empty catalogue is not an error here."""

    async def never(_: str, __: str | None) -> ClusterClient:
        raise AssertionError("nothing is opened")

    snapshot = asyncio.run(collect([], never, deadline_seconds=1, clock=lambda: NOW))
    assert snapshot.pools == {}
    assert snapshot.taken_at == NOW


def test_a_cluster_is_opened_once_for_all_of_its_pools() -> None:
    """Another context of the same connection is another cluster; the order of the pools is kept."""
    opened: list[tuple[str, str | None]] = []

    async def refuse(conn_id: str, context: str | None) -> ClusterClient:
        opened.append((conn_id, context))
        raise Unreachable(f"{conn_id}/{context} is down")

    pools = [
        GpuPool(name="z", cluster=ClusterRef(kubernetes_conn_id="a")),
        GpuPool(name="y", cluster=ClusterRef(kubernetes_conn_id="a")),
        GpuPool(name="x", cluster=ClusterRef(kubernetes_conn_id="a", context="other")),
    ]
    snapshot = asyncio.run(collect(pools, refuse, deadline_seconds=5, clock=lambda: NOW))
    assert sorted(opened, key=str) == [("a", "other"), ("a", None)]
    assert list(snapshot.pools) == ["z", "y", "x"]
    assert [signals.gap and signals.gap.message for signals in snapshot.pools.values()] == [
        "a/None is down",
        "a/None is down",
        "a/other is down",
    ]


def test_the_deadline_costs_once_and_cancels() -> None:
    """Clusters that hang are given up together, and what they were doing is cancelled."""
    cancelled: list[str] = []

    async def hang(conn_id: str, _: str | None) -> ClusterClient:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(conn_id)
            raise
        raise AssertionError("never set")

    pools = [GpuPool(name=name, cluster=ClusterRef(kubernetes_conn_id=name)) for name in ("a", "b", "c")]

    async def timed() -> tuple[float, set[GapKind]]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        snapshot = await collect(pools, hang, deadline_seconds=0.2, clock=lambda: NOW)
        return loop.time() - began, {one.gap.kind for one in snapshot.pools.values() if one.gap}

    took, kinds = asyncio.run(timed())
    assert took < 0.5
    assert kinds == {GapKind.TIMEOUT}
    assert sorted(cancelled) == ["a", "b", "c"]
