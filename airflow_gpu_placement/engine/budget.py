"""Money that is given to one request after the other: none of them may rely on what another was promised."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence


_NOTHING_USD = 1e-9
"""Less than any price: what sums of decimal amounts are off by."""


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests got their money, in order, and what is spent and promised then."""

    admitted: tuple[bool, ...]
    spent_usd: float


def covers(left_usd: float, cost_usd: float) -> bool:
    """Whether what is left pays for a request, to the last cent: three times 0.10 are 0.30."""
    return cost_usd <= left_usd or math.isclose(cost_usd, left_usd, rel_tol=0.0, abs_tol=_NOTHING_USD)


def admit_in_order(budget_usd: float | None, spent_usd: float, costs_usd: Sequence[float]) -> Admitted:
    """Promise money to requests in order of arrival; one that is refused keeps no later one from it.

    :param budget_usd: ``None``: no limit.
    :param costs_usd: what each would cost in USD.
    """
    admitted = []
    for cost in costs_usd:
        admitted.append(budget_usd is None or covers(budget_usd - spent_usd, cost))
        if admitted[-1]:
            spent_usd += cost
    return Admitted(admitted=tuple(admitted), spent_usd=spent_usd)
