"""Whole devices out of resource quantities."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Quantity

_SHAPE = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?")

_FACTORS: dict[str, Decimal] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)},
}


def whole(quantity: Quantity, *, round_up: bool = False) -> int:
    """Return the whole devices that a quantity stands for.

    The API server allows only whole numbers for devices but keeps the notation: ``"8"``, ``"8000m"``, ``8``.

    :param quantity: as the API sends it.
    :param round_up: what a pod holds is rounded up, what a node offers is rounded down.
    :raises ValueError: not a quantity; an API server never sends one.
    """
    if type(quantity) is int:
        return quantity
    return _whole(str(quantity).strip(), round_up)


@lru_cache(maxsize=4096)
def _whole(text: str, round_up: bool) -> int:
    if text.isdecimal():
        return int(text)
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a resource quantity; write for example 8 or '8000m'")
    digits, suffix, exponent = match.groups()
    value = Decimal(digits)
    if suffix:
        value *= _FACTORS[suffix]
    elif exponent:
        value = value.scaleb(int(exponent))
    return int(value.to_integral_value(ROUND_CEILING if round_up else ROUND_FLOOR))
