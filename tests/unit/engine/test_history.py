"""What earlier attempts teach."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from airflow_gpu_placement.engine.counterfactual import apply_all, counterfactual
from airflow_gpu_placement.engine.history import history_of
from airflow_gpu_placement.model.attempt import AttemptRecord, Counting, TaskRecord
from airflow_gpu_placement.model.decision import ClusterSeen, History
from airflow_gpu_placement.model.outcome import EndGrade, OutcomeKind
from airflow_gpu_placement.model.request import GpuRequest
from tests.unit.engine.builders import codes, decide, pool, seen, signals

if TYPE_CHECKING:
    from airflow_gpu_placement.model.decision import Decision
    from airflow_gpu_placement.model.pool import GpuPool


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
    where = ClusterSeen(kubernetes_conn_id="c")
    assert history_of(record) == History(
        lost_nodes={"a": ("n1", "n2")}, lost_in={"a": (where,)}, losses={"a": 2, "c": 1}
    )


def test_time_counts_from_what_the_record_says() -> None:
    """And from nothing else: which launches still count is not told by them."""
    begun = datetime(2026, 1, 5, tzinfo=UTC)
    counting = Counting(since=begun, attempt_id="id-1", try_number=1, max_tries=0)
    assert history_of(TaskRecord(counting=counting)).since == begun
    launched = msgspec.structs.replace(attempt("a", None), started_at=begun)
    assert history_of(TaskRecord(attempts=(launched,))).since is None


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
    denied = msgspec.structs.replace(denied, max_tries=5)
    again = msgspec.structs.replace(denied, pool="b", exclude_architecture="arm64", max_tries=6)
    history = history_of(TaskRecord(attempts=(denied, again)), 6)
    assert (history.excluded_pools, history.losses) == ({"b": "ImagePullDenied"}, {"a": 1, "b": 1})
    assert history_of(TaskRecord(attempts=(denied, again)), 2).excluded_architectures == {}


ONE_GPU = GpuRequest(models=("H100",))


def decided(pools: list[GpuPool], history: History, **uids: str | None) -> Decision:
    """Decide about pools that see node n1 of the cluster with this uid; ``None``: nothing is seen."""
    observed = [
        signals(name, *([] if uid is None else [seen("n1")]), cluster_uid=uid) for name, uid in uids.items()
    ]
    return decide(ONE_GPU, pools, *observed, history=history)


def lost_in(pool_name: str, *, uid: str | None, conn: str = "c", context: str | None = None) -> History:
    """Return what a try teaches that lost n1 in a pool of a cluster."""
    record = msgspec.structs.replace(
        attempt(pool_name, OutcomeKind.INFRASTRUCTURE, "n1"),
        cluster_uid=uid,
        kubernetes_conn_id=conn,
        context=context,
    )
    return history_of(TaskRecord(attempts=(record,)))


@pytest.mark.parametrize(
    ("history", "name", "conn", "uid", "is_out"),
    [
        pytest.param(lost_in("a", uid="u"), "b", "other", "u", True, id="another connection to the cluster"),
        pytest.param(lost_in("a", uid="u"), "b", "c", "u", True, id="the pool was renamed"),
        pytest.param(lost_in("a", uid=None), "b", "c", "u", True, id="uid not known then, same connection"),
        pytest.param(
            lost_in("a", uid=None), "b", "other", "u", False, id="nothing tells that it is the same"
        ),
        pytest.param(lost_in("a", uid="u"), "a", "c", "v", False, id="the connection leads elsewhere now"),
        pytest.param(lost_in("a", uid="u"), "a", "other", "u", True, id="the pool has another connection"),
        pytest.param(lost_in("a", uid=None, context="x"), "b", "c", "u", False, id="another context"),
    ],
)
def test_a_lost_node_stays_out_by_whatever_way_its_cluster_is_reached(
    history: History, name: str, conn: str, uid: str | None, is_out: bool
) -> None:
    """A cluster is its uid; where that is not known on both sides, its connection."""
    decision = decided([pool(name, conn=conn)], history, **{name: uid})
    assert codes(decision, name) == (["NodesLost", "NodesNotSchedulable"] if is_out else [])


def test_the_pool_that_lost_a_node_tells_the_cluster_where_its_record_does_not() -> None:
    """An older record has no uid; the signals of today have."""
    two = [pool("a", conn="c"), pool("b", conn="other")]
    history = History(lost_nodes={"a": ("n1",)})
    assert "NodesLost" in codes(decided(two, history, a="u", b="u"), "b")
    assert codes(decided(two, history, a="u", b="v"), "b") == []


def test_a_boot_is_compared_in_the_cluster_that_lost_it() -> None:
    """A node that was booted anew counts again, by whichever pool it is seen."""
    record = msgspec.structs.replace(
        attempt("a", OutcomeKind.INFRASTRUCTURE, "n1"), cluster_uid="u", lost_boots={"n1": "b1"}
    )
    history = history_of(TaskRecord(attempts=(record,)))
    other = pool("b", conn="other")
    for boot, want in (("b1", ["NodesLost", "NodesNotSchedulable"]), ("b2", [])):
        observed = signals("b", seen("n1", boot=boot), cluster_uid="u")
        assert codes(decide(ONE_GPU, [other], observed, history=history), "b") == want


def test_a_counterfactual_gives_back_a_node_lost_by_another_connection() -> None:
    """The change is made where the pool looks for it, and the decision follows."""
    decision = decided([pool("b", conn="other")], lost_in("a", uid="u"), b="u")
    assert apply_all(decision, "b", counterfactual(decision, "b")).chosen == "b"
