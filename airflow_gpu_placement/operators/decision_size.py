"""Make a decision record small enough for Airflow's task state store."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_DECISION_BYTES = 60_000
"""Airflow's task state store is made for values up to 64 kB."""

MAX_VERDICTS = 300
"""Pools that are still named when nothing but their reason codes fits in."""


def shortened(kept: dict[str, Any]) -> dict[str, Any]:
    """Return what the task state store takes of a decision: less the nodes, then less all but codes."""
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
