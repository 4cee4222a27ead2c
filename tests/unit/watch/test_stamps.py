"""Moments of log lines from nodes whose clocks are right and wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_gpu_placement.model.kube import (
    ContainerState,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodStatus,
    Running,
    Terminated,
)
from airflow_gpu_placement.watch.stamps import NodeClock

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CREATED = "2026-01-01T11:00:00Z"


def clock(state: ContainerState, created: str | None = CREATED) -> NodeClock:
    """Return the clock of a node by a pod of its."""
    status = PodStatus(container_statuses=(ContainerStatus(name="training", state=state),))
    return NodeClock(Pod(metadata=ObjectMeta(creation_timestamp=created), status=status))


def micros(moment: datetime) -> int:
    """Return microseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize("started", ["2026-01-01T11:00:01Z", "2026-01-01T10:59:58Z", None])
@pytest.mark.parametrize("ago_seconds", [3600.0, 0.000001, 0.0, -4.0])
def test_a_line_has_the_moment_at_which_it_was_written(started: str | None, ago_seconds: float) -> None:
    """Whenever it is read, and when the clocks of two machines differ a little."""
    written = NOW - timedelta(seconds=ago_seconds)
    node = clock(ContainerState(running=Running(started_at=started)))
    assert node.shown(micros(written), NOW) == written


def test_a_line_from_the_future_is_told_now() -> None:
    """The clock of its node is ahead by hours."""
    node = clock(ContainerState(running=Running(started_at="2026-01-01T15:00:00Z")))
    assert node.shown(micros(NOW + timedelta(hours=3)), NOW) == NOW


@pytest.mark.parametrize(
    "state",
    [
        ContainerState(running=Running(started_at="2026-01-01T08:00:00Z")),
        ContainerState(terminated=Terminated(started_at="2026-01-01T08:00:00Z")),
    ],
    ids=["runs", "has ended"],
)
def test_a_pod_that_began_before_it_was_made_tells_its_lines_now(state: ContainerState) -> None:
    """The clock of its node is behind by hours; also of the lines that come later than its creation."""
    node = clock(state)
    assert node.shown(micros(NOW - timedelta(minutes=1)), NOW) == NOW
    assert node.shown(micros(NOW - timedelta(hours=3)), NOW) == NOW


def test_a_pod_of_unknown_age_is_believed() -> None:
    """Nothing speaks against its node."""
    node = clock(ContainerState(running=Running(started_at=CREATED)), created=None)
    assert node.shown(micros(NOW - timedelta(hours=9)), NOW) == NOW - timedelta(hours=9)
