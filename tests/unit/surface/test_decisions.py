"""Which decisions are kept beside what is remembered."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_gpu_placement.model.attempt import Refusal, TaskRecord
from airflow_gpu_placement.operators.decisions import DECISION_KEY, forget
from tests.unit.surface.test_memory import JsonStore, attempt


def test_the_decision_of_a_forgotten_refusal_is_deleted() -> None:
    """Decisions for jobs that existed stay for ever, as do those of refusals that are remembered."""
    store = JsonStore()
    for fence in (1, 2, 3):
        store.set(f"{DECISION_KEY}.{fence}", {"fence": fence}, retention=1)
    refusal = Refusal(at=datetime(2026, 1, 5, tzinfo=UTC))
    first, second, third = attempt(1), attempt(2, refusal=refusal), attempt(3, refusal=refusal)
    forget(store, TaskRecord(attempts=(first, second, third)), TaskRecord(attempts=(third,)))
    assert sorted(store.values) == [f"{DECISION_KEY}.1", f"{DECISION_KEY}.3"]
