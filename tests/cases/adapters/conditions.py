"""Conditions, which a case may write as type names alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cases.adapters.reading import by_type

if TYPE_CHECKING:
    from collections.abc import Mapping


def condition(value: Any) -> Mapping[str, Any]:
    """Read a condition; one of which only the type is written holds."""
    read: Mapping[str, Any] = by_type(
        value,
        {str: lambda name: {"type": name, "status": "True"}, dict: lambda given: {"status": "True", **given}},
    )
    return read
