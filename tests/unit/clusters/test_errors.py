"""Each failure has its type, and a text that says which call failed and why."""

from __future__ import annotations

import json

import aiohttp
import pytest

from airflow_gpu_placement.clusters.errors import (
    Expired,
    Overtaken,
    from_answer,
    from_event,
    from_exception,
    may_pass,
)
from airflow_gpu_placement.exceptions import ClusterError, Conflict, Forbidden, NotFound, Unreachable
from airflow_gpu_placement.model.kube import Status

CALL = "GET https://10.0.0.1:6443/api/v1/nodes"


@pytest.mark.parametrize(
    ("status", "kind", "passes"),
    [
        (400, ClusterError, False),
        (401, Forbidden, False),
        (403, Forbidden, False),
        (404, NotFound, False),
        (409, Conflict, False),
        (410, Expired, False),
        (422, ClusterError, False),
        (429, ClusterError, True),
        (500, ClusterError, True),
        (503, Unreachable, True),
        (504, Unreachable, True),
    ],
)
def test_the_status_decides_the_type(status: int, kind: type[ClusterError], passes: bool) -> None:
    """A caller tells apart what it can do something about, and what may pass by itself."""
    body = json.dumps({"kind": "Status", "message": "nodes is forbidden"}).encode()
    error = from_answer(CALL, status, body, {})
    assert type(error) is kind
    assert error.status == status
    assert may_pass(error) is passes
    assert str(error) == f"{CALL}: {status} nodes is forbidden"


@pytest.mark.parametrize(
    ("reason", "kind", "passes"), [("AlreadyExists", Conflict, False), ("Conflict", Overtaken, True)]
)
def test_what_exists_is_not_what_was_overtaken(reason: str, kind: type[ClusterError], passes: bool) -> None:
    """Both are 409: the name is taken, or a quota was changed by somebody else meanwhile."""
    error = from_answer(CALL, 409, json.dumps({"kind": "Status", "reason": reason}).encode(), {})
    assert type(error) is kind
    assert may_pass(error) is passes


def test_a_plain_text_answer_is_shown_and_its_wait_kept() -> None:
    """Priority and fairness answers 429 with plain text."""
    error = from_answer(CALL, 429, b"Too many requests, please try again later.\n", {"Retry-After": "7"})
    assert error.retry_after_seconds == 7
    assert str(error).endswith("429 Too many requests, please try again later.")


@pytest.mark.parametrize("value", ["Wed, 21 Oct 2026 07:28:00 GMT", "soon", ""])
def test_a_wait_that_is_no_number_is_no_wait(value: str) -> None:
    """The API sends seconds; anything else is ignored."""
    assert from_answer(CALL, 429, b"", {"Retry-After": value}).retry_after_seconds is None


def test_an_old_version_inside_a_watch_is_expired() -> None:
    """A watch reports it in an event and not by its HTTP status."""
    error = from_event(CALL, Status(code=410, reason="Expired", message="too old resource version: 1 (9)"))
    assert isinstance(error, Expired)
    assert "too old" in str(error)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError(), "no answer in time"),
        (aiohttp.SocketTimeoutError("Timeout on reading data from socket"), "no answer in time"),
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset"),
        (aiohttp.ServerDisconnectedError(), "Server disconnected"),
        (aiohttp.ClientPayloadError(), "ClientPayloadError"),
    ],
)
def test_no_answer_is_unreachable(error: Exception, words: str) -> None:
    """Whatever the wire does, the text says it."""
    mapped = from_exception(CALL, error)
    assert isinstance(mapped, Unreachable)
    assert mapped.status is None
    assert words in str(mapped)
    assert str(mapped).startswith(CALL)
