"""The tenant has quota left: GPUs that it may hold, and what Kueue would admit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse while the quota is used up; nothing read of a queue is unknown, which is never free."""
    return _tenant(view) or _queue(view)


def _tenant(view: PoolView) -> Reason | None:
    tenant = view.question.setting.tenant
    needed = view.question.total_gpus
    if tenant is None or tenant.max_gpus is None or needed > tenant.max_gpus:
        return None
    left = tenant.max_gpus - view.question.setting.knowledge.held_gpus.get(tenant.name, 0)
    if left >= needed:
        return None
    return _reason(
        ReasonCode.QUOTA_EXHAUSTED,
        needed,
        left,
        f"tenant {tenant.name} may hold {tenant.max_gpus} GPUs and has {max(left, 0)} left",
    )


def _queue(view: PoolView) -> Reason | None:
    if view.local_queue is None or not view.known:
        return None
    quota, needed = view.quota, view.question.total_gpus
    if quota is None:
        return Reason(
            code=ReasonCode.SIGNALS_MISSING,
            needed=f"quota of {view.local_queue}",
            observed="none",
            message=f"nothing was read about local queue {view.local_queue} of pool {view.pool.name}",
        )
    if quota.potential < needed:
        return _reason(
            ReasonCode.EXCEEDS_POOL_SIZE,
            needed,
            quota.potential,
            f"queue {quota.cluster_queue} could never have more than {quota.potential} GPUs of flavour "
            f"{quota.flavor}, were nobody else there",
        )
    available = quota.available - view.unseen_gpus
    if available >= needed:
        return None
    claimed = f", {view.unseen_gpus} of them claimed" if view.unseen_gpus else ""
    return _reason(
        ReasonCode.QUOTA_EXHAUSTED,
        needed,
        available,
        f"queue {quota.cluster_queue} would admit {max(quota.available, 0)} GPUs of flavour {quota.flavor} "
        f"now{claimed}; {quota.pending_ahead} workloads wait",
    )


def _reason(code: ReasonCode, needed: int, left: int, message: str) -> Reason:
    return Reason(
        code=code,
        needed=f"quota for {needed} GPUs",
        observed=f"{max(left, 0)} left",
        message=f"{message}; the job needs {needed}",
    )
