"""A case's expectation against the product's answers: the only place that compares."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cases.adapters.answer import AnyOf
from tests.cases.adapters.reading import UnreadableError
from tests.cases.route import COMMENTARY, answer, check_keys
from tests.cases.variants import branches_of, is_named_variant, variants_of

POLICY_FILE = Path(__file__).with_name("policy.toml")

_LISTS = frozenset(
    {
        "warn_nodes", "errors", "reason_mentions", "must_not_say", "refused_as_ambiguous", "gpu_nodes",
        "excluded", "placed",
    }
)  # fmt: skip
"""Keys whose value is a list by itself; a list of lists (or objects) is one for each variant."""


class Mismatch(AssertionError):
    """Answers that are not what a case expects."""


def judge(case: Mapping[str, Any]) -> None:
    """Compare every answer with the expectation.

    :raises Mismatch: lists every key that differs, with both values.
    :raises UnreadableError: names what no adapter can read.
    """
    expect = _with_policy(case)
    problems = []
    for name, facts, part in branches_of(case["input"], expect):
        variants = variants_of(facts)
        for one in variants:
            check_keys(one)
        for key, expected in part.items():
            if key not in COMMENTARY and not is_named_variant(key):
                problems += [f"{name}{text}" for text in _differences(key, expected, variants, part)]
    if problems:
        raise Mismatch(f"{case['id']} ({case['basis']}; {case['title']}):\n" + "\n".join(problems))


def _with_policy(case: Mapping[str, Any]) -> dict[str, Any]:
    """Replace what the product deliberately decides otherwise, which only a policy case allows."""
    ours = tomllib.loads(POLICY_FILE.read_text(encoding="utf-8")).get(case["id"], {})
    if ours and case["basis"] != "policy":
        raise Mismatch(f"{case['id']} is firm: policy.toml may not change it")
    return {**case["expect"], **ours.get("expect", {})}


def _differences(
    key: str, expected: Any, variants: Sequence[Mapping[str, Any]], expect: Mapping[str, Any]
) -> list[str]:
    per_variant = len(variants) > 1 and isinstance(expected, list) and len(expected) == len(variants)
    if key in _LISTS:
        per_variant = per_variant and all(isinstance(one, list | Mapping) for one in expected)
    if not per_variant and key in _OF_ALL:
        answers = [answer(key, facts, expect) for facts in variants]
        return _compared(key, expected, " ".join(answers), "")
    problems = []
    for number, facts in enumerate(variants):
        mine = expected[number] if per_variant else expected
        if per_variant and mine is None:
            continue  # a case says nothing about this variant
        if isinstance(mine, Mapping) and facts.get("admission") in mine:
            mine = mine[facts["admission"]]
        got = answer(key, facts, {**expect, key: mine})
        problems += _compared(key, mine, got, f"variant {number}: " if len(variants) > 1 else "")
    return problems


def _compared(key: str, expected: Any, got: Any, where: str) -> list[str]:
    if _RULES.get(key, same)(expected, got):
        return []
    return [f"{where}{key}: expected {expected!r}, got {got!r}"]


def same(expected: Any, got: Any) -> bool:
    """Whether an answer is what is expected: one of its words, an equal number, the same members."""
    if isinstance(got, AnyOf):
        return _one_of(expected, got.words)
    if isinstance(expected, Mapping):
        return isinstance(got, Mapping) and all(
            name in got and same(value, got[name]) for name, value in expected.items()
        )
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(expected, float | int):
        return isinstance(got, float | int) and got == pytest.approx(expected)
    if isinstance(expected, list):
        return isinstance(got, list | tuple) and len(got) == len(expected) and all(map(same, expected, got))
    return bool(expected == got)


def _one_of(expected: Any, words: Sequence[Any]) -> bool:
    if any(expected is word for word in words if word is None or isinstance(word, bool)):
        return True
    if expected in (None, False) or expected == []:
        return not words
    if isinstance(expected, list):
        return set(expected) == set(words)
    return expected in words


def _members(expected: Any, got: Any) -> bool:
    if isinstance(expected, Mapping):
        return all(name in got and _members(value, got[name]) for name, value in expected.items())
    return isinstance(got, list | tuple | Mapping) and sorted(expected) == sorted(got)


def _excluded(expected: Any, got: Mapping[str, AnyOf]) -> bool:
    return same(expected, got) if isinstance(expected, Mapping) else _members(expected, got)


def _counted(expected: Any, got: Mapping[str, int]) -> bool:
    """Compare numbers by name, where a name that is not there counts as none; or only the names."""
    if isinstance(expected, Mapping):
        return all(same(value, got.get(name, 0)) for name, value in expected.items())
    return _members(expected, got)


def _words(expected: Any) -> list[str]:
    return [expected] if isinstance(expected, str) else list(expected)


def _mentions(expected: Any, got: str) -> bool:
    return all(word.casefold() in got.casefold() for word in _words(expected))


def _silent(expected: Any, got: str) -> bool:
    return not any(word.casefold() in got.casefold() for word in _words(expected))


def _said(expected: Any, got: str) -> bool:
    return expected.casefold() in got.casefold() if isinstance(expected, str) else bool(got) is bool(expected)


def _final(expected: Any, got: AnyOf) -> bool:
    return same(expected, got)


def _silent_success(expected: Any, got: Mapping[str, Any]) -> bool:
    return bool("success" in got["kind"].words and not got["warning"]) is bool(expected)


_RULES: dict[str, Callable[[Any, Any], bool]] = {
    "warn_nodes": _members,
    "gpu_nodes": _members,
    "eligible_nodes": _members,
    "refused_as_ambiguous": _members,
    "excluded": _excluded,
    "excluded_by_taint": _counted,
    "errors": lambda expected, got: len(expected) == len(got) and _mentions(expected, " ".join(got)),
    "reason": _mentions,
    "reason_mentions": _mentions,
    "must_not_say": _silent,
    "warnings_at_least": lambda expected, got: len(got) >= expected,
    "avoid_node": lambda expected, got: (
        bool(got.words) is expected if isinstance(expected, bool) else same(expected, got)
    ),
    "warning": _said,
    "hint_shown": _said,
    "silent_success": _silent_success,
    "variants_distinguishable": lambda expected, got: (len(set(got.values())) == len(got)) is expected,
    "impossible_price": lambda expected, got: not any(same(expected, one) for one in got),
    "decision_within_s": lambda expected, got: got <= expected,
    "admitted_count": lambda expected, got: sum(got) == expected,
}

_OF_ALL = frozenset({"reason_mentions", "must_not_say"})
"""Keys about words: what any variant says counts."""

__all__ = ["Mismatch", "UnreadableError", "judge", "same"]
