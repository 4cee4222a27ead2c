"""A pool whose nodes are bought in several ways or lie in several regions: it is split by its selector."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_gpu_placement.catalog.discover import select_exactly
from airflow_gpu_placement.catalog.node_facts import node_facts
from airflow_gpu_placement.catalog.pool_entry import whole_entry
from airflow_gpu_placement.cli.doctor.finding import Finding, FindingId, FixKind, Severity, entry_lines
from airflow_gpu_placement.engine.bought import PURCHASE_LABELS, REGION_LABELS, RESERVATION_LABELS
from airflow_gpu_placement.engine.view import few
from airflow_gpu_placement.model.pool import CapacityType

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from airflow_gpu_placement.catalog.seen_nodes import SeenNodes
    from airflow_gpu_placement.model.kube import Node
    from airflow_gpu_placement.model.pool import GpuPool

_NOT_IN_A_NAME = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME = 63


class _Mix(NamedTuple):
    """In what the nodes of a pool differ.

    :param key: key of the catalogue that says it.
    :param said: what the catalogue says.
    :param labels: labels that may tell the parts apart, preferred ones first.
    """

    id: FindingId
    key: str
    what: str
    said: str | None
    labels: tuple[str, ...]


class _Part(NamedTuple):
    """Nodes of a pool that have something in common.

    :param value: what they have; ``name``: of the pool that is made of them.
    :param selector: labels that these nodes have and no other; ``None``: there are none.
    """

    value: str
    name: str
    nodes: tuple[str, ...]
    selector: dict[str, str] | None


def check_mixed(pool: GpuPool, seen_nodes: SeenNodes | None, taken: Collection[str]) -> list[Finding]:
    """Return at most one finding: what is split by one difference may have no other any more.

    :param seen_nodes: every node of its cluster; ``None``: they could not be read.
    :param taken: names of all pools.
    """
    members = () if seen_nodes is None else seen_nodes.members(pool)
    if seen_nodes is None or not members:
        return []
    bought = {node.metadata.name: str(capacity_type_in(pool, node)) for node in members}
    regions = {node.metadata.name: region for node in members if (region := node_facts(node).region)}
    by_capacity = _Mix(
        FindingId.CAPACITY_TYPES_MIXED,
        "capacity_type",
        "are bought in several ways",
        str(pool.capacity_type),
        (*PURCHASE_LABELS, *RESERVATION_LABELS),
    )
    by_region = _Mix(
        FindingId.REGIONS_MIXED, "region", "are in several regions", pool.place.region, REGION_LABELS
    )
    for mix, values in ((by_capacity, bought), (by_region, regions)):
        if len(set(values.values())) > 1:
            return [_finding(pool, mix, _parts(pool, mix, values, seen_nodes.nodes, taken))]
    return []


def capacity_type_in(pool: GpuPool, node: Node) -> CapacityType:
    """Return how a node is bought by its labels, else by the catalogue.

    Reservations are often known to the catalogue alone, and their nodes labelled as on demand.
    """
    told, said = node_facts(node).capacity_type, pool.capacity_type
    if told is None or (told is CapacityType.ON_DEMAND and said is CapacityType.RESERVED):
        return said
    return told


def _parts(
    pool: GpuPool,
    mix: _Mix,
    values: Mapping[str, str],
    nodes: Sequence[Node],
    taken: Collection[str],
) -> list[_Part]:
    """Split the nodes by what they have; the part that keeps the pool's name is the first.

    That is the one of which the catalogue speaks, else the largest.
    """
    by_value: dict[str, list[str]] = {}
    for name, value in sorted(values.items()):
        by_value.setdefault(value, []).append(name)
    ordered = sorted(by_value, key=lambda value: (value != mix.said, -len(by_value[value]), value))
    names = [pool.name]
    for value in ordered[1:]:
        names.append(_new_name(pool.name, value, {*taken, *names}))
    return [
        _Part(value, name, tuple(by_value[value]), _selector(pool, mix, by_value[value], nodes))
        for value, name in zip(ordered, names, strict=True)
    ]


def _new_name(name: str, value: str, taken: Collection[str]) -> str:
    tail = _NOT_IN_A_NAME.sub("-", value.lower()).strip("-")
    number = 1
    while True:
        end = f"-{tail}" if number == 1 else f"-{tail}-{number}"
        found = f"{name[: _LONGEST_NAME - len(end)]}{end}"
        if found not in taken:
            return found
        number += 1


def _selector(
    pool: GpuPool, mix: _Mix, names: Collection[str], nodes: Sequence[Node]
) -> dict[str, str] | None:
    """Choose what only these nodes have: a label that tells the difference itself, else any that last."""
    mine = [node.metadata.labels for node in nodes if node.metadata.name in names]
    wider = pool.node_selector.items()
    others = [
        node.metadata.labels
        for node in nodes
        if node.metadata.name not in names and wider <= node.metadata.labels.items()
    ]
    for key in mix.labels:
        values = {labels.get(key) for labels in mine}
        if len(values) == 1 and all(values) and values.isdisjoint({labels.get(key) for labels in others}):
            return {**pool.node_selector, key: str(values.pop())}
    found = select_exactly(names, nodes)
    return None if found is None else {**pool.node_selector, **found}


def _finding(pool: GpuPool, mix: _Mix, parts: Sequence[_Part]) -> Finding:
    told = "; ".join(f"{part.value}: {few(part.nodes)}" for part in parts)
    selectors = [part.selector for part in parts]
    fix, fill_in = _lines(pool, mix, parts) if None not in selectors else (_by_hand(mix, parts), ())
    kind = FixKind.CATALOG if None not in selectors else FixKind.ADVICE
    return Finding(
        id=mix.id,
        severity=Severity.WARNING,
        where=f"pool {pool.name!r}",
        what=f"its nodes {mix.what} ({told}), and a pool has one {mix.key} and one price: split it",
        fix=fix,
        kind=kind,
        fill_in=fill_in,
        pool=pool.name,
    )


def _by_hand(mix: _Mix, parts: Sequence[_Part]) -> str:
    nodes = "; ".join(f"{part.value} ({', '.join(part.nodes)})" for part in parts)
    return (
        f"no lasting labels tell these nodes apart: {nodes}; give each of these groups a label of its own "
        "where its machines are set up, and make a pool of each, with that label in node_selector and its "
        f"{mix.key}"
    )


def _lines(pool: GpuPool, mix: _Mix, parts: Sequence[_Part]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Write what changes of the pool, and whole entries for the new ones beside it."""
    entries: list[dict[str, Any]] = []
    asked: list[tuple[str, str]] = []
    for part in parts:
        word = _NOT_IN_A_NAME.sub("_", part.value.lower()).strip("_").upper()
        new = part.name != pool.name
        keys: dict[str, Any] = {"name": part.name, mix.key: part.value, "node_selector": part.selector}
        if pool.growth.max_nodes is not None:
            keys["max_nodes"] = f"<NODES_{word}>"
            asked.append((f"<NODES_{word}>", f"most nodes that pool {part.name} may have"))
        if pool.price.gpu_hour_usd is not None and part.value != mix.said and (new or mix.said is not None):
            keys["price"] = {"gpu_hour_usd": f"<USD_{word}>"}
            asked.append((f"<USD_{word}>", f"what one GPU of pool {part.name} costs for an hour in USD"))
        entries.append({**_like(pool, mix), **keys} if new else keys)
    return entry_lines("pools", *entries), tuple(asked)


def _like(pool: GpuPool, mix: _Mix) -> dict[str, Any]:
    """Return the entry of a pool, as far as it holds for another part of it."""
    entry = whole_entry(pool)
    left_out = {"price", *(("interruptions_per_gpu_hour",) if mix.key == "capacity_type" else ("zone",))}
    return {key: value for key, value in entry.items() if key not in left_out}
