"""The JSON schema of the catalogue: editors tell the same mistakes as the reader, as far as a schema can."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it has no types

from airflow_gpu_placement.catalog import EXAMPLE
from airflow_gpu_placement.catalog.schema import as_text, json_schema
from tests.unit.catalog import test_documents, test_mistakes, test_overlay, test_pool_keys, test_sections
from tests.unit.catalog.catalogues import one
from tests.unit.catalog.test_load import FULL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXPORTED = Path(__file__).resolve().parents[3] / "docs" / "schema" / "catalog.schema.json"
VALIDATOR = Draft202012Validator(json_schema())

NO_YAML = frozenset(
    {
        "broken",
        "two documents",
        "a tag that would run code",
        "keys twice",
        "a colour of a terminal",
        "values that are none",
        "without bottom",
    }
)
"""Documents that an editor does not even get to look into."""

NOT_IN_A_SCHEMA = frozenset(
    {
        "an unknown model",
        "two memories",
        "more than a number can be",
        "no number",  # a nan is a number to JSON schema
        "two prices",
        "a price of an unknown number of GPUs",
        "a machine of an unknown number of GPUs",
        "a pool that can be empty",
        "a value too many",
        "no key",
        "a queue without a name",
        "a queue that is not used",
        "a profile twice",
        "a glob that matches no pool",
        "a tenant of nobody",
        "a route twice",
        "a known model again",
        "a known model as an alias",
        "one alias of two models",
        "a name twice",
        "no connection",  # the defaults may give it
        "a place",
    }
)
"""Mistakes that compare two values or need a table, which the reader tells."""


def errors(document: Any) -> list[str]:
    """Return what the schema says of a document."""
    return [error.message for error in VALIDATOR.iter_errors(document)]


def rows(test: Callable[..., None]) -> Iterator[Any]:
    """Walk the table of a parametrized test."""
    (mark,) = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    yield from mark.args[1]


def mistakes() -> Iterator[Any]:
    """Walk every mistake that the reader is tested with, as (document, id)."""
    for module in (test_mistakes, test_pool_keys):
        for row in rows(module.test_a_mistake_is_told_with_its_place):
            yield pytest.param(one(**row.values[0]), row.id, id=row.id)
    for row in rows(test_sections.test_a_mistake_is_told_with_its_place):
        yield pytest.param(f"{one()}{row.values[0]}\n", row.id, id=f"section: {row.id}")
    for row in rows(test_documents.test_a_document_that_is_no_catalogue_is_told):
        if row.id not in NO_YAML:
            yield pytest.param(row.values[0], row.id, id=f"document: {row.id}")


def test_the_schema_is_a_schema() -> None:
    """It keeps to the rules of its own dialect."""
    Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(EXAMPLE, id="the example"),
        pytest.param(FULL, id="pools and defaults"),
        pytest.param(test_pool_keys.EVERYTHING, id="every key of a pool"),
        pytest.param(test_sections.FULL, id="every section"),
        pytest.param(test_overlay.BASE, id="a base for overlays"),
        pytest.param(one(gpu="{form_factor: sxm5}", price="", max_nodes="null"), id="other spellings"),
    ],
)
def test_what_the_reader_accepts_is_valid(text: str) -> None:
    """An editor does not complain of what works."""
    assert errors(yaml.safe_load(text)) == []


@pytest.mark.parametrize(("text", "mistake"), [*mistakes()])
def test_a_mistake_is_one_in_the_schema_too(text: str, mistake: str) -> None:
    """Where a schema can say it, the editor tells it while it is typed."""
    assert (errors(yaml.safe_load(text)) == []) is (mistake in NOT_IN_A_SCHEMA)


def test_the_exported_schema_is_the_current_one() -> None:
    """Write it: ``python -m airflow_gpu_placement.catalog.schema > docs/schema/catalog.schema.json``."""
    assert EXPORTED.read_text(encoding="utf-8") == as_text()
