"""What earlier attempts teach."""

from __future__ import annotations

from typing import Any

import msgspec

from airflow_gpu_placement.engine.history import history_of
from airflow_gpu_placement.model.attempt import AttemptRecord, TaskRecord
from airflow_gpu_placement.model.decision import History
from airflow_gpu_placement.model.outcome import OutcomeKind


def attempt(pool: str, outcome: OutcomeKind | None, *lost: str, number: int = 1) -> AttemptRecord:
    """Build one attempt."""
    fields: dict[str, Any] = {"try_number": number, "fence": number}
    return AttemptRecord(
        attempt_id=f"id-{number}",
        pool=pool,
        kubernetes_conn_id="c",
        namespace="n",
        job_name="j",
        outcome=outcome,
        lost_nodes=lost,
        **fields,
    )


def test_nothing_has_been_learnt_at_first() -> None:
    """An empty record is an empty history."""
    assert history_of(TaskRecord()) == History()


def test_losses_are_counted_and_lost_nodes_gathered() -> None:
    """By pool; a failure of the training code or a running attempt is no loss."""
    record = TaskRecord(
        attempts=(
            attempt("a", OutcomeKind.INFRASTRUCTURE, "n2"),
            attempt("a", OutcomeKind.INFRASTRUCTURE, "n1", "n2", number=2),
            attempt("b", OutcomeKind.APPLICATION, number=3),
            attempt("c", OutcomeKind.CONFIGURATION, number=4),
            attempt("d", None, number=5),
        )
    )
    assert history_of(record) == History(lost_nodes={"a": ("n1", "n2")}, losses={"a": 2, "c": 1})


def test_what_a_job_cannot_run_on_is_ruled_out() -> None:
    """A pool that lacks something, and a processor that the image is not built for, with the reason."""
    denied = msgspec.structs.replace(
        attempt("a", OutcomeKind.CONFIGURATION), exclude_pool=True, cause="ImagePullDenied"
    )
    wrong = msgspec.structs.replace(
        attempt("b", OutcomeKind.CONFIGURATION, number=2),
        exclude_architecture="arm64",
        cause="WrongArchitecture",
    )
    history = history_of(TaskRecord(attempts=(denied, wrong)))
    assert history.excluded_pools == {"a": "ImagePullDenied"}
    assert history.excluded_architectures == {"arm64": "WrongArchitecture in pool b"}
