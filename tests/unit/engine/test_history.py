"""What earlier attempts teach."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from airflow_gpu_placement.engine.history import history_of
from airflow_gpu_placement.model.attempt import AttemptRecord, TaskRecord
from airflow_gpu_placement.model.decision import History
from airflow_gpu_placement.model.outcome import EndGrade, OutcomeKind


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


def test_the_boot_of_a_lost_node_is_that_of_its_last_loss() -> None:
    """One that nobody saw then makes an older one worthless."""
    first = msgspec.structs.replace(attempt("a", OutcomeKind.INFRASTRUCTURE, "n1"), lost_boots={"n1": "b1"})
    again = msgspec.structs.replace(first, attempt_id="id-2", lost_boots={"n1": "b2"})
    blind = msgspec.structs.replace(first, attempt_id="id-3", lost_boots={})
    assert history_of(TaskRecord(attempts=(first, again))).lost_boots == {"a": {"n1": "b2"}}
    assert history_of(TaskRecord(attempts=(first, again, blind))).lost_boots == {}


def test_a_node_that_came_back_and_told_the_end_counts_again() -> None:
    """The loss is still counted against its pool; without that proof the node stays out."""
    silent = msgspec.structs.replace(attempt("a", OutcomeKind.INFRASTRUCTURE, "n1"), cause="NodeLost")
    back = msgspec.structs.replace(silent, grade=EndGrade.CONFIRMED)
    drained = msgspec.structs.replace(back, cause="Evicted")
    assert history_of(TaskRecord(attempts=(back,))) == History(losses={"a": 1})
    for other in (silent, drained):
        assert history_of(TaskRecord(attempts=(other,))).lost_nodes == {"a": ("n1",)}


def test_a_missed_start_is_remembered_with_its_time() -> None:
    """The latest of each pool."""
    missed = [
        msgspec.structs.replace(
            attempt("a", OutcomeKind.INFRASTRUCTURE, number=minute),
            cause="StartTimeout",
            ended_at=datetime(2026, 1, 5, 10, minute, tzinfo=UTC),
        )
        for minute in (1, 2)
    ]
    history = history_of(TaskRecord(attempts=tuple(missed)))
    assert history.start_timeouts == {"a": datetime(2026, 1, 5, 10, 2, tzinfo=UTC)}
    assert history.lost_nodes == {}


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


def test_a_clear_gives_every_pool_another_chance() -> None:
    """Whoever clears a task after its image or its secret was missing has mended that."""
    denied = msgspec.structs.replace(
        attempt("a", OutcomeKind.CONFIGURATION), exclude_pool=True, cause="ImagePullDenied"
    )
    again = msgspec.structs.replace(denied, pool="b", exclude_architecture="arm64", clear_number=1)
    history = history_of(TaskRecord(attempts=(denied, again)), 1)
    assert (history.excluded_pools, history.losses) == ({"b": "ImagePullDenied"}, {"a": 1, "b": 1})
    assert history_of(TaskRecord(attempts=(denied, again)), 2).excluded_architectures == {}
