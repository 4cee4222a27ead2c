"""Money that is promised to one request after the other."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.engine.budget import admit_in_order, covers


@pytest.mark.parametrize(
    ("left", "cost", "want"),
    [
        pytest.param(5.0, 5.0, True, id="to the last cent"),
        pytest.param(0.3 - 0.1 - 0.1, 0.1, True, id="sums of decimal amounts are a little off"),
        pytest.param(0.0, 0.0, True, id="what costs nothing is paid by nothing"),
        pytest.param(5.0, 5.0001, False, id="a hundredth of a cent too much"),
        pytest.param(-1.0, 0.0, False, id="more was spent than there was"),
    ],
)
def test_what_is_left_pays_or_does_not(left: float, cost: float, want: bool) -> None:
    """A price is compared as people count money."""
    assert covers(left, cost) is want


def test_none_relies_on_what_another_was_promised() -> None:
    """In order of arrival; a refusal keeps no later one out, and no limit refuses nobody."""
    found = admit_in_order(0.3, 0.0, [0.1, 0.25, 0.1, 0.1, 0.1])
    assert found.admitted == (True, False, True, True, False)
    assert found.spent_usd == pytest.approx(0.3)
    assert admit_in_order(None, 4.0, [1e9]).admitted == (True,)
