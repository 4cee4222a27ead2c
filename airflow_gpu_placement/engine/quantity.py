"""Whole numbers out of resource quantities."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Quantity

_SHAPE = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,3}))?", re.ASCII)

_FACTORS: dict[str, Decimal] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", start=1)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)},
}
_THOUSANDTHS = frozenset({"cpu", "requests.cpu", "limits.cpu"})
"""Resources that are counted in thousandths, as schedulers do."""


def is_quantity(quantity: Quantity) -> bool:
    """Whether a text is a quantity at all; an API server sends no other, other writers may."""
    return type(quantity) is int or _decimal(str(quantity).strip()) is not None


def whole(quantity: Quantity, *, round_up: bool = False) -> int:
    """Return the whole devices that a quantity stands for; what cannot be read stands for none.

    The API server allows only whole numbers for devices but keeps the notation: ``"8"``, ``"8000m"``, ``8``.

    :param quantity: as the API sends it; :func:`is_quantity` tells whether it can be read.
    :param round_up: what a pod holds is rounded up, what a node offers is rounded down.
    """
    if type(quantity) is int:
        return quantity
    return _whole(str(quantity).strip(), round_up)


def units(resource: str, quantity: Quantity, *, round_up: bool = False) -> int:
    """Return a quantity of any resource as a whole number: thousandths of a CPU, bytes, devices."""
    if resource not in _THOUSANDTHS:
        return whole(quantity, round_up=round_up)
    return _thousandths(str(quantity).strip(), round_up)


@lru_cache(maxsize=4096)
def _whole(text: str, round_up: bool) -> int:
    value = _decimal(text)
    return 0 if value is None else _rounded(value, round_up)


@lru_cache(maxsize=4096)
def _thousandths(text: str, round_up: bool) -> int:
    value = _decimal(text)
    return 0 if value is None else _rounded(value * 1000, round_up)


def _rounded(value: Decimal, round_up: bool) -> int:
    return int(value.to_integral_value(ROUND_CEILING if round_up else ROUND_FLOOR))


def _decimal(text: str) -> Decimal | None:
    match = _SHAPE.fullmatch(text)
    if match is None:
        return None
    digits, suffix, exponent = match.groups()
    value = Decimal(digits)
    if suffix:
        return value * _FACTORS[suffix]
    return value.scaleb(int(exponent)) if exponent else value
