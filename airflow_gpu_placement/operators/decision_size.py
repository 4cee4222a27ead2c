"""Make a decision record small enough for Airflow's task state store."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_DECISION_BYTES = 60_000
"""Airflow's task state store is made for values up to 64 kB."""

MAX_VERDICTS = 300
"""Pools that are still named when nothing but their reason codes fits in."""


def shortened(kept: dict[str, Any]) -> dict[str, Any]:
    """Return what the task state store takes of a decision: less labels, then nodes, then all but codes.

    The labels of nodes decide only what the chosen pool's are asked for, so without the others the same is
    decided again.
    """
    if len(msgspec.json.encode(kept)) <= MAX_DECISION_BYTES:
        return kept
    kept = {**kept, "snapshot": _labels_of_one(kept["snapshot"], kept["chosen"])}
    if len(msgspec.json.encode(kept)) <= MAX_DECISION_BYTES:
        return kept
    kept = {**kept, "snapshot": None, "pools": [], "shortened": True}
    if len(msgspec.json.encode(kept)) <= MAX_DECISION_BYTES:
        return kept
    verdicts = [
        {
            "pool": one["pool"],
            "verdict": one["verdict"],
            "codes": [reason["code"] for reason in one["reasons"]],
        }
        for one in kept["verdicts"]
    ]
    return {**kept, "verdicts": verdicts[:MAX_VERDICTS]}


def _labels_of_one(snapshot: dict[str, Any], chosen: str | None) -> dict[str, Any]:
    """Return a snapshot without the labels of nodes of all pools but one."""
    pools = {
        name: signals
        if name == chosen
        else {**signals, "nodes": [{**node, "labels": {}} for node in signals["nodes"]]}
        for name, signals in snapshot["pools"].items()
    }
    return {**snapshot, "pools": pools}
