"""The law about two remote jobs of one logical task, on lives written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.remote_jobs import Moment, NodeLife, RemoteJob, violations

#: A node that renews its Lease every second from 0 to 60 s.
ALIVE = {"n": NodeLife([float(second) for second in range(61)])}


def job(version: int, *, fence: int, at: float, **facts: Any) -> RemoteJob:
    """Return a remote job of the one task, on node ``n``."""
    return RemoteJob(
        uid=f"u{version}",
        cluster="c",
        name=f"gp-{version}",
        dag_id="d",
        run_id="r",
        task=facts.pop("task", "t"),
        attempt_id=f"a{version}",
        fence=fence,
        pool="p",
        created=Moment(version, at),
        nodes={"n"},
        **facts,
    )


SECOND = job(50, fence=2, at=30.0)


@pytest.mark.parametrize(
    ("first", "nodes"),
    [
        pytest.param(job(10, fence=1, at=5.0, closed=Moment(40, 20.0)), ALIVE, id="over"),
        pytest.param(job(10, fence=1, at=5.0, deletion=Moment(49, 29.9)), ALIVE, id="deletion asked for"),
        pytest.param(job(10, fence=1, at=5.0), {"n": NodeLife([5.0, 26.0])}, id="silent node"),
        pytest.param(job(10, fence=1, at=5.0), {"n": NodeLife(ALIVE["n"].renewals, [[20.0]])}, id="no node"),
        pytest.param(
            job(10, fence=1, at=5.0, closed=Moment(40, 20.0), running_at=[19.8, 30.1]),
            ALIVE,
            id="one look late",
        ),
        pytest.param(job(10, fence=1, at=5.0, task="other"), ALIVE, id="another task"),
    ],
)
def test_the_law_is_kept(first: RemoteJob, nodes: dict[str, NodeLife]) -> None:
    """An older job that is over or given up does not matter."""
    assert violations([SECOND, first], nodes) == []


@pytest.mark.parametrize(
    ("first", "nodes", "told"),
    [
        pytest.param(job(10, fence=1, at=5.0), ALIVE, "live and not given up", id="live"),
        pytest.param(
            job(10, fence=1, at=5.0, deletion=Moment(51, 30.1)), ALIVE, "not given up", id="deleted too late"
        ),
        pytest.param(
            job(10, fence=1, at=5.0, closed=Moment(51, 30.1)), ALIVE, "closed at 30.10 s", id="ended too late"
        ),
        pytest.param(
            job(10, fence=1, at=5.0, closed=Moment(40, 20.0), running_at=[45.0]),
            ALIVE,
            "live",
            id="still runs",
        ),
        pytest.param(
            job(10, fence=1, at=5.0),
            {"n": NodeLife(ALIVE["n"].renewals, [[10.0, 20.0]])},
            "live",
            id="node back in time",
        ),
        pytest.param(
            job(10, fence=2, at=5.0, closed=Moment(40, 20.0)), ALIVE, "no smaller fence", id="same fence"
        ),
    ],
)
def test_a_broken_law_is_told_with_times(first: RemoteJob, nodes: dict[str, NodeLife], told: str) -> None:
    """Each breach is one line that names both jobs."""
    (line,) = violations([first, SECOND], nodes)
    assert told in line
    assert "gp-10 (fence" in line
    assert "gp-50 (fence 2, p) was created, at 30.00 s" in line


def test_an_order_by_resource_version_needs_no_clock() -> None:
    """The event of another cluster may arrive late: what counts is its version."""
    late = job(10, fence=1, at=30.4, deletion=Moment(20, 30.6))
    assert violations([SECOND, late], ALIVE) == []
