"""The sections of data: datasets, and what moving them costs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.catalog import fields as read
from airflow_gpu_placement.catalog.reader import Key, Keys, Reader, fields, named, need, section_schema, shown
from airflow_gpu_placement.model.money import Dataset, Egress, EgressRoute

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_gpu_placement.catalog.problems import Problems

DATASET_KEYS: Keys = {
    "name": Key(read.name, "What requests name.", needed="a dataset needs a name"),
    "size_gib": Key(
        read.number(least=0), "What has to be moved in GiB.", needed="it decides what moving costs"
    ),
    "locations": Key(
        read.many(read.text, least=1), "Regions that have it.", needed="name the regions that have it"
    ),
    "egress": Key(
        read.choice(*(rule.value for rule in Egress)),
        "`deny`: only pools in one of its locations may read it.",
        "allow",
    ),
    "residency": Key(read.many(read.text, least=1), "Regions that it may be copied to.", "any"),
}

EGRESS_KEYS: Keys = {
    "from": Key(read.text, "Region, or a glob of regions.", needed="name a region, or '*' for any"),
    "to": Key(read.text, "Region, or a glob of regions.", needed="name a region, or '*' for any"),
    "usd_per_gib": Key(
        read.number(least=0), "Price of moving one GiB in USD.", needed="write 0 when it costs nothing"
    ),
    "gbps": Key(read.number(above=0), "Throughput in Gbit/s.", "5"),
    "origin": Key(read.text, "Where the numbers come from; shown beside them.", "catalogue"),
}

datasets = named("dataset", DATASET_KEYS)


def _egress(value: Any, path: str, problems: Problems) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        problems.add(path, f"must be a list of routes, not {shown(value)}")
        return []
    found = []
    first: dict[tuple[str, str], int] = {}
    for index, entry in enumerate(value):
        inside = f"{path}[{index}]"
        before = len(problems.found)
        given = fields(entry, inside, problems, EGRESS_KEYS)
        need(entry, inside, problems, EGRESS_KEYS)
        if len(problems.found) > before:
            continue
        pair = given["from"], given["to"]
        if pair in first:
            problems.add(inside, f"is the route from {pair[0]} to {pair[1]} of {path}[{first[pair]}] again")
        first.setdefault(pair, index)
        found.append(given)
    return found


egress = Reader(_egress, {"type": "array", "items": section_schema(EGRESS_KEYS)})
"""Routes, in the order in which they are looked at."""


def built_datasets(given: Iterable[dict[str, Any]]) -> tuple[Dataset, ...]:
    """Build datasets."""
    return tuple(Dataset(**{**values, "egress": Egress(values.get("egress", "allow"))}) for values in given)


def built_routes(given: Iterable[dict[str, Any]]) -> tuple[EgressRoute, ...]:
    """Build routes."""
    return tuple(
        EgressRoute(
            source=values["from"],
            target=values["to"],
            usd_per_gib=values["usd_per_gib"],
            origin=values.get("origin", "catalogue"),
            **{key: values[key] for key in ("gbps",) if key in values},
        )
        for values in given
    )
