"""Money that is given to one request after the other: none of them may rely on what another was promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests got their money, in order, and what is spent and promised then."""

    admitted: tuple[bool, ...]
    spent_usd: float


def covers(left_usd: float, cost_usd: float) -> bool:
    """Whether what is left pays for a request, to the last cent."""
    return cost_usd <= left_usd


def admit_in_order(budget_usd: float, spent_usd: float, costs_usd: Sequence[float]) -> Admitted:
    """Promise money to requests in order of arrival; one that is refused keeps no later one from it.

    :param costs_usd: what each would cost in USD.
    """
    admitted = []
    for cost in costs_usd:
        admitted.append(covers(budget_usd - spent_usd, cost))
        if admitted[-1]:
            spent_usd += cost
    return Admitted(admitted=tuple(admitted), spent_usd=spent_usd)
