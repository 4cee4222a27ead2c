"""Quota in the cohort tree, by the arithmetic of Kueue's own scheduler."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_gpu_placement.engine.kueue import CohortQuota, QueueQuota, QuotaTree, admit_in_order


def queue(name: str, nominal: int, reserved: int = 0, **fields: Any) -> QueueQuota:
    """Build a queue in cohort ``c`` unless it says otherwise."""
    return QueueQuota(name=name, nominal=nominal, reserved=reserved, **{"cohort": "c", **fields})


def test_quota_that_was_lent_is_gone() -> None:
    """A queue that uses nothing has nothing available when another one borrowed it all."""
    tree = QuotaTree([queue("a", 8, 16), queue("b", 8)])
    assert tree.available_now() == {"a": 0, "b": 0}
    assert (tree.withheld("b"), set(tree.borrowers("b"))) == (8, {"a"})


def test_quota_lowered_below_use_is_never_negative() -> None:
    """Without a cohort there is nothing to borrow, and less than nothing is nothing."""
    assert QuotaTree([queue("a", 1, 3, cohort=None)]).available("a") == 0


@pytest.mark.parametrize(
    ("first", "second", "want"),
    [
        pytest.param({}, {}, 12, id="all that another does not use"),
        pytest.param({"borrowing_limit": 2}, {}, 6, id="a borrowing limit"),
        pytest.param({"borrowing_limit": 0}, {}, 4, id="no borrowing"),
        pytest.param({}, {"lending_limit": 3}, 7, id="a lending limit of the other"),
        pytest.param({}, {"lending_limit": 0}, 4, id="the other lends nothing"),
        pytest.param({}, {"active": False}, 12, id="a stopped queue goes on lending"),
        pytest.param({"active": False}, {}, 0, id="a stopped queue admits nothing"),
        pytest.param({}, {"cohort": "other"}, 4, id="another cohort"),
    ],
)
def test_what_can_be_borrowed(first: dict[str, Any], second: dict[str, Any], want: int) -> None:
    """Of two queues, the first with 4 of 8 reserved and the second with nothing."""
    assert QuotaTree([queue("a", 8, 4, **first), queue("b", 8, **second)]).available("a") == want


def test_a_lending_limit_keeps_the_rest_for_the_lender() -> None:
    """Only what is lent can be taken away, and the lender uses what it keeps first."""
    tree = QuotaTree([queue("a", 8, 11), queue("b", 8, 5, lending_limit=3)])
    assert tree.available_now() == {"a": 0, "b": 0}
    tree = QuotaTree([queue("a", 8, 11), queue("b", 8, 0, lending_limit=3)])
    assert tree.available_now() == {"a": 0, "b": 5}


def test_what_is_borrowed_is_told() -> None:
    """The part of what is available that is not the queue's own."""
    tree = QuotaTree([queue("a", 8, 4), queue("b", 8)])
    assert (tree.available("a"), tree.borrowing("a"), tree.potential("a")) == (12, 8, 16)


def test_limits_hold_at_every_level_of_the_tree() -> None:
    """A cohort has quota of its own, lends up to a limit and borrows up to a limit, like a queue."""
    tree = QuotaTree(
        [queue("a", 4, cohort="left"), queue("b", 4, cohort="right")],
        [
            CohortQuota(name="root", nominal=10),
            CohortQuota(name="left", parent="root", borrowing_limit=3),
            CohortQuota(name="right", parent="root", nominal=6, lending_limit=5),
        ],
    )
    assert tree.available("a") == 4 + 3
    assert tree.available("b") == 10 + (10 + 4)
    assert tree.potential("a") == 7


def test_cohorts_that_form_a_circle_admit_nothing() -> None:
    """Kueue leaves such queues out altogether; the others are not harmed."""
    tree = QuotaTree(
        [queue("a", 8, cohort="x"), queue("b", 8, cohort="free")],
        [CohortQuota(name="x", parent="y"), CohortQuota(name="y", parent="x")],
    )
    assert tree.available_now() == {"a": 0, "b": 8}
    assert tree.in_cycle("a")


def test_a_parent_needs_no_object() -> None:
    """A cohort that is only named is a flat one without quota of its own."""
    tree = QuotaTree(
        [queue("a", 2, cohort="x"), queue("b", 5, cohort="y")],
        [CohortQuota(name="x", parent="root"), CohortQuota(name="y", parent="root")],
    )
    assert tree.available("a") == 7


