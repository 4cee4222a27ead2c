"""What stored attempts teach."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_gpu_placement.engine.learn import learn
from airflow_gpu_placement.model.attempt import AttemptRecord, Refusal
from airflow_gpu_placement.model.outcome import OutcomeKind
from airflow_gpu_placement.model.pool import CapacityType
from tests.unit.engine.builders import NOW, pool

POOL = pool(interruptions_per_gpu_hour=0.001)


def attempt(hours: float = 2.0, *, days_ago: float = 0.0, **fields: Any) -> AttemptRecord:
    """Build an attempt that succeeded on eight H100."""
    ended = NOW - timedelta(days=days_ago)
    values: dict[str, Any] = {
        "attempt_id": "a",
        "try_number": 1,
        "fence": 1,
        "pool": "p",
        "kubernetes_conn_id": "c",
        "namespace": "n",
        "job_name": "j",
        "outcome": OutcomeKind.SUCCEEDED,
        "started_at": ended - timedelta(hours=hours),
        "ended_at": ended,
        "gpus": 8,
        "gpu_model": "H100",
    }
    return AttemptRecord(**{**values, **fields})


def test_the_runtime_is_the_median_of_successes_by_model() -> None:
    """Other models, failures and resumed attempts say nothing about it."""
    attempts = [
        attempt(2),
        attempt(3),
        attempt(10),
        attempt(7, gpu_model="A100"),
        attempt(0.1, outcome=OutcomeKind.APPLICATION),
        attempt(0.2, fence=2),
        attempt(9, ended_at=None),
    ]
    found = learn(attempts, [], [POOL], now=NOW).runtime_hours
    assert {model: (one.value, one.source) for model, one in found.items()} == {
        "H100": (3.0, "history(3)"),
        "A100": (7.0, "history(1)"),
        "*": (5.0, "history(4)"),
    }


def test_only_the_latest_runs_count() -> None:
    """The program of last year was another one."""
    old = [attempt(100, days_ago=200 + day) for day in range(20)]
    new = [attempt(1, days_ago=day) for day in range(10)]
    assert learn([*old, *new], [], [POOL], now=NOW).runtime_hours["H100"].value == 1.0


def rate(*attempts: AttemptRecord) -> float:
    """Return the interruption rate that is learnt of the pool."""
    return learn([], attempts, [POOL], now=NOW).interruptions_per_gpu_hour["p"].value


def test_a_loss_raises_the_rate_and_quiet_hours_lower_it() -> None:
    """The prior weighs as much as a thousand GPU hours."""
    lost = attempt(1, outcome=OutcomeKind.INFRASTRUCTURE)
    assert rate(lost) == pytest.approx((0.001 * 1000 + 1) / (1000 + 8))
    assert rate(attempt(125)) == pytest.approx(0.001 * 1000 / 2000)


def test_what_was_seen_is_forgotten_slowly() -> None:
    """A loss of two weeks ago counts half; after years the prior is back."""
    recent, older, ancient = (
        rate(attempt(1, days_ago=days, outcome=OutcomeKind.INFRASTRUCTURE)) for days in (0, 14, 3000)
    )
    assert recent > older > ancient
    assert older == pytest.approx((1 + 0.5) / (1000 + 4))
    assert ancient == pytest.approx(0.001)


def test_a_job_that_never_started_is_no_interruption() -> None:
    """It held no GPU: the pool was full, not unsafe."""
    late = attempt(0.2, outcome=OutcomeKind.INFRASTRUCTURE, cause="StartTimeout")
    assert learn([], [late], [POOL], now=NOW).interruptions_per_gpu_hour == {}
    lost = attempt(0.2, outcome=OutcomeKind.INFRASTRUCTURE, cause="NodeLost")
    refused = attempt(0.2, outcome=OutcomeKind.INFRASTRUCTURE, refusal=Refusal(at=NOW))
    assert learn([], [lost, late, refused], [POOL], now=NOW) == learn([], [lost], [POOL], now=NOW)


def test_a_pool_that_was_never_used_has_nothing_learnt() -> None:
    """Nor has one whose attempts do not say how many GPUs they had."""
    spot = pool("spot", capacity_type=CapacityType.SPOT)
    found = learn([], [attempt(gpus=None)], [POOL, spot], now=NOW)
    assert found.interruptions_per_gpu_hour == {}
