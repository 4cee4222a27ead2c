"""A case's variants: further inputs laid over the first."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

_NAMED = "variant"
_OVERLAYS = "variants"
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
    """Lay an overlay over an input: a key replaces; a path such as ``E.free`` replaces inside a pool."""
    result = copy.deepcopy(dict(base))
    for key, value in overlay.items():
        pool, _, field = key.partition(".")
        if field and pool in result.get("pools", {}):
            result["pools"][pool][field] = value
        elif key in _SHORT_FORMS and _is_short(result.get(key)) and _is_short(value):
            result[key] = {**result[key], **value}
        else:
            result[key] = value
    return result


def _is_short(value: Any) -> bool:
    return isinstance(value, Mapping) and not _RAW & value.keys()
