"""A decision over many pools still fits into Airflow's task state store."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from airflow_gpu_placement.operators.decision_size import MAX_DECISION_BYTES, shortened


def decision(pools: int, text: str) -> dict[str, Any]:
    """Make a stored decision in the shape of the record, with so much text for each pool."""
    reasons = [{"code": "GpuModelNotOffered", "message": text}]
    verdicts = [
        {"pool": f"p{number}", "verdict": "unresolvable", "reasons": reasons} for number in range(pools)
    ]
    return {
        "chosen": None,
        "snapshot": {"pools": {"p": {"nodes": [{"name": text * pools, "labels": {}}]}}},
        "pools": [text] * pools,
        "verdicts": verdicts,
    }


def test_a_small_decision_is_kept_whole() -> None:
    """With few pools it can be decided again from what is stored."""
    kept = decision(3, "x")

    assert shortened(kept) is kept


def test_labels_that_decide_nothing_go_first() -> None:
    """Only the chosen pool's nodes are asked for theirs, so the rest can be decided again all the same."""
    nodes = [{"name": f"n{number}", "labels": {"product": "x" * 200}} for number in range(150)]
    pools = {name: {"pool": name, "nodes": nodes} for name in ("p", "q")}
    kept = shortened({"chosen": "q", "snapshot": {"pools": pools}, "pools": [], "verdicts": []})

    assert "shortened" not in kept
    assert kept["snapshot"]["pools"]["q"]["nodes"] == nodes
    assert kept["snapshot"]["pools"]["p"]["nodes"][7] == {"name": "n7", "labels": {}}


@pytest.mark.parametrize("pools", [30, 100, 1000])
def test_a_large_decision_is_cut_to_what_the_store_takes(pools: int) -> None:
    """The nodes go first, then all but the codes; that it was cut is said."""
    kept = shortened(decision(pools, "x" * 1000))

    assert len(msgspec.json.encode(kept)) <= MAX_DECISION_BYTES
    assert (kept["shortened"], kept["snapshot"], kept["verdicts"][0]["pool"]) == (True, None, "p0")
