"""Answers about a whole catalogue: what is wrong with it, and what its pools cost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.catalog.document import parse
from airflow_gpu_placement.catalog.problems import Problems
from airflow_gpu_placement.catalog.sections import Read, read_document
from tests.cases.adapters.reading import by_key, by_type, without_nulls
from tests.cases.adapters.units import REJECTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.cases.adapters.answer import Answer
    from tests.cases.adapters.reading import Facts

HOMES = {
    "pool": ("name",),
    "connection": ("kubernetes_conn_id",),
    "arch": ("architecture",),
    "autoscale_max_nodes": ("max_nodes",),
    "gpus_per_node": ("gpu", "per_node"),
    "price_per_hour": ("price", "node_hour_usd"),
}
"""Words of the cases -> where the product's catalogue says the same; any other key is left as it is."""


def _read(facts: Facts) -> tuple[Read | None, list[str]]:
    """Read a catalogue that a case gives as a text, as a document, or as rows."""
    problems = Problems("catalogue")
    document = by_type(
        facts["catalogue"],
        {
            str: partial(_parsed, problems=problems),
            dict: lambda given: {"version": 1, **given, "pools": _pools(given.get("pools", []))},
            list: lambda rows: {"version": 1, "pools": _pools(rows)},
        },
    )
    read = by_type(
        document, {type(None): lambda _: None, object: lambda given: read_document(given, problems)}
    )
    return read, problems.found


def _parsed(text: str, problems: Problems) -> Any:
    return parse(text, problems)


def _pools(given: Any) -> list[Any]:
    pools: list[Any] = by_type(
        given,
        {
            dict: lambda by_name: [_pool({"name": name, **row}) for name, row in by_name.items()],
            list: lambda rows: [_pool(row) for row in rows],
        },
    )
    return pools


def _pool(row: Mapping[str, Any]) -> dict[str, Any]:
    """Put what a row says where the product's catalogue has it; a pool's connection has its name."""
    named = by_key(row, {"pool": lambda name: name, "name": lambda name: name}, default="")
    pool: dict[str, Any] = {"kubernetes_conn_id": named}
    for key, value in without_nulls(row).items():
        *outer, last = HOMES.get(key, (key,))
        home = pool
        for name in outer:
            home[name] = home.get(name, {})
            home = home[name]
        home.update({last: value, **_gpu(key, value, pool)})
    return pool


def _gpu(key: str, value: Any, pool: Mapping[str, Any]) -> dict[str, Any]:
    """Read a GPU that is only named."""
    of_key = {"gpu": lambda: {"gpu": {**pool.get("gpu", {}), **_named(value)}}}
    return of_key.get(key, dict)()


def _named(value: Any) -> dict[str, Any]:
    named: dict[str, Any] = by_type(value, {str: lambda text: {"model": text}, dict: dict})
    return named


def _price(facts: Facts, _: Any) -> dict[str, Any]:
    read, _found = _read(facts)
    pools = by_type(read, {type(None): lambda _: (), object: lambda one: one.content.pools})
    given = _pools(by_type(facts["catalogue"], {dict: lambda one: one["pools"], list: lambda rows: rows}))
    found = {pool.name: pool.price.gpu_hour_usd for pool in pools}
    return {one["name"]: found.get(one["name"], REJECTED) for one in given}


def _warnings(facts: Facts, _: Any) -> tuple[str, ...]:
    read, _found = _read(facts)
    warnings: tuple[str, ...] = by_type(read, {type(None): lambda _: (), object: lambda one: one.warnings})
    return warnings


def _words(facts: Facts, _: Any) -> str:
    return " ".join((*_read(facts)[1], *_warnings(facts, None)))


ANSWERS: dict[str, Answer] = {
    "errors": lambda facts, _: _read(facts)[1],
    "warnings_at_least": _warnings,
    "reason_mentions": _words,
    "must_not_say": _words,
    "price": _price,
}
"""Key of ``expect`` -> answer about a catalogue."""
