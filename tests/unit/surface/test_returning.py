"""What becomes of the text that a training leaves as its result."""

from __future__ import annotations

import json
import logging
from typing import Any

import msgspec
import pytest
from airflow.sdk.serde import serialize
from pydantic import JsonValue, TypeAdapter

from airflow_gpu_placement.model.outcome import Outcome, OutcomeKind
from airflow_gpu_placement.operators.returning import result_of

WARNS, SILENT = True, False


def returned(text: str | None) -> Any:
    """Return what a task returns whose training left a text."""
    return result_of(Outcome(kind=OutcomeKind.SUCCEEDED, cause="Complete", result=text))


def keep(value: Any) -> None:
    """Do what Airflow does to keep a value, up to the database: it raises what it cannot keep."""
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(serialize(value)))
    kept = TypeAdapter(JsonValue).validate_json(json.dumps(sent, allow_nan=False))
    assert "\\u0000" not in json.dumps(kept)


@pytest.mark.parametrize(
    ("text", "value", "warns"),
    [
        pytest.param(None, None, SILENT, id="none"),
        pytest.param("", None, SILENT, id="empty"),
        pytest.param(
            '{"loss": 0.5, "at": [1, null, true]}\n',
            {"loss": 0.5, "at": [1, None, True]},
            SILENT,
            id="JSON",
        ),
        pytest.param("done in 3 h", "done in 3 h", SILENT, id="text"),
        pytest.param('{"loss": NaN}', '{"loss": NaN}', WARNS, id="NaN"),
        pytest.param("[-Infinity]", "[-Infinity]", WARNS, id="infinity"),
        pytest.param('{"loss": 1e999}', '{"loss": 1e999}', WARNS, id="a number that overflows"),
        pytest.param("18446744073709551616", "18446744073709551616", WARNS, id="an integer of 65 bits"),
        pytest.param("18446744073709551615", 18446744073709551615, SILENT, id="an integer of 64 bits"),
        pytest.param('{"a": "x\\u0000y"}', {"a": "x\ufffdy"}, SILENT, id="an escaped NUL"),
        pytest.param('{"\\u0000": 1}', {"\ufffd": 1}, SILENT, id="a NUL in a key"),
        pytest.param("x\x00y", "x\ufffdy", SILENT, id="a bare NUL"),
        pytest.param('"\\ud800"', "\ufffd", SILENT, id="a lone surrogate"),
        pytest.param('"\\ud83d\\ude00"', "\N{GRINNING FACE}", SILENT, id="a pair of surrogates"),
        pytest.param("[" * 4000, "[" * 4000, WARNS, id="brackets without end"),
        pytest.param("[" * 150 + "]" * 150, "[" * 150 + "]" * 150, WARNS, id="too deep for Airflow"),
        pytest.param('{"a": 1', '{"a": 1', WARNS, id="broken JSON"),
        pytest.param('{"__classname__": "x"}', '{"__classname__": "x"}', WARNS, id="a reserved key"),
    ],
)
def test_a_result_is_one_that_airflow_can_keep(
    text: str | None, value: Any, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """As JSON, or as the text that the training wrote, and then a warning says why."""
    with caplog.at_level(logging.WARNING):
        assert returned(text) == value
    keep(value)
    assert [one.levelname for one in caplog.records] == (["WARNING"] if warns else [])


def test_a_result_that_is_nested_reasonably_stays_json() -> None:
    """Airflow keeps it."""
    value = json.loads("[" * 100 + "]" * 100)
    assert returned(json.dumps(value)) == value
    keep(value)


def test_json_that_a_node_cut_off_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Its first 4096 bytes are there, and look like a mistake of the training."""
    whole = json.dumps({"losses": ["0.123456789"] * 400})
    with caplog.at_level(logging.WARNING):
        assert returned(whole[:4096]) == whole[:4096]
    assert "probably cut off: a node keeps 4096 bytes" in caplog.text
