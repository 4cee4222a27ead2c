"""A GPU of the pool costs no more than the request and its profile allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.amounts import apart
from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool that is dearer than the cap; what has no price is another reason."""
    cap, price = view.question.price_cap, view.cash_price
    if cap is None or price is None or price <= cap:
        return None
    observed, needed = apart(price, cap, 6, "g")
    return Reason(
        code=ReasonCode.PRICE_CAP_EXCEEDED,
        needed=f"<= {needed} USD per GPU hour",
        observed=f"{observed} USD",
        message=f"a GPU of pool {view.pool.name} costs {observed} USD an hour, the cap is {needed}",
    )
