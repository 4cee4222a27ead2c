"""Claims and pods in one snapshot, over random interleavings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_gpu_placement.engine import claims
from tests.property.claimed import SCRIPTS, claims_and_pods_are_counted_once, worst_by_trying

if TYPE_CHECKING:
    import pytest


@settings(max_examples=250, deadline=None, derandomize=True)
@given(SCRIPTS)
def test_claims_and_pods_are_counted_once(script: list[tuple[str, int, int, int]]) -> None:
    """Whatever was claimed, started, ended and seen before."""
    claims_and_pods_are_counted_once(script)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=4),
    st.lists(st.sampled_from((1, 2, 3, 4, 8)), max_size=4),
    st.integers(1, 8),
)
def test_unseen_pods_are_laid_in_the_worst_way(free: list[int], pods: list[int], size: int) -> None:
    """Searched exactly for few of them."""
    unseen = {gpus: pods.count(gpus) for gpus in pods}
    assert claims.worst_fit(free, size, unseen) == worst_by_trying(free, pods, size)


def test_many_unseen_pods_are_never_taken_too_lightly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are too many to search, the estimate is on the safe side."""
    monkeypatch.setattr(claims, "_MOST_STATES", 1)

    @settings(max_examples=150, deadline=None, derandomize=True)
    @given(
        st.lists(st.integers(0, 8), min_size=1, max_size=4),
        st.lists(st.sampled_from((1, 2, 4, 8)), max_size=4),
        st.integers(1, 8),
    )
    def law(free: list[int], pods: list[int], size: int) -> None:
        unseen = {gpus: pods.count(gpus) for gpus in pods}
        assert 0 <= claims.worst_fit(free, size, unseen) <= worst_by_trying(free, pods, size)

    law()
