"""In which region a pool is: the catalogue's word, else that of its nodes' labels where they agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_gpu_placement.engine.view import PoolView
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity, PoolSignals

NODE_LABELS = "node labels"
"""Source of a region that the catalogue does not say."""

_MOST_NAMES = 3


def located(pool: GpuPool, signals: PoolSignals | None) -> GpuPool:
    """Return a pool with the region that its nodes agree on, where the catalogue says none.

    What another snapshot told is forgotten first, so that a record that is decided again rests on its own.
    """
    place = pool.place
    if place.region is not None and place.region_source is None:
        return pool
    region = None if signals is None else region_agreed_on(signals.nodes)
    if region == place.region:
        return pool
    source = None if region is None else NODE_LABELS
    return msgspec.structs.replace(
        pool, place=msgspec.structs.replace(place, region=region, region_source=source)
    )


def region_agreed_on(nodes: Iterable[NodeCapacity]) -> str | None:
    """Return the region that all nodes name.

    A node that does not tell may be anywhere. Only one that is closed to new pods is left out then, as a
    fresh one is until its cloud has put the labels on it.

    :return: ``None``: they disagree, or one that a job may get does not tell.
    """
    told = {node.region for node in nodes if node.region or not node.closed}
    return told.pop() if len(told) == 1 else None


def region_counts(view: PoolView) -> bool:
    """Whether it matters to the request where a pool is."""
    where = view.request.where
    moved = view.request.data or view.question.setting.knowledge.checkpoint_region is not None
    return bool(where.regions or where.denied_regions or moved)


def is_nowhere_yet(view: PoolView) -> bool:
    """Whether nothing tells where a pool is because no node of it was seen: that is unknown, and no "no"."""
    return view.pool.place.region is None and not view.nodes


def silent_nodes(view: PoolView) -> frozenset[str]:
    """Return the nodes that may be elsewhere than their labels tell of the pool."""
    if view.pool.place.region_source is None or not region_counts(view):
        return frozenset()
    return frozenset([node.name for node in view.nodes if not node.region])


def region_note(view: PoolView) -> str | None:
    """Say where the region of a pool comes from when it matters and the catalogue does not say it."""
    place = view.pool.place
    if not region_counts(view):
        return None
    if place.region_source is not None:
        return f"region {place.region} is what the {place.region_source} say; the catalogue says none"
    return f"region unknown: {said}" if place.region is None and (said := _disagreement(view.nodes)) else None


def unknown_because(view: PoolView) -> str:
    """Say why a pool that has nodes has no region, and what to do, to be read behind another sentence."""
    said = _disagreement(view.nodes)
    if not said:
        return "; set region of the pool in the catalogue"
    return f"; {said}: make a pool of each region, with its node_selector, or set region of the pool"


def _disagreement(nodes: Iterable[NodeCapacity]) -> str:
    """Say which regions nodes name; empty: none names any."""
    by_region: dict[str, list[str]] = {}
    for node in nodes:
        by_region.setdefault(node.region or "", []).append(node.name)
    silent = by_region.pop("", [])
    if not by_region:
        return ""
    told = [f"{region} ({_few(names)})" for region, names in sorted(by_region.items())]
    told += [f"nothing ({_few(silent)})"] if silent else []
    return f"the labels of its nodes name {' and '.join(told)}"


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"
