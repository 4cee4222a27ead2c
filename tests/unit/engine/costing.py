"""The cost of one job in one pool, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.model.request import GpuRequest
from tests.unit.engine.builders import decide, pool, seen, signals, verdict_of

if TYPE_CHECKING:
    from airflow_gpu_placement.model.decision import Setting
    from airflow_gpu_placement.model.estimate import Cost

AT_ONCE = float("inf")


def cost(
    request: dict[str, Any],
    *,
    setting: Setting | None = None,
    nodes: Any = None,
    seen_as: Any = None,
    **fields: Any,
) -> Cost:
    """Return the cost in one pool without interruptions, unless something else is given."""
    fields.setdefault("interruptions_per_gpu_hour", 0.0)
    observed = signals("p", *([seen()] if nodes is None else nodes), **(seen_as or {}))
    found = verdict_of(decide(GpuRequest(**request), [pool(**fields)], observed, setting=setting)).cost
    assert found is not None
    return found


def usd(found: Cost) -> dict[str, float]:
    """Return the terms by name."""
    return {term.name: term.usd for term in found.terms}


def hours(value: float) -> dict[str, Any]:
    """Return a request for one node with a runtime."""
    return {"gpus_per_node": 8, "time": {"runtime_hours": value}}


GROWS = {"max_nodes": 4, "per_node": 8, "model": "H100", "provisioning_seconds": 720.0}
