"""Changes of a counterfactual in words: nodes by their names, everything else by its path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.pointers import segments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_gpu_placement.model.counterfactual import Change
    from airflow_gpu_placement.model.signals import PoolSignals

_SHOWN = 80
_MOST_NAMES = 3


class ChangeWords:
    """Says what changes; each one may speak of nodes that an earlier one has added.

    :param signals: of the pool, as they were before any change.
    """

    def __init__(self, signals: PoolSignals | None) -> None:
        self._names = [] if signals is None else [node.name for node in signals.nodes]

    def rows(self, changes: Sequence[Change]) -> list[str]:
        """Return one row for each value that changes, and one for all those of a node."""
        rows: dict[str, list[str]] = {}
        for change in changes:
            where, what = self._told(change)
            rows.setdefault(where, []).append(what)
        return [f"{where}: {', '.join(what)}" for where, what in rows.items()]

    def _told(self, change: Change) -> tuple[str, str]:
        path = segments(change.path)
        if path == ("signals",):
            return "signals", f"none -> {self._seen(change.after['nodes'])}"
        if path == ("signals", "nodes"):
            before = len(self._names)
            return "nodes", f"{before} -> {self._seen(change.after)}"
        if path[:2] == ("signals", "nodes"):
            return f"node {self._names[int(path[2])]}", f"{'.'.join(path[3:])} {_from_to(change)}"
        return ".".join(path), _from_to(change)

    def _seen(self, nodes: Sequence[Mapping[str, Any]]) -> str:
        known = set(self._names)
        self._names = [node["name"] for node in nodes]
        new = [node for node in nodes if node["name"] not in known]
        names = ", ".join(node["name"] for node in new[:_MOST_NAMES])
        more = f" and {len(new) - _MOST_NAMES} more" if len(new) > _MOST_NAMES else ""
        free = " or ".join(sorted({str(node["free"]) for node in new}))
        return f"{len(nodes)} ({names}{more} with GPUs free: {free})" if new else str(len(nodes))


def _from_to(change: Change) -> str:
    return f"{_short(change.before)} -> {_short(change.after)}"


def _short(value: Any) -> str:
    text = "none" if value is None else msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
