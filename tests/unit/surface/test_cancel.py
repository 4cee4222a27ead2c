"""When a trigger withdraws the remote job that it watches, and when it must not."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.sdk.execution_time.xcom import XCom

from airflow_gpu_placement.model.attempt import MARKER_KEY, RESUMED_KEY
from airflow_gpu_placement.triggers import cancel
from airflow_gpu_placement.triggers.cancel import TryNow, is_over, shielded, withdraw_if_over
from airflow_gpu_placement.triggers.remote_job import RemoteJobTrigger

if TYPE_CHECKING:
    from airflow_gpu_placement.clusters.client import ClusterClient

OURS, OTHER = "attempt-1", "attempt-2"


@pytest.mark.parametrize(
    ("now", "over"),
    [
        pytest.param(TryNow(exists=False), True, id="deleted"),
        pytest.param(TryNow(exists=True, state="failed"), True, id="marked failed"),
        pytest.param(TryNow(exists=True, state="success"), True, id="marked success"),
        pytest.param(TryNow(exists=True, state="skipped"), True, id="marked skipped"),
        pytest.param(TryNow(exists=True, state=None), True, id="cleared, not scheduled yet"),
        pytest.param(TryNow(exists=True, state="scheduled"), True, id="cleared, scheduled"),
        pytest.param(TryNow(exists=True, state="queued"), True, id="cleared, queued"),
        pytest.param(TryNow(exists=True, state="queued", resumed=OTHER), True, id="cleared, then resumed"),
        pytest.param(TryNow(exists=True, state="scheduled", resumed=OURS), False, id="about to be resumed"),
        pytest.param(TryNow(exists=True, state="queued", resumed=OURS), False, id="queued to be resumed"),
        pytest.param(TryNow(exists=True, state=None, resumed=OURS), False, id="its scheduler was lost then"),
        pytest.param(TryNow(exists=True, state="failed", resumed=OURS), True, id="resumed and failed"),
        pytest.param(TryNow(exists=True, state="running"), True, id="cleared, runs anew"),
        pytest.param(TryNow(exists=True, state="running", marker=OTHER), True, id="cleared, resumed again"),
        pytest.param(TryNow(exists=True, state="running", marker=OURS), False, id="resumed by another"),
        pytest.param(TryNow(exists=True, state="deferred", marker=OURS), False, id="only reassigned"),
        pytest.param(TryNow(exists=True, state="deferred", marker=OTHER), True, id="cleared, deferred again"),
        pytest.param(TryNow(exists=True, state="deferred"), False, id="deferred without a marker: in doubt"),
    ],
)
def test_when_an_attempt_is_over(now: TryNow, over: bool) -> None:
    """State and marker together tell a person's wish from a mere change of triggerers."""
    assert is_over(now, OURS) is over


def trigger(**ti: Any) -> RemoteJobTrigger:
    """Return a trigger of a task instance."""
    made = RemoteJobTrigger(
        kubernetes_conn_id="gpu",
        context=None,
        cluster_uid="c",
        namespace="training",
        job_name="gp-x",
        job_uid="u",
        node_grace_seconds=5,
        cluster_grace_seconds=5,
        node_deletion_is_proof=False,
    )
    who = {"id": OURS, "dag_id": "d", "run_id": "r", "task_id": "t", "map_index": -1, "try_number": 1}
    made.task_instance = cast("Any", SimpleNamespace(**{**who, **ti}))
    return made


def airflow_says(monkeypatch: pytest.MonkeyPatch, states: Any, xcom: Any = None) -> None:
    """Let Airflow answer the two questions with these values, or fail with these errors."""
    key = RESUMED_KEY if states in ({"t": None}, {"t": "scheduled"}, {"t": "queued"}) else MARKER_KEY

    def get_task_states(**_: Any) -> Any:
        if isinstance(states, BaseException):
            raise states
        return {"r": states} if states else {}

    async def aget_one(**question: Any) -> Any:
        assert question["key"] == key
        if isinstance(xcom, BaseException):
            raise xcom
        return xcom

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", get_task_states)
    monkeypatch.setattr(XCom, "aget_one", aget_one)


class Opened(Exception):
    """The cluster was about to be opened, so the job was about to be withdrawn."""


async def opens(conn_id: str, context: str | None) -> ClusterClient:
    """Say so instead of opening a cluster."""
    raise Opened(conn_id, context)


def withdrawn(caplog: pytest.LogCaptureFixture) -> bool:
    """Whether the job was about to be withdrawn."""
    return any(record.exc_info and record.exc_info[0] is Opened for record in caplog.records)