def test_arrivals_are_placed_one_after_the_other() -> None:
    """What is left in sum admits nothing."""
    found = admit_in_order({"w1": 10, "w2": 10}, [7, 7, 6, 3])
    assert found.placed == ("w1", "w2", None, "w1")
    assert found.left == {"w1": 0, "w2": 3}


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[QueueQuota], list[CohortQuota]]:
    """Draw a tree of cohorts with queues in them; use is drawn by :func:`filled`."""
    limits = st.one_of(st.none(), st.integers(0, 6))
    cohorts = []
    for index in range(draw(st.integers(1, 4))):
        parent = None if index == 0 else draw(st.sampled_from([f"c{one}" for one in range(index)]))
        cohorts.append(
            CohortQuota(
                name=f"c{index}",
                nominal=draw(st.integers(0, 6)),
                borrowing_limit=None if parent is None else draw(limits),
                lending_limit=None if parent is None else draw(limits),
                parent=parent,
            )
        )
    queues = [
        QueueQuota(
            name=f"q{index}",
            nominal=draw(st.integers(0, 8)),
            borrowing_limit=draw(limits),
            lending_limit=draw(limits),
            cohort=draw(st.sampled_from([one.name for one in cohorts])),
        )
        for index in range(draw(st.integers(1, 4)))
    ]
    for _ in range(draw(st.integers(0, 6))):
        name = draw(st.sampled_from([one.name for one in queues]))
        gpus = min(draw(st.integers(1, 6)), QuotaTree(queues, cohorts).available(name))
        queues = [with_more(one, gpus) if one.name == name else one for one in queues]
    return queues, cohorts


def with_more(one: QueueQuota, gpus: int) -> QueueQuota:
    """Return the queue with more reserved."""
    return QueueQuota(
        name=one.name,
        nominal=one.nominal,
        reserved=one.reserved + gpus,
        borrowing_limit=one.borrowing_limit,
        lending_limit=one.lending_limit,
        cohort=one.cohort,
    )


def allowed(queues: list[QueueQuota], cohorts: list[CohortQuota]) -> bool:
    """Judge the whole tree from its definition, without computing what is available anywhere.

    Every subtree asks its parent for what it uses beyond what it keeps to itself. No subtree may use more
    than its quota and its borrowing limit, and the root no more than all of its quota.
    """
    by_name = {one.name: one for one in cohorts}
    children: dict[str, list[Any]] = {one.name: [] for one in cohorts}
    for one in queues:
        children[one.cohort or ""].append(one)
    for cohort in cohorts:
        if cohort.parent is not None:
            children[cohort.parent].append(cohort)
    fine = True

    def visit(node: Any) -> tuple[int, int]:
        nonlocal fine
        quota, used = node.nominal, getattr(node, "reserved", 0)
        for child in children.get(node.name, ()) if node.name in by_name else ():
            lent, asked = visit(child)
            quota, used = quota + lent, used + asked
        is_root = isinstance(node, CohortQuota) and node.parent is None
        if is_root:
            fine = fine and used <= quota
            return 0, 0
        if node.borrowing_limit is not None:
            fine = fine and used <= quota + node.borrowing_limit
        kept = 0 if node.lending_limit is None else max(0, quota - node.lending_limit)
        return quota - kept, max(0, used - kept)

    for cohort in cohorts:
        if cohort.parent is None:
            visit(cohort)
    return fine


@settings(max_examples=300, deadline=None)
@given(trees())
def test_available_is_exactly_what_the_limits_allow(
    drawn: tuple[list[QueueQuota], list[CohortQuota]],
) -> None:
    """Taking all that is available breaks no limit, one more breaks one; the potential is never exceeded."""
    queues, cohorts = drawn
    tree = QuotaTree(queues, cohorts)
    assert allowed(queues, cohorts)
    for one in queues:
        available = tree.available(one.name)
        others = [other for other in queues if other.name != one.name]
        assert allowed([*others, with_more(one, available)], cohorts)
        assert not allowed([*others, with_more(one, available + 1)], cohorts)
        assert one.reserved + available <= tree.potential(one.name)
