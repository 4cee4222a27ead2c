"""The tenant's budget covers the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.amounts import apart
from airflow_gpu_placement.engine.budget import covers
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool in which the job would cost more money than is left in this month."""
    left = view.question.budget_left_usd
    if left is None:
        return None
    cash = view.basis.cash_usd
    if cash is None or covers(left, cash):
        return None
    tenant = view.question.setting.tenant
    name = "" if tenant is None else tenant.name
    needed, observed = apart(cash, left)
    return Reason(
        code=ReasonCode.BUDGET_EXHAUSTED,
        needed=f"{needed} USD",
        observed=f"{observed} USD left",
        message=f"the job would cost {needed} USD in pool {view.pool.name}, tenant {name} has "
        f"{observed} USD left in this month",
    )
