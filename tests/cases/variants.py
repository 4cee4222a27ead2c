"""A case's variants: further inputs laid over the first."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

_NAMED = "variant"
_OVERLAYS = "variants"
_POOLS = "pools"
_LISTS_OF_LISTS = ("job_tolerations",)
_LISTS_OF_WORDS = ("admission",)
_SHORT_FORMS = ("node", "hint_rules", "completion_check")
_RAW = frozenset({"metadata", "spec", "status"})


def is_named_variant(key: str) -> bool:
    """Whether a key is ``variant`` or ``variant_`` with a name."""
    return key == _NAMED or key.startswith(f"{_NAMED}_")


def branches_of(
    facts: Mapping[str, Any], expect: Mapping[str, Any]
) -> list[tuple[str, dict[str, Any], Mapping[str, Any]]]:
    """Return the case itself and each named variant of it: name, input, expectation."""
    named = {
        key: value for key, value in facts.items() if is_named_variant(key) and isinstance(value, Mapping)
    }
    base = {key: value for key, value in facts.items() if key not in named}
    branches: list[tuple[str, dict[str, Any], Mapping[str, Any]]] = [("", base, expect)]
    for key, overlay in named.items():
        branches.append((f"{key}: ", laid_over(base, overlay), expect.get(key, {})))
    return branches


def variants_of(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one input for each variant; a single one when a case has none."""
    base = {key: value for key, value in facts.items() if key != _OVERLAYS}
    found = [laid_over(base, overlay) for overlay in facts.get(_OVERLAYS, [{}])]
    for key in _LISTS_OF_LISTS:
        if any(isinstance(one, list) for one in base.get(key, ())):
            found = [{**one, key: value} for one in found for value in one[key]]
    for key in _LISTS_OF_WORDS:
        if isinstance(base.get(key), list):
            found = [{**one, key: value} for one in found for value in one[key]]
    return found


def laid_over(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Lay an overlay over an input: a key replaces.

    A path such as ``E.free`` replaces inside a pool, a queue or an object. Pools that are all known get what
    is said of them.
    """
    result = copy.deepcopy(dict(base))
    for key, value in overlay.items():
        name, _, field = key.partition(".")
        target = _target(result, name) if field else None
        if target is not None:
            _replace(target, field, value)
        elif key in _SHORT_FORMS and _is_short(result.get(key)) and _is_short(value):
            result[key] = {**result[key], **value}
        elif key == _POOLS and _all_known(result.get(key), value):
            result[key] |= {pool: _laid_on(result[key][pool], row) for pool, row in value.items()}
        else:
            result[key] = value
    return result


def _target(facts: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return the pool, the queue or the object that a path begins with; ``None``: it is no path."""
    queues = {one["name"]: one for one in facts.get("clusterQueues", ()) if "name" in one}
    found = {**facts, **queues, **facts.get(_POOLS, {})}.get(name)
    return found if isinstance(found, dict) else None


def _replace(target: dict[str, Any], path: str, value: Any) -> None:
    """Replace what a path leads to; names with a dot in them are no steps."""
    step, _, rest = path.partition(".")
    inner = target.get(step)
    if rest and isinstance(inner, dict):
        _replace(inner, rest, value)
    else:
        target[path] = value


def _all_known(pools: Any, overlay: Any) -> bool:
    return isinstance(pools, Mapping) and isinstance(overlay, Mapping) and overlay.keys() <= pools.keys()


def _laid_on(row: Any, overlay: Any) -> Any:
    return {**row, **overlay} if isinstance(row, Mapping) and isinstance(overlay, Mapping) else overlay


def _is_short(value: Any) -> bool:
    return isinstance(value, Mapping) and not _RAW & value.keys()
