"""From YAML text to plain values; every key that is given twice and every value that is none is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml
from yaml.reader import ReaderError

from airflow_gpu_placement.catalog.reader import shown

if TYPE_CHECKING:
    from airflow_gpu_placement.catalog.problems import Problems

_TAG = "tag:yaml.org,2002:"
_READ = {
    f"{_TAG}int": "a whole number",
    f"{_TAG}float": "a number",
    f"{_TAG}bool": "true or false",
    f"{_TAG}timestamp": "a date",
}
"""Kinds of value that YAML makes of a text, and what each is called; a wrong one has no place of its own."""

_EMPTY_CATALOGUE = "is empty; it needs at least 'version: 1' and 'pools:'"

_HALF_CHARACTERS = re.compile("[\ud800-\udfff]")


def parse(text: str, problems: Problems, *, when_empty: str = _EMPTY_CATALOGUE) -> Any:
    """Parse a document; the safe subset of YAML only.

    :param when_empty: what is said of an empty text.
    :return: plain values; ``None`` when it could not be parsed, which is then a problem.
    """
    try:
        return _parsed(_loader(text), problems, when_empty)
    except ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, error.position - before.rfind("\n")
        problems.add(
            f"line {line}, column {column}",
            f"holds the character U+{ord(text[error.position]):04X}, which YAML does not allow; remove it "
            "(what is copied from a terminal may hold such, for its colours)",
        )
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "unknown place"
        problems.add(where, f"is not valid YAML: {error.problem or error.context}")
    except (yaml.YAMLError, ValueError) as error:
        problems.add("", f"is not valid YAML: {error}")
    except RecursionError:
        problems.add("", "is nested too deeply; a few levels are enough")
    return None


def _parsed(loader: Any, problems: Problems, when_empty: str) -> Any:
    try:
        root = loader.get_single_node()
        if root is None:
            problems.add("", when_empty)
            return None
        before = len(problems.found)
        _look_over(root, "", problems, set(), loader)
        return None if len(problems.found) > before else loader.construct_document(root)
    finally:
        loader.dispose()


def _loader(text: str) -> Any:
    """Choose the parser written in C, ten times as fast, for a text that is valid.

    For any other the one in Python is taken: it alone says well what is wrong. Where there is no C parser the
    other one is always taken.
    """
    fast = getattr(yaml, "CSafeLoader", None)
    if fast is not None:
        trial = fast(text)
        try:
            while trial.check_event():
                trial.get_event()
        except (yaml.YAMLError, ValueError):
            return yaml.SafeLoader(text)
        finally:
            trial.dispose()
    return (fast or yaml.SafeLoader)(text)


def _look_over(node: yaml.Node, path: str, problems: Problems, seen: set[int], loader: Any) -> None:
    """Note every key that is given twice, and every value that is not what its tag says."""
    if id(node) in seen:  # an alias: its anchor was looked at already
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        _check_value(node, path, problems, loader)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _look_over(item, f"{path}[{index}]", problems, seen, loader)
    elif isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for key, value in node.value:
            name = str(key.value)
            inside = f"{path}.{name}" if path else name
            line = key.start_mark.line + 1
            if name in first:
                problems.add(inside, f"is given twice (lines {first[name]} and {line}); keep one")
            first.setdefault(name, line)
            _look_over(key, inside, problems, seen, loader)
            _look_over(value, inside, problems, seen, loader)


def _check_value(node: yaml.ScalarNode, path: str, problems: Problems, loader: Any) -> None:
    line = node.start_mark.line + 1
    if _HALF_CHARACTERS.search(node.value):
        problems.add(path, f"holds half of a character (line {line}); write the character itself")
    if node.tag not in _READ:
        return
    try:
        loader.construct_object(node)
    except (ValueError, ArithmeticError, LookupError, AttributeError):  # whatever the parser falls over
        problems.add(path, f"{shown(node.value)} is not {_READ[node.tag]} (line {line})")
