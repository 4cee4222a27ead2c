"""A decision with one pool, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.model.request import GpuRequest
from tests.unit.engine.builders import decide, pool, signals

if TYPE_CHECKING:
    from airflow_gpu_placement.model.decision import Decision, History

ONE = GpuRequest(gpus_per_node=8, models=("H100",))
GANG = GpuRequest(gpus_per_node=8, nodes=2, models=("H100",))


def one_pool(request: GpuRequest, *nodes: Any, history: History | None = None, **fields: Any) -> Decision:
    """Decide with a single pool that has these nodes."""
    return decide(request, [pool(**fields)], signals("p", *nodes), history=history)
