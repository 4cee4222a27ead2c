"""One request after the other on queues that share nothing: a sum of what is left never admits anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Arrivals(msgspec.Struct, frozen=True, kw_only=True):
    """Where each request went, in order (``None``: it waits), and what each queue has left."""

    placed: tuple[str | None, ...]
    left: dict[str, int]


def admit_in_order(available: Mapping[str, int], sizes: Sequence[int]) -> Arrivals:
    """Give each request to the first queue, in the order given, that can take all of it alone.

    :param available: queue name -> GPUs that it can give now.
    :param sizes: GPUs of each request, in order of arrival; one that waits keeps nobody back.
    """
    left = dict(available)
    placed = []
    for gpus in sizes:
        chosen = next((name for name, free in left.items() if free >= gpus), None)
        if chosen is not None:
            left[chosen] -= gpus
        placed.append(chosen)
    return Arrivals(placed=tuple(placed), left=left)
