"""Readers of values and tables of keys; each also says, as JSON schema, what it accepts."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.model.nearest import nearest

if TYPE_CHECKING:
    from airflow_gpu_placement.catalog.problems import Problems

Schema = dict[str, Any]

_SECRET = re.compile(
    r"token|passw|secret|kube_?config|credential|bearer|api_?key|client_?(key|cert)|private_?key|certificate",
    re.I,
)


@dataclass(frozen=True)
class Reader:
    """Reads one value, or notes a problem and returns nothing.

    :param read: takes the value, its path and the problems.
    :param schema: the same rule as JSON schema, as far as that can say it.
    """

    read: Callable[[Any, str, Problems], Any]
    schema: Schema

    def __call__(self, value: Any, path: str, problems: Problems) -> Any:
        """Read a value."""
        return self.read(value, path, problems)


@dataclass(frozen=True)
class Key:
    """One key of a section.

    :param meaning: what it says, in a line, for the reference and for editors.
    :param default: what holds without it, in words.
    :param needed: why it must be there; ``None``: it may be left out.
    """

    reader: Reader
    meaning: str
    default: str = ""
    needed: str | None = field(default=None, kw_only=True)


Keys = Mapping[str, Key]


def shown(value: object) -> str:
    """Show a value in a message, shortened; a mapping or list only by its kind."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    try:
        text = repr(value)
    except ValueError:  # Python writes no whole number that is longer than this
        return f"a number of more than {sys.get_int_max_str_digits()} digits"
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


def fields(value: Any, path: str, problems: Problems, keys: Keys) -> dict[str, Any]:
    """Read a mapping with known keys, and note every unknown one with the nearest known name.

    :return: the fields that were given and could be read.
    """
    given = mapping(value, path, problems)
    read: dict[str, Any] = {}
    for key, inner in (given or {}).items():
        inside = f"{path}.{key}" if path else key
        if key in keys:
            before = len(problems.found)
            parsed = keys[key].reader(inner, inside, problems)
            if len(problems.found) == before:
                read[key] = parsed
        elif _SECRET.search(key):
            problems.add(inside, "secrets do not belong here; put it in the Airflow connection")
        else:
            problems.add(inside, f"is not a known key; {nearest(key, keys)}")
    return read


def need(value: Any, path: str, problems: Problems, keys: Keys) -> None:
    """Note every key that must be there and is not."""
    if isinstance(value, dict):
        for key, about in keys.items():
            if about.needed is not None and key not in value:
                problems.add(f"{path}.{key}", f"is missing; {about.needed}")


def section(keys: Keys) -> Reader:
    """Read a mapping with known keys into a dictionary of what was given."""

    def read(value: Any, path: str, problems: Problems) -> dict[str, Any]:
        found = fields(value, path, problems, keys)
        need(value, path, problems, keys)
        return found

    return Reader(read, section_schema(keys))


def section_schema(keys: Keys) -> Schema:
    """Say as JSON schema what a section accepts."""
    schema: Schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            key: {**about.reader.schema, "description": _described(about)} for key, about in keys.items()
        },
    }
    needed = [key for key, about in keys.items() if about.needed is not None]
    return {**schema, "required": needed} if needed else schema


def _described(about: Key) -> str:
    return f"{about.meaning} Default: {about.default}." if about.default else about.meaning


def named(what: str, keys: Keys) -> Reader:
    """Read a list of sections each of which has a name of its own.

    :param what: kind of the entries, for the messages.
    :return: reader of a list of dictionaries.
    """

    def read(value: Any, path: str, problems: Problems) -> list[dict[str, Any]]:
        if not isinstance(value, list):
            problems.add(path, f"must be a list of {what}s, not {shown(value)}")
            return []
        found = []
        for index, entry in enumerate(value):
            before = len(problems.found)
            inside = f"{path}[{index}]"
            given = fields(entry, inside, problems, keys)
            need(entry, inside, problems, keys)
            if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                problems.name_it(before, what, entry["name"])
            if len(problems.found) == before:
                found.append(given)
        refuse_duplicates(value, path, problems)
        return found

    return Reader(read, {"type": "array", "items": section_schema(keys)})


def refuse_duplicates(entries: list[Any], path: str, problems: Problems) -> None:
    """Note every entry that has the name of an earlier one."""
    first: dict[str, int] = {}
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            continue
        if name in first:
            problems.add(f"{path}[{index}].name", f"{name!r} is the name of {path}[{first[name]}] already")
        first.setdefault(name, index)
