"""What follows when a cluster does not take a job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from airflow_gpu_placement.clusters.errors import Overtaken
from airflow_gpu_placement.engine.history import history_of
from airflow_gpu_placement.exceptions import (
    ClusterError,
    Conflict,
    Forbidden,
    GpuPlacementError,
    NotFound,
    RemoteJobMisconfigured,
    RequestError,
    Unreachable,
)
from airflow_gpu_placement.hooks.memory import remember
from airflow_gpu_placement.model.outcome import EndGrade, OutcomeKind
from airflow_gpu_placement.operators import refusal
from airflow_gpu_placement.operators.steps import Refused
from tests.unit.surface.test_settling import Memory, attempt

if TYPE_CHECKING:
    from airflow_gpu_placement.model.attempt import AttemptRecord

QUOTA = 'jobs.batch "j" is forbidden: exceeded quota: jobs, requested: count/jobs.batch=1'
UNCOUNTED = 'jobs.batch "j" is forbidden: status unknown for quota: jobs, resources: count/jobs.batch'
POLICY = "jobs.batch \"j\" is forbidden: ValidatingAdmissionPolicy 'cost' with binding 'c' denied request: no"
WEBHOOK = 'admission webhook "cost.example.com" denied the request: label cost-center is missing'
OF_WEBHOOK = 'admission webhook "tenants.example.com" denied the request: GPU quota of team exceeded'
DOWN = 'Internal error occurred: failed calling webhook "down.example.com"'
REFUSED = Refused
SET_UP = RemoteJobMisconfigured


def refused(
    error: ClusterError, known: AttemptRecord, memory: Memory, *, timeout_seconds: float = 0.0
) -> GpuPlacementError | Refused:
    """Let a create end with an error."""
    return asyncio.run(refusal.refused(error, known, memory.record, memory, timeout_seconds=timeout_seconds))


@pytest.fixture
def grades(monkeypatch: pytest.MonkeyPatch) -> list[EndGrade]:
    """Return what withdrawals find, one after the other; the last one stays."""
    found = [EndGrade.CONFIRMED]

    async def withdrawn(*_: object, **__: object) -> EndGrade:
        return found.pop(0) if len(found) > 1 else found[0]

    monkeypatch.setattr(refusal, "withdraw_attempt", withdrawn)
    monkeypatch.setattr(refusal, "_PAUSE_SECONDS", 0.01)
    return found


@pytest.mark.usefixtures("grades")
@pytest.mark.parametrize(
    ("error", "want", "cause"),
    [
        pytest.param(Forbidden("no", status=401), REFUSED, "CredentialsRefused", id="401"),
        pytest.param(Forbidden(QUOTA, status=403), REFUSED, "QuotaExceeded", id="a quota"),
        pytest.param(ClusterError(OF_WEBHOOK, status=400), REFUSED, "QuotaExceeded", id="a webhook's quota"),
        pytest.param(ClusterError("no", status=429), REFUSED, "CreateRefused", id="429"),
        pytest.param(ClusterError("no", status=500), REFUSED, "CreateRefused", id="500"),
        pytest.param(ClusterError(DOWN, status=500), REFUSED, "CreateRefused", id="a webhook is down"),
        pytest.param(Unreachable("no"), REFUSED, "ClusterUnreachable", id="no answer"),
        pytest.param(Overtaken("no", status=409), REFUSED, "CreateRefused", id="a quota that others changed"),
        pytest.param(Forbidden(UNCOUNTED, status=403), REFUSED, "QuotaExceeded", id="a new quota"),
        pytest.param(Conflict("no", status=409), SET_UP, "CreateRefused", id="a name that is taken"),
        pytest.param(Forbidden("no", status=403), SET_UP, "CreateRefused", id="403"),
        pytest.param(NotFound("no", status=404), SET_UP, "CreateRefused", id="404"),
        pytest.param(ClusterError(POLICY, status=422), SET_UP, "CreateRefused", id="an admission policy"),
        pytest.param(ClusterError(WEBHOOK, status=400), SET_UP, "CreateRefused", id="a webhook"),
        pytest.param(Forbidden(WEBHOOK, status=403), SET_UP, "CreateRefused", id="a webhook's 403"),
        pytest.param(ClusterError("no", status=422), RequestError, "CreateRefused", id="422"),
    ],
)
def test_only_what_stays_so_rules_a_pool_out(error: ClusterError, want: type[object], cause: str) -> None:
    """What may pass burns no try; what one cluster does not allow another may; nobody takes what is wrong."""
    memory = Memory()
    found = refused(error, attempt(1, "a"), memory)
    assert type(found) is want
    (known,) = memory.record.attempts
    assert (known.cause, known.exclude_pool, known.grade) == (cause, want is SET_UP, EndGrade.CONFIRMED)
    assert (known.refusal is not None) == (want is REFUSED)
    if want is SET_UP:
        assert isinstance(found, RemoteJobMisconfigured)
        assert found.retry_elsewhere


@pytest.mark.usefixtures("grades")
def test_refusals_of_a_pool_are_counted_and_take_one_place_in_memory() -> None:
    """Waiting for a quota may take a day; what ran before is worth more than every single refusal."""
    memory = Memory(attempt(1, "a", outcome=OutcomeKind.INFRASTRUCTURE))
    for move in range(40):
        pool = "ab"[move % 2]
        assert isinstance(
            refused(ClusterError("no\x00 room", status=500), attempt(2, pool, move=move), memory), Refused
        )
    assert [(one.attempt_id, one.pool, one.move) for one in memory.record.attempts] == [
        ("id-1", "a", 0),
        ("id-2", "a", 38),
        ("id-2", "b", 39),
    ]
    found = history_of(memory.record).refusals
    assert {pool: (one.times, one.why) for pool, one in found.items()} == {
        "a": (20, "no\N{REPLACEMENT CHARACTER} room"),
        "b": (20, "no\N{REPLACEMENT CHARACTER} room"),
    }
    taken = remember(memory.record, attempt(2, "a", move=40))
    assert list(history_of(taken).refusals) == ["b"]
    cleared = msgspec.structs.replace(memory.record.attempts[-1], max_tries=5)
    assert history_of(remember(memory.record, cleared), max_tries=4).refusals == {}


def test_a_create_without_an_answer_is_asked_after_until_it_is_certain(grades: list[EndGrade]) -> None:
    """The job may exist; nothing is launched beside it while its cluster may still tell."""
    grades[:] = [EndGrade.UNKNOWN] * 3 + [EndGrade.CONFIRMED]
    memory = Memory()
    assert isinstance(refused(Unreachable("no"), attempt(1, "a"), memory, timeout_seconds=5.0), Refused)
    assert memory.record.attempts[0].grade is EndGrade.CONFIRMED
    assert grades == [EndGrade.CONFIRMED]


def test_a_launch_that_may_exist_stays_in_memory(
    grades: list[EndGrade], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every sweep asks for it again."""
    monkeypatch.setattr(refusal, "LOOK_SECONDS", 0.02)
    grades[:] = [EndGrade.UNKNOWN]
    memory = Memory()
    for move in range(2):
        refused(Unreachable("no"), attempt(1, "a", move=move), memory)
    assert [(one.move, one.grade) for one in memory.record.attempts] == [
        (0, EndGrade.UNKNOWN),
        (1, EndGrade.UNKNOWN),
    ]
