"""From YAML text to plain values, with every key that is given twice refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from airflow_gpu_placement.catalog.problems import Problems


def parse(text: str, problems: Problems) -> Any:
    """Parse a document; the safe subset of YAML only.

    :return: plain values; ``None`` when it could not be parsed, which is then a problem.
    """
    loader = _loader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            problems.add("", "is empty; it needs at least 'version: 1' and 'pools:'")
            return None
        before = len(problems.found)
        _find_duplicates(root, "", problems, set())
        if len(problems.found) > before:
            return None
        return loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "unknown place"
        problems.add(where, f"is not valid YAML: {error.problem or error.context}")
    except (yaml.YAMLError, ValueError) as error:
        problems.add("", f"is not valid YAML: {error}")
    finally:
        loader.dispose()
    return None


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


def _find_duplicates(node: yaml.Node, path: str, problems: Problems, seen: set[int]) -> None:
    if id(node) in seen:  # an alias: its anchor was looked at already
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _find_duplicates(item, f"{path}[{index}]", problems, seen)
    elif isinstance(node, yaml.MappingNode):
        first: dict[str, int] = {}
        for key, value in node.value:
            name = str(key.value)
            inside = f"{path}.{name}" if path else name
            line = key.start_mark.line + 1
            if name in first:
                problems.add(inside, f"is given twice (lines {first[name]} and {line}); keep one")
            first.setdefault(name, line)
            _find_duplicates(value, inside, problems, seen)