@pytest.mark.parametrize(
    ("ti", "states", "marker", "want"),
    [
        pytest.param({}, {"t": "failed"}, RuntimeError("never asked"), True, id="ended"),
        pytest.param({}, {}, None, True, id="deleted"),
        pytest.param({"map_index": 3}, {"t_3": "failed"}, None, True, id="a mapped task"),
        pytest.param({"map_index": 3}, {"t": "failed"}, None, False, id="another key than expected"),
        pytest.param({}, {"t": "deferred"}, {"attempt_id": OURS}, False, id="reassigned"),
        pytest.param({}, {"t": "deferred"}, {"attempt_id": OTHER}, True, id="another try"),
        pytest.param({}, {"t": "deferred"}, "not ours", False, id="a marker of another shape"),
        pytest.param({}, {"t": "deferred"}, RuntimeError("no answer"), False, id="no answer for the marker"),
        pytest.param({}, RuntimeError("no answer"), None, False, id="no answer for the state"),
        pytest.param({}, {"t": "queued"}, "", True, id="cleared"),
        pytest.param({}, {"t": None}, None, True, id="cleared by a version without that note"),
        pytest.param({}, {"t": "queued"}, OURS, False, id="to be resumed"),
        pytest.param({}, {"t": "scheduled"}, RuntimeError("no answer"), False, id="no answer for the note"),
    ],
)
def test_a_job_is_withdrawn_only_for_certain(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    ti: dict[str, Any],
    states: Any,
    marker: Any,
    want: bool,
) -> None:
    """Any doubt keeps the job: the next try and the reaper come later."""
    airflow_says(monkeypatch, states, marker)
    watched = cancel.Watched(
        ti=trigger(**ti).task_instance,
        kubernetes_conn_id="gpu",
        context=None,
        cluster_uid="c",
        namespace="training",
        job_name="gp-x",
        job_uid="u",
        node_deletion_is_proof=False,
    )
    with caplog.at_level("INFO"):
        asyncio.run(withdraw_if_over(watched, opens))
    assert withdrawn(caplog) is want


def test_the_work_goes_on_when_airflow_cuts_it_off() -> None:
    """The runner cancels ``on_kill`` after a second; what it began is finished, and held until then."""
    done: list[str] = []

    async def work(go: asyncio.Event) -> None:
        await go.wait()
        done.append("withdrawn")

    async def cut_off() -> None:
        go = asyncio.Event()
        call = asyncio.create_task(shielded(work(go)))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not done
        go.set()
        async with asyncio.timeout(5):
            await asyncio.gather(*cancel._under_way)

    asyncio.run(cut_off())
    assert done == ["withdrawn"]
    assert not cancel._under_way


def test_after_its_event_and_without_a_task_a_trigger_withdraws_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Airflow calls ``on_kill`` also for one that has just yielded; ``dag.test`` has no task instance."""

    async def withdraw_if_over(*_: Any) -> None:
        raise AssertionError("nothing is to be withdrawn")

    monkeypatch.setattr("airflow_gpu_placement.triggers.remote_job.withdraw_if_over", withdraw_if_over)
    monkeypatch.setattr("airflow_gpu_placement.triggers.remote_job.SHORTEST_WATCH_SECONDS", 0.0)
    monkeypatch.setattr("airflow_gpu_placement.triggers.remote_job.warm_up", lambda _: None)

    async def broken(*_: Any) -> None:
        raise RuntimeError("no watch")

    noted: list[tuple[Any, ...]] = []

    async def aset(key: str, value: Any, **where: Any) -> None:
        noted.append((key, value, where["task_id"]))
        raise RuntimeError("Airflow is away")

    monkeypatch.setattr(XCom, "aset", aset)
    yielded = trigger()
    monkeypatch.setattr(yielded, "watch", broken)

    async def first_event() -> Any:
        async for event in yielded.run():
            await yielded.on_kill()
            return event.payload
        raise AssertionError("no event")

    assert asyncio.run(first_event())["kind"] == "watch_broke"
    assert noted == [(RESUMED_KEY, OURS, "t")]
    alone = trigger()
    alone.task_instance = None
    asyncio.run(alone.on_kill())
    with pytest.raises(AssertionError, match="nothing is to be withdrawn"):
        asyncio.run(trigger().on_kill())


def test_the_deadline_is_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that lasts until the deadline ends with its own kind of event, at once when it has passed."""

    async def endless(*_: Any) -> None:
        await asyncio.Event().wait()

    late = trigger()
    late.deadline = "2026-01-01T00:00:00+00:00"
    monkeypatch.setattr(late, "watch", endless)
    event = asyncio.run(late.news(opens))
    assert event == {"version": 1, "job_name": "gp-x", "kind": "deadline"}


def test_triggers_share_what_is_equal_in_them() -> None:
    """A triggerer has a thousand; each would keep a logger and a policy of its own."""
    one, other = trigger(), trigger()
    assert one.policy is other.policy
    assert one.log is other.log


def test_a_trigger_comes_back_as_it_was() -> None:
    """What a triggerer stores is enough to go on, and holds no secret."""
    before = trigger()
    before.deadline = "2026-11-30T18:00:00+00:00"
    path, arguments = before.serialize()
    assert path == "airflow_gpu_placement.triggers.remote_job.RemoteJobTrigger"
    assert RemoteJobTrigger(**arguments).serialize() == (path, arguments)
