"""What follows when a cluster does not take a job."""

from __future__ import annotations

import asyncio

import pytest

from airflow_gpu_placement.exceptions import (
    ClusterError,
    Forbidden,
    GpuPlacementError,
    NotFound,
    RemoteJobLost,
    RemoteJobMisconfigured,
    RequestError,
    Unreachable,
)
from airflow_gpu_placement.model.outcome import EndGrade
from airflow_gpu_placement.operators import refusal
from tests.unit.surface.test_settling import Memory, attempt

QUOTA = 'jobs.batch "j" is forbidden: exceeded quota: jobs, requested: count/jobs.batch=1'


@pytest.mark.parametrize(
    ("error", "want", "cause", "excluded"),
    [
        pytest.param(Forbidden("no", status=401), RemoteJobLost, "CredentialsRefused", False, id="401"),
        pytest.param(Forbidden(QUOTA, status=403), RemoteJobLost, "QuotaExceeded", False, id="a quota"),
        pytest.param(Forbidden("no", status=403), RemoteJobMisconfigured, "CreateRefused", True, id="403"),
        pytest.param(NotFound("no", status=404), RemoteJobMisconfigured, "CreateRefused", True, id="404"),
        pytest.param(ClusterError("no", status=429), RemoteJobLost, "CreateRefused", False, id="429"),
        pytest.param(ClusterError("no", status=500), RemoteJobLost, "CreateRefused", False, id="500"),
        pytest.param(Unreachable("no"), RemoteJobLost, "ClusterUnreachable", False, id="no answer"),
        pytest.param(ClusterError("no", status=422), RequestError, "CreateRefused", False, id="422"),
    ],
)
def test_only_what_stays_so_rules_a_pool_out(
    monkeypatch: pytest.MonkeyPatch,
    error: ClusterError,
    want: type[GpuPlacementError],
    cause: str,
    excluded: bool,
) -> None:
    """Expired credentials and an exhausted quota pass."""

    async def withdrawn(*_: object, **__: object) -> EndGrade:
        return EndGrade.CONFIRMED

    monkeypatch.setattr(refusal, "withdraw_attempt", withdrawn)
    memory = Memory()
    raised = asyncio.run(refusal.refused(error, attempt(1, "a"), memory))
    assert type(raised) is want
    (known,) = memory.record.attempts
    assert (known.cause, known.exclude_pool, known.grade) == (cause, excluded, EndGrade.CONFIRMED)
