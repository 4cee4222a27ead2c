"""Readers of single values: each returns the value, or notes a problem and returns nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from airflow_gpu_placement.catalog.problems import Problems
from airflow_gpu_placement.model.nearest import nearest

Reader = Callable[[Any, str, Problems], Any]

_SECRET = re.compile(
    r"token|passw|secret|kube_?config|credential|bearer|api_?key|client_?(key|cert)|private_?key|certificate",
    re.I,
)
_LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_VALUE = re.compile(rf"({_LABEL_NAME})?")
_LABEL_KEY = re.compile(rf"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{_LABEL_NAME}")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def shown(value: object) -> str:
    """Show a value in a message, shortened; a mapping or list only by its kind."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def mapping(value: Any, path: str, problems: Problems) -> dict[str, Any] | None:
    """Read a mapping with text keys."""
    if not isinstance(value, dict):
        problems.add(path, f"must be a mapping of keys to values, not {shown(value)}")
        return None
    for key in value:
        if not isinstance(key, str):
            problems.add(path, f"key {shown(key)} must be text; put it in quotes")
    return {key: inner for key, inner in value.items() if isinstance(key, str)}


def fields(value: Any, path: str, problems: Problems, readers: Mapping[str, Reader]) -> dict[str, Any]:
    """Read a mapping with known keys, and note every unknown one with the nearest known name.

    :return: the fields that were given and could be read.
    """
    given = mapping(value, path, problems)
    read: dict[str, Any] = {}
    for key, inner in (given or {}).items():
        inside = f"{path}.{key}" if path else key
        if key in readers:
            before = len(problems.found)
            parsed = readers[key](inner, inside, problems)
            if len(problems.found) == before:
                read[key] = parsed
        elif _SECRET.search(key):
            problems.add(inside, "secrets do not belong here; put it in the Airflow connection")
        else:
            problems.add(inside, f"is not a known key; {nearest(key, readers)}")
    return read


def optional(reader: Reader) -> Reader:
    """Let a value be empty, which means that it is not known."""

    def read(value: Any, path: str, problems: Problems) -> Any:
        return None if value is None else reader(value, path, problems)

    return read


def text(value: Any, path: str, problems: Problems) -> str | None:
    """Read a text that is not empty."""
    if not isinstance(value, str):
        problems.add(path, f"must be text, not {shown(value)}{_quotes(value)}")
        return None
    if not value.strip():
        problems.add(path, "must not be empty")
        return None
    return value


def _quotes(value: Any) -> str:
    return "; put it in quotes" if isinstance(value, bool | int | float) else ""


def shaped(pattern: re.Pattern[str], what: str) -> Reader:
    """Read a text of a certain shape."""

    def read(value: Any, path: str, problems: Problems) -> str | None:
        found = text(value, path, problems)
        if found is not None and pattern.fullmatch(found) is None:
            problems.add(path, f"{shown(found)} is not {what}")
            return None
        return found

    return read


name = shaped(re.compile(_LABEL_NAME), "a name: up to 63 letters, digits, '-', '_' and '.'")
namespace = shaped(_DNS_LABEL, "a namespace: up to 63 lower-case letters, digits and '-'")


def choice(*values: str) -> Reader:
    """Read one of a few words."""

    def read(value: Any, path: str, problems: Problems) -> str | None:
        if value in values and isinstance(value, str):
            return value
        hint = nearest(value, values) if isinstance(value, str) else f"one of: {', '.join(values)}"
        listed = "" if hint.startswith("one of") else f" (one of: {', '.join(values)})"
        problems.add(path, f"{shown(value)} is not possible here; {hint}{listed}")
        return None

    return read


def flag(value: Any, path: str, problems: Problems) -> bool | None:
    """Read true or false."""
    if not isinstance(value, bool):
        problems.add(path, f"must be true or false, not {shown(value)}")
        return None
    return value


def whole_number(least: int) -> Reader:
    """Read a whole number that is not too small."""

    def read(value: Any, path: str, problems: Problems) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int):
            problems.add(path, f"must be a whole number, not {shown(value)}")
            return None
        if value < least:
            problems.add(path, f"must be at least {least}, not {value}")
            return None
        return value

    return read


def number(*, above: float | None = None, least: float | None = None) -> Reader:
    """Read a finite number with a lower bound.

    :param above: the value must be larger than this.
    :param least: the value must be this or larger.
    """

    def read(value: Any, path: str, problems: Problems) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            problems.add(path, f"must be a number, not {shown(value)}")
            return None
        if above is not None and value <= above:
            problems.add(path, f"must be more than {above:g}, not {value:g}")
            return None
        if least is not None and value < least:
            problems.add(path, f"must be at least {least:g}, not {value:g}")
            return None
        return float(value)

    return read


def labels(value: Any, path: str, problems: Problems) -> dict[str, str]:
    """Read Kubernetes labels."""
    read: dict[str, str] = {}
    for key, inner in (mapping(value, path, problems) or {}).items():
        inside = f"{path}.{key}"
        if _LABEL_KEY.fullmatch(key) is None:
            problems.add(inside, "is not a label key such as 'nvidia.com/gpu.product'")
        elif not isinstance(inner, str):
            problems.add(inside, f"must be text, not {shown(inner)}{_quotes(inner)}")
        elif _LABEL_VALUE.fullmatch(inner) is None:
            problems.add(
                inside, f"{shown(inner)} is not a label value: up to 63 letters, digits, '-', '_', '.'"
            )
        else:
            read[key] = inner
    return read
