"""Silence is measured by our own clock, from what we ourselves saw change."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.model.kube import Lease, LeaseSpec, ObjectMeta
from airflow_gpu_placement.watch.leases import LeaseClocks
from tests.unit.watch.store_objects import Now


def lease(name: str, renewed: int = 0, duration: int | None = 40) -> Lease:
    """Return a Lease; the number only has to differ to be a renewal."""
    spec = LeaseSpec(lease_duration_seconds=duration, renew_time=f"1999-01-01T00:00:{renewed:02}.000000Z")
    return Lease(metadata=ObjectMeta(name=name), spec=spec)


def clocks(*names: str, ready: tuple[str, ...] | None = None) -> tuple[LeaseClocks, Now]:
    """Return the clocks of some nodes that were just listed, all ready unless said otherwise."""
    now = Now(1000.0)
    made = LeaseClocks(now)
    made.listed([lease(name) for name in names], names if ready is None else ready)
    return made, now


def test_only_a_changed_lease_is_a_sign_of_life() -> None:
    """What the stamp says does not matter, however old it looks; that it changes does."""
    made, now = clocks("a")
    now.at += 8
    made.renewed(lease("a"))
    assert made.silent_seconds("a") == 8
    made.renewed(lease("a", renewed=1))
    assert made.silent_seconds("a") == 0


@pytest.mark.parametrize(("duration", "renew_seconds"), [(40, 10), (4, 1), (None, 10), (0, 10)])
def test_the_period_is_a_quarter_of_the_duration(duration: int | None, renew_seconds: float) -> None:
    """As a kubelet does it."""
    made = LeaseClocks(Now())
    made.listed([lease("a", duration=duration)], ["a"])
    assert made.renew_seconds("a") == renew_seconds
    assert made.renew_seconds("unknown") == 10


def test_being_heard_again_is_told_once() -> None:
    """Only a node that was overdue is news."""
    made, now = clocks("a")
    now.at += 19
    assert made.renewed(lease("a", renewed=1)) is False
    now.at += 21
    assert made.is_overdue("a")
    assert made.renewed(lease("a", renewed=2)) is True
    assert made.renewed(lease("a", renewed=3)) is False


def test_while_we_cannot_listen_nobody_gets_more_silent() -> None:
    """A broken stream stops the clocks; a reopened one gives every node a full fresh interval."""
    made, now = clocks("a")
    now.at += 15
    made.deaf()
    now.at += 300
    made.deaf()
    assert made.silent_seconds("a") == 15
    made.listening(["a"])
    assert made.silent_seconds("a") == 0
    now.at += 7
    made.listening(["a"])
    assert made.silent_seconds("a") == 7


def test_a_failure_is_compared_with_silence_since_we_listen_again() -> None:
    """A fresh interval is not a sign of life: it must not clear a node of a failure before it."""
    made, now = clocks("a")
    failed_at = now.at
    now.at += 30
    assert made.seconds_since(failed_at) == 30
    made.deaf()
    made.listening(["a"])
    now.at += 3
    assert made.silent_seconds("a") == 3
    assert made.seconds_since(failed_at) == 3


def test_nodes_that_fall_silent_together_are_counted() -> None:
    """Three of four within a moment is not the fault of one node."""
    made, now = clocks("a", "b", "c", "d")
    now.at += 26
    made.renewed(lease("d", renewed=1))
    assert made.stale_together(["a"]) == (3, 0.75)
    assert made.stale_together(["d"]) == (0, 0.0)


def test_a_node_alone_is_alone() -> None:
    """Its peers renew."""
    made, now = clocks("a", "b", "c", "d")
    for beat in range(1, 4):
        now.at += 9
        for name in "bcd":
            made.renewed(lease(name, renewed=beat))
    assert made.stale_together(["a", "b"]) == (1, 0.25)


def test_the_dead_of_yesterday_do_not_count() -> None:
    """Machines that were off before, or long before, say nothing about what happens now."""
    made, now = clocks("off-1", "off-2", "old", "a", "b", ready=("old", "a", "b"))
    for beat in range(1, 12):
        now.at += 9
        for name in "ab":
            made.renewed(lease(name, renewed=beat))
    now.at += 9
    made.renewed(lease("b", renewed=20))
    now.at += 17
    made.renewed(lease("b", renewed=21))
    assert made.stale_together(["a"]) == (1, 0.5)


def test_when_nobody_is_heard_it_is_not_one_nodes_fault() -> None:
    """All nodes called not ready and none renews since we listen: the cluster is at fault."""
    made, now = clocks("a", "b", "c", ready=())
    now.at += 60
    assert made.stale_together(["a"]) == (3, 1.0)


def test_a_node_without_a_lease_is_not_silent() -> None:
    """Never seen, or removed."""
    made, now = clocks("a")
    now.at += 60
    made.removed("a")
    assert made.silent_seconds("a") == made.silent_seconds("b") == 0
    made.renewed(lease("b"))
    now.at += 5
    assert made.silent_seconds("b") == 5


def test_what_was_not_confirmed_is_not_held_against_a_node() -> None:
    """When it turns out that no renewal could be received, the silence ends at the last one that was."""
    made, now = clocks("a", "b")
    now.at += 4
    made.renewed(lease("b", renewed=1))
    now.at += 30
    assert made.unconfirmed_seconds() == 30
    assert made.silent_seconds("a") == 34
    made.deaf(since_heard=True)
    assert made.is_deaf
    assert (made.silent_seconds("a"), made.silent_seconds("b")) == (4, 0)
    made.listening(["a", "b"])
    assert made.unconfirmed_seconds() == 0
    now.at += 20
    made.confirmed()
    assert made.unconfirmed_seconds() == 0
    assert made.silent_seconds("a") == 20


def test_many_who_ask_within_a_moment_get_one_count() -> None:
    """And whoever is heard again is counted out at once."""
    names = [f"n{i}" for i in range(10)]
    made, now = clocks(*names)
    now.at += 25
    assert made.stale_together(["n0"]) == (10, 1.0)
    now.at += 0.1
    made.renewed(lease("n1", renewed=1))
    assert made.stale_together(["n0"]) == (9, 0.9)
    now.at += 20
    assert made.stale_together(["n0"]) == (9, 0.9)
    now.at += 5
    assert made.stale_together(["n0"]) == (10, 1.0)


def test_a_moment_of_doubt_does_not_start_the_clocks_anew() -> None:
    """Else a slow cluster would never lose a node: the clock stands still for that moment alone."""
    made, now = clocks("a")
    now.at += 60
    made.confirmed()
    now.at += 5
    made.deaf(since_heard=True)
    now.at += 3
    made.heard_again(["a"])
    assert made.silent_seconds("a") == 60
    now.at += 4
    assert made.silent_seconds("a") == 64
    made.deaf(since_heard=True)
    now.at += 30
    made.heard_again(["a"])
    assert made.silent_seconds("a") == 0
    made.heard_again(["a"])
    assert not made.is_deaf
