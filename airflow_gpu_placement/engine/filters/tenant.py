"""The tenant may use the pool, and so many GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.pool import Execution
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool that is not the tenant's, that it has no queue in, or a request beyond its limit."""
    tenant = view.question.setting.tenant
    name = "any tenant" if tenant is None else tenant.name
    if tenant is not None and not view.question.tenant_may_use(view.pool.name):
        return _reason(
            " or ".join(tenant.pools),
            view.pool.name,
            f"tenant {name} may use {', '.join(tenant.pools)}, not pool {view.pool.name}",
        )
    if tenant is not None and tenant.max_gpus is not None and view.question.total_gpus > tenant.max_gpus:
        return _reason(
            f"{view.question.total_gpus} GPUs",
            f"at most {tenant.max_gpus}",
            f"tenant {name} may hold {tenant.max_gpus} GPUs and the job needs {view.question.total_gpus}",
        )
    if view.pool.execution is not Execution.JOB and view.local_queue is None:
        return _reason(
            f"a local queue for {name}",
            ", ".join(sorted(view.pool.kueue.local_queues)) or "none",
            f"pool {view.pool.name} has no local queue for {name}; add it to kueue.local_queues",
        )
    return None


def _reason(needed: str, observed: str, message: str) -> Reason:
    return Reason(code=ReasonCode.TENANT_NOT_ALLOWED, needed=needed, observed=observed, message=message)
