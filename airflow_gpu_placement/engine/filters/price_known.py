"""The price is known where money is limited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.model.reasons import Reason, ReasonCode

if TYPE_CHECKING:
    from airflow_gpu_placement.engine.view import PoolView


def check(view: PoolView) -> Reason | None:
    """Refuse a pool without a price under a cap or a budget; without these it only comes last."""
    question = view.question
    if view.cash_price is not None or (question.price_cap is None and question.budget_left_usd is None):
        return None
    limit = "price cap" if question.price_cap is not None else "budget"
    return Reason(
        code=ReasonCode.PRICE_UNKNOWN,
        needed="a known price",
        observed="unknown",
        message=f"nothing tells what a GPU of pool {view.pool.name} costs and the job has a {limit}; "
        "set price.gpu_hour_usd of the pool in the catalogue",
    )
