"""What triggers tell Airflow, which keeps it in a database."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_gpu_placement.model.attempt import AttemptPhase, AttemptRecord
from airflow_gpu_placement.model.outcome import EndGrade, Outcome, OutcomeKind
from airflow_gpu_placement.model.storable import storable
from airflow_gpu_placement.operators.launching import watch_arguments
from airflow_gpu_placement.triggers.proof import ProofTrigger
from airflow_gpu_placement.triggers.remote_job import RemoteJobTrigger

if TYPE_CHECKING:
    from airflow_gpu_placement.clusters.client import ClusterClient

BAD = "batch \x0042\ud800"
GOOD = "batch \ufffd42\ufffd"
KNOWN = AttemptRecord(
    attempt_id="a",
    try_number=1,
    fence=1,
    pool="p",
    kubernetes_conn_id="c",
    namespace="n",
    job_name="j",
    job_uid="u",
    phase=AttemptPhase.CREATED,
)


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (BAD, GOOD),
        ({BAD: [BAD, 1, None, True, 0.5]}, {GOOD: [GOOD, 1, None, True, 0.5]}),
        ((BAD,), [GOOD]),
        ("\N{GRINNING FACE}\t\r\n\x1b[0m", "\N{GRINNING FACE}\t\r\n\x1b[0m"),
    ],
)
def test_only_what_no_database_takes_is_replaced(value: Any, stored: Any) -> None:
    """In texts and keys, however deep."""
    assert storable(value) == stored


def test_every_text_of_an_end_can_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log lines, a cluster's words and a result come from programs, which write what they like."""
    outcome = Outcome(
        kind=OutcomeKind.APPLICATION,
        cause=BAD,
        message=BAD,
        pod=BAD,
        nodes=(BAD,),
        grade=EndGrade.CONFIRMED,
        result=BAD,
        warning=BAD,
        hint=BAD,
        boot_ids={BAD: BAD},
    )

    async def watch(*_: Any) -> Outcome:
        return outcome

    monkeypatch.setattr(RemoteJobTrigger, "watch", watch)
    trigger = RemoteJobTrigger(**watch_arguments(KNOWN, None))
    event = asyncio.run(trigger.event(broken))
    assert event["outcome"]["message"] == GOOD
    assert_storable(event)


def test_the_words_of_an_error_can_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a watch and of a proof that break."""
    monkeypatch.setattr(RemoteJobTrigger, "watch", broken)
    watched = asyncio.run(RemoteJobTrigger(**watch_arguments(KNOWN, None)).event(broken))
    assert (watched["kind"], watched["message"]) == ("watch_broke", f"RuntimeError: {GOOD}")
    proof = ProofTrigger.of(KNOWN, labels={}, until=datetime.now(UTC) + timedelta(minutes=1))
    proven = asyncio.run(proof.news(broken))
    assert (proven["kind"], proven["message"]) == ("watch_broke", f"RuntimeError: {GOOD}")
    assert_storable(watched)
    assert_storable(proven)


async def broken(*_: Any) -> ClusterClient:
    """Fail as nobody foresaw."""
    raise RuntimeError(BAD)


def assert_storable(event: dict[str, Any]) -> None:
    """Assert that an event has no text that PostgreSQL refuses."""
    text = json.dumps(event)
    assert "\\u0000" not in text
    assert "\\ud8" not in text
