"""Reads and writes a spec as YAML or JSON. Strict: an unknown key or a wrong type is named with its path."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import yaml

from lab.errors import LabSpecError, unknown_name
from lab.spec import ClusterSpec, LabSpec, NodeSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lab.node.profiles import NodeProfile

_Check = tuple[str, "Callable[[Any], bool]"]


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for pair in value.items() for text in pair)


_TEXT: _Check = ("a text", lambda value: isinstance(value, str))
_LIST: _Check = ("a list", lambda value: isinstance(value, list))
_TEXTS: _Check = (
    "a list of texts",
    lambda value: isinstance(value, list) and all(isinstance(x, str) for x in value),
)
_TEXT_MAP: _Check = ("a mapping of texts (quote numbers)", _is_text_map)
_WHOLE: _Check = ("a whole number", _is_int)
_NUMBER: _Check = ("a number", lambda value: _is_int(value) or isinstance(value, float))
_BOOL: _Check = ("true or false", lambda value: isinstance(value, bool))

_LAB = {"clusters": _LIST, "node_monitor_grace_seconds": _WHOLE}
_CLUSTER = {"name": _TEXT, "nodes": _LIST, "users": _TEXTS, "cpu_node": _BOOL, "own_etcd": _BOOL}
_NODE = {
    "name": _TEXT,
    "profile": _TEXT,
    "gpus": _WHOLE,
    "labels": _TEXT_MAP,
    "zone": _TEXT,
    "region": _TEXT,
    "renew_seconds": _NUMBER,
    "sandbox": _TEXT,
    "images": _TEXTS,
    "backoff_seconds": _NUMBER,
}


def load(path: Path, profiles: Mapping[str, NodeProfile]) -> LabSpec:
    """Read a YAML file.

    :raises LabSpecError: each problem as ``file:path.to.field: problem``.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LabSpecError(
            [f"{path}: {error.strerror}; 'python -m lab up --print-spec' shows one"]
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise LabSpecError([f"{path}: is no YAML: {' '.join(str(error).split())}"]) from error
    return parse(data, str(path), profiles)


def parse(data: Any, source: str, profiles: Mapping[str, NodeProfile] | None = None) -> LabSpec:
    """Read decoded YAML or JSON.

    :param source: what the problems are prefixed with.
    """
    problems: list[tuple[str, str]] = []
    spec = _lab(data, problems)
    if not problems:
        problems.extend(spec.problems(profiles))
    if problems:
        raise LabSpecError(
            [f"{source}:{where}: {what}" if where else f"{source}: {what}" for where, what in problems]
        )
    return spec


def dump(spec: LabSpec) -> dict[str, Any]:
    """Return the spec as plain values; what has its default is left out."""
    clusters = []
    for cluster in spec.clusters:
        plain = _changed(cluster)
        if cluster.nodes:
            plain["nodes"] = [_changed(node) for node in cluster.nodes]
        clusters.append(plain)
    return {"node_monitor_grace_seconds": spec.node_monitor_grace_seconds, "clusters": clusters}


def dump_yaml(spec: LabSpec) -> str:
    """Return the spec as YAML text."""
    return yaml.safe_dump(dump(spec), sort_keys=False)


def node(data: Any, source: str) -> NodeSpec:
    """Read one node."""
    problems: list[tuple[str, str]] = []
    values = _section(data, "", _NODE, ("name", "profile"), problems)
    if problems:
        raise LabSpecError([f"{source}:{where}: {what}" for where, what in problems])
    return _node(values)


def _node(values: dict[str, Any]) -> NodeSpec:
    images = {"images": tuple(values["images"])} if "images" in values else {}
    return NodeSpec(**values | images)


def dump_node(spec: NodeSpec) -> dict[str, Any]:
    """Return one node as plain values."""
    return _changed(spec)


def _changed(spec: ClusterSpec | NodeSpec) -> dict[str, Any]:
    blank: ClusterSpec | NodeSpec = ClusterSpec("") if isinstance(spec, ClusterSpec) else NodeSpec("", "")
    plain: dict[str, Any] = {}
    for each in fields(spec):
        value = getattr(spec, each.name)
        if value != getattr(blank, each.name):
            plain[each.name] = list(value) if isinstance(value, tuple) else value
    return plain


def _lab(data: Any, problems: list[tuple[str, str]]) -> LabSpec:
    values = _section(data, "", _LAB, ("clusters",), problems)
    clusters = []
    for index, each in enumerate(values.get("clusters", ())):
        path = f"clusters[{index}]"
        found = _section(each, path, _CLUSTER, ("name",), problems)
        nodes = []
        for position, item in enumerate(found.get("nodes", ())):
            values_of_node = _section(item, f"{path}.nodes[{position}]", _NODE, ("name", "profile"), problems)
            nodes.append(_node({"name": "", "profile": "", **values_of_node}))
        found.update(nodes=tuple(nodes), users=tuple(found.get("users", ())))
        clusters.append(ClusterSpec(**{"name": "", **found}))
    return LabSpec(**{**values, "clusters": tuple(clusters)})


def _section(
    data: Any,
    path: str,
    checks: Mapping[str, _Check],
    required: tuple[str, ...],
    problems: list[tuple[str, str]],
) -> dict[str, Any]:
    """Return the keys of a mapping that are right; note a problem for each that is not."""
    if not isinstance(data, dict):
        problems.append((path, f"is {_kind(data)}; give a mapping with the keys {', '.join(checks)}"))
        return {}
    right: dict[str, Any] = {}
    prefix = f"{path}." if path else ""
    for key, value in data.items():
        if key not in checks:
            problems.append((f"{prefix}{key}", unknown_name("key", str(key), checks)))
        elif not checks[key][1](value):
            problems.append((f"{prefix}{key}", f"is {_kind(value)}; give {checks[key][0]}"))
        else:
            right[key] = value
    problems.extend((f"{prefix}{key}", "is missing") for key in required if key not in data)
    return right


def _kind(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return repr(value)
