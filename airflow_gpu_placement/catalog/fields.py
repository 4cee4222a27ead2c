"""Readers of single values: each returns the value, or notes a problem and returns nothing."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.catalog.reader import Reader, Schema, mapping, shown
from airflow_gpu_placement.model.nearest import nearest
from airflow_gpu_placement.model.words import spelled

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.catalog.problems import Problems

_LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_LABEL_VALUE = re.compile(rf"({_LABEL_NAME})?")
_LABEL_KEY = re.compile(rf"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?{_LABEL_NAME}")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CONN_ID = re.compile(r"(?!.*://)[\w#!().:/\\-]{1,250}")
_PLACE = re.compile(r"<[A-Z]+>")
"""What stands in lines to paste for what only a person knows."""
_NOT_BLANK = r"\S"
_MOST = 10**9
"""Largest whole number that means anything here: a thousand million GPUs, or thirty years in seconds."""


def optional(reader: Reader) -> Reader:
    """Let a value be empty, which means that it is not known."""

    def read(value: Any, path: str, problems: Problems) -> Any:
        return None if value is None else reader(value, path, problems)

    if "enum" in reader.schema:
        return Reader(read, {**reader.schema, "enum": [*reader.schema["enum"], None]})
    return Reader(read, {**reader.schema, "type": [reader.schema["type"], "null"]})


def _text(value: Any, path: str, problems: Problems) -> str | None:
    if not isinstance(value, str):
        problems.add(path, f"must be text, not {shown(value)}{_quotes(value)}")
        return None
    if not value.strip():
        problems.add(path, "must not be empty")
        return None
    if _PLACE.fullmatch(value):
        problems.add(path, f"{value} is still to be filled in")
        return None
    return value


text = Reader(_text, {"type": "string", "pattern": _NOT_BLANK})
"""A text that is not empty."""


def _quotes(value: Any) -> str:
    return "; put it in quotes" if isinstance(value, bool | int | float) else ""


def shaped(pattern: re.Pattern[str], what: str) -> Reader:
    """Read a text of a certain shape."""

    def read(value: Any, path: str, problems: Problems) -> str | None:
        found = _text(value, path, problems)
        if found is not None and pattern.fullmatch(found) is None:
            problems.add(path, f"{shown(found)} is not {what}")
            return None
        return found

    return Reader(read, {"type": "string", "pattern": f"^({pattern.pattern})$"})


name = shaped(re.compile(_LABEL_NAME), "a name: up to 63 letters, digits, '-', '_' and '.'")
namespace = shaped(_DNS_LABEL, "a namespace: up to 63 lower-case letters, digits and '-'")
object_name = shaped(_DNS_LABEL, "a name in Kubernetes: up to 63 lower-case letters, digits and '-'")
label_key = shaped(_LABEL_KEY, "a label key such as 'nvidia.com/gpu.product'")


def _conn_id(value: Any, path: str, problems: Problems) -> str | None:
    found = _text(value, path, problems)
    if found is not None and _CONN_ID.fullmatch(found) is None:
        # The value stays untold: it may be a whole connection, with its password.
        what = "a URL" if "://" in found else "this text"
        problems.add(
            path,
            f"must be the id of an Airflow connection, such as 'onprem', not {what}; connections are kept in "
            "Airflow, with their secrets (airflow connections add ID ...), and only named here",
        )
        return None
    return found


conn_id = Reader(_conn_id, {"type": "string", "pattern": f"^({_CONN_ID.pattern})$"})
"""Id of an Airflow connection, and never a connection itself."""


def choice(*values: str) -> Reader:
    """Read one of a few words."""

    def read(value: Any, path: str, problems: Problems) -> str | None:
        if value in values and isinstance(value, str):
            return value
        hint = nearest(value, values) if isinstance(value, str) else f"one of: {', '.join(values)}"
        listed = "" if hint.startswith("one of") else f" (one of: {', '.join(values)})"
        problems.add(path, f"{shown(value)} is not possible here; {hint}{listed}")
        return None

    return Reader(read, {"enum": list(values)})


def word(what: str, *values: str) -> Reader:
    """Read one of a few words in any spelling: ``sxm5`` is ``SXM``.

    :param what: kind of word, for the messages.
    """

    def read(value: Any, path: str, problems: Problems) -> str | None:
        found = _text(value, path, problems)
        if found is None:
            return None
        try:
            return spelled(found, values, what)
        except ValueError as error:
            problems.add(path, str(error))
            return None

    pattern = "|".join(map(_any_spelling, values))
    return Reader(read, {"type": "string", "pattern": f"^({pattern})[0-9]*$", "examples": list(values)})


def _any_spelling(word: str) -> str:
    """Write a word as a pattern that any case and any separator meets; JSON schema has no flags."""
    return "".join(f"[{letter.lower()}{letter.upper()}]" if letter.isalpha() else "[-_ ]" for letter in word)


def _flag(value: Any, path: str, problems: Problems) -> bool | None:
    if not isinstance(value, bool):
        problems.add(path, f"must be true or false, not {shown(value)}")
        return None
    return value


flag = Reader(_flag, {"type": "boolean"})
"""True or false."""


def whole_number(least: int = -_MOST, most: int = _MOST) -> Reader:
    """Read a whole number that is neither too small nor too large."""

    def read(value: Any, path: str, problems: Problems) -> int | None:
        if isinstance(value, bool) or not isinstance(value, int):
            problems.add(path, f"must be a whole number, not {shown(value)}")
            return None
        if value < least:
            problems.add(path, f"must be at least {least}, not {shown(value)}")
            return None
        if value > most:
            problems.add(path, f"must be at most {most}, not {shown(value)}")
            return None
        return value

    return Reader(read, {"type": "integer", "minimum": least, "maximum": most})


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no number with a fraction is as large as
        return False


def number(*, above: float | None = None, least: float | None = None) -> Reader:
    """Read a finite number with a lower bound.

    :param above: the value must be larger than this.
    :param least: the value must be this or larger.
    """

    def read(value: Any, path: str, problems: Problems) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            problems.add(path, f"must be a number, not {shown(value)}")
            return None
        if above is not None and value <= above:
            problems.add(path, f"must be more than {above:g}, not {value:g}")
            return None
        if least is not None and value < least:
            problems.add(path, f"must be at least {least:g}, not {value:g}")
            return None
        return float(value)

    schema: Schema = {"type": "number"}
    if above is not None:
        schema["exclusiveMinimum"] = above
    if least is not None:
        schema["minimum"] = least
    return Reader(read, schema)


def many(reader: Reader, *, least: int = 0) -> Reader:
    """Read a list of values of one kind into a tuple.

    :param least: how many there must be.
    """

    def read(value: Any, path: str, problems: Problems) -> tuple[Any, ...]:
        if not isinstance(value, list):
            problems.add(path, f"must be a list, not {shown(value)}; write [{_unquoted(value)}]")
            return ()
        if len(value) < least:
            problems.add(path, f"must have at least {least} entry, not {len(value)}")
        return tuple(reader(inner, f"{path}[{index}]", problems) for index, inner in enumerate(value))

    schema: Schema = {"type": "array", "items": reader.schema}
    return Reader(read, {**schema, "minItems": least} if least else schema)


def _unquoted(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= 40 else "..."


def by_name(reader: Reader, keys: Callable[[str], str | None], key_schema: Schema) -> Reader:
    """Read a mapping whose keys are free.

    :param keys: says what is wrong with a key; ``None``: nothing.
    :param key_schema: the same as JSON schema.
    """

    def read(value: Any, path: str, problems: Problems) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, inner in (mapping(value, path, problems) or {}).items():
            wrong = keys(key)
            if wrong is not None:
                problems.add(f"{path}.{key}", wrong)
            else:
                found[key] = reader(inner, f"{path}.{key}", problems)
        return found

    return Reader(
        read, {"type": "object", "propertyNames": key_schema, "additionalProperties": reader.schema}
    )


def _label_value(value: Any, path: str, problems: Problems) -> str | None:
    if not isinstance(value, str):
        problems.add(path, f"must be text, not {shown(value)}{_quotes(value)}")
    elif _LABEL_VALUE.fullmatch(value) is None:
        problems.add(path, f"{shown(value)} is not a label value: up to 63 letters, digits, '-', '_', '.'")
    else:
        return value
    return None


def _wrong_label_key(key: str) -> str | None:
    return None if _LABEL_KEY.fullmatch(key) else "is not a label key such as 'nvidia.com/gpu.product'"


labels = by_name(
    Reader(_label_value, {"type": "string", "pattern": f"^({_LABEL_VALUE.pattern})$"}),
    _wrong_label_key,
    label_key.schema,
)
"""Kubernetes labels."""
