"""Numbers that are compared in a sentence."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.engine.amounts import apart, deadline_words
from airflow_gpu_placement.model.decision import Setting
from airflow_gpu_placement.model.money import Tenant
from tests.unit.engine.builders import judged, verdict_of


@pytest.mark.parametrize(
    ("one", "other", "form", "want"),
    [
        pytest.param(8.5, 8.0, (), ("8.50", "8.00"), id="different at once"),
        pytest.param(8.0001, 8.0, (), ("8.0001", "8.0000"), id="different later"),
        pytest.param(0.1 + 0.2, 0.3, (6, "g"), ("0.30000000000000004", "0.29999999999999999"), id="at last"),
        pytest.param(1.12345678, 1.1234567, (6, "g"), ("1.1234568", "1.1234567"), id="a price"),
        pytest.param(2.0, 2.0, (), ("2.00000000000000000", "2.00000000000000000"), id="equal"),
    ],
)
def test_numbers_are_told_apart(
    one: float, other: float, form: tuple[int, str], want: tuple[str, str]
) -> None:
    """With no more digits than it takes."""
    assert apart(one, other, *form) == want


def test_a_deadline_that_has_passed_is_not_a_negative_time() -> None:
    """Both ways to say it."""
    assert (deadline_words("2.00"), deadline_words("-2.00")) == ("is in 2.00 h", "passed 2.00 h ago")


def test_reasons_of_money_show_what_is_missing() -> None:
    """Where two digits would show two numbers that are equal."""
    request = {"gpus_per_node": 8, "time": {"runtime_hours": 1}}
    poor = Setting(tenant=Tenant(name="t", monthly_budget_usd=8.0))
    (reason,) = verdict_of(judged(request, setting=poor, gpu_hour_usd=1.0)).reasons
    assert (
        reason.message == "the job would cost 8.001 USD in pool p, tenant t has 8.000 USD left in this month"
    )
    capped = {"gpus_per_node": 8, "price_cap_usd_per_gpu_hour": 1.1234567}
    (reason,) = verdict_of(judged(capped, gpu_hour_usd=1.12345678)).reasons
    assert reason.message == "a GPU of pool p costs 1.1234568 USD an hour, the cap is 1.1234567"
