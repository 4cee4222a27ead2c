"""The runner itself: it reads every case, says what it cannot read, and sees a wrong answer."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cases.adapters.reading import UnreadableError
from tests.cases.conftest import OWN_COPIES
from tests.cases.judge import Mismatch, judge, same
from tests.cases.lifecycle import LIFE_CYCLE, TESTED, WAITING
from tests.cases.route import COMMENTARY
from tests.cases.variants import laid_over, variants_of

ROOT = Path(__file__).parents[2]
CASES: dict[str, dict[str, Any]] = {
    file.stem: json.loads(file.read_text(encoding="utf-8"))
    for folder in OWN_COPIES
    for file in sorted(folder.glob("*.json"))
}
JUDGED = sorted(CASES.keys() - LIFE_CYCLE.keys())
GROUPS_OF_PURE_FUNCTIONS = {
    "Capacity arithmetic",
    "GPU identity",
    "Loss classification",
    "Kueue / MultiKueue",
    "Placement policy",
    "Catalogue / config errors",
}


def a_case(**changes: Any) -> dict[str, Any]:
    """Build a case that the product answers rightly."""
    case = {
        "id": "X",
        "title": "t",
        "basis": "firm",
        "input": {"pod": {"status": {"phase": "Running"}}},
        "expect": {"class": "running"},
    }
    return {**case, **changes}


def test_a_file_has_the_id_of_its_case() -> None:
    """A case is found by its name."""
    assert [stem for stem, case in CASES.items() if case["id"] != stem] == []


def test_every_case_is_judged_or_listed() -> None:
    """Every id that is listed exists, and none of the groups of pure functions is listed."""
    assert sorted(LIFE_CYCLE.keys() - CASES.keys()) == []
    assert TESTED.keys() & WAITING.keys() == set()
    listed = {CASES[case_id]["group"] for case_id in LIFE_CYCLE}
    assert listed & GROUPS_OF_PURE_FUNCTIONS == set()


@pytest.mark.parametrize("case_id", sorted(TESTED))
def test_the_test_that_a_case_names_exists(case_id: str) -> None:
    """The file is there and defines it."""
    file, _, name = TESTED[case_id].partition("::")
    source = (ROOT / file).read_text(encoding="utf-8")
    assert re.search(rf"^(async )?def {name}\(", source, re.MULTILINE)


@pytest.mark.parametrize("key", ["temperature", "Pod"])
def test_an_unknown_key_of_an_input_is_named(key: str) -> None:
    """Nothing is passed over in silence."""
    with pytest.raises(UnreadableError, match=f"input.{key}"):
        judge(a_case(input={**a_case()["input"], key: 1}))


def test_an_unknown_key_of_an_expectation_is_named() -> None:
    """Nor here."""
    with pytest.raises(UnreadableError, match=r"expect\.mood"):
        judge(a_case(expect={"mood": "good"}))


def test_an_unknown_key_of_a_variant_is_named() -> None:
    """Nor in what is laid over."""
    with pytest.raises(UnreadableError, match=r"input\.pot"):
        judge(a_case(input={**a_case()["input"], "variants": [{}, {"pot": 404}]}))


def test_a_firm_case_cannot_be_overruled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only a case that says itself that a product may decide otherwise."""
    file = tmp_path / "policy.toml"
    file.write_text('[X]\nreason = "r"\n[X.expect]\nclass = "success"\n', encoding="utf-8")
    monkeypatch.setattr("tests.cases.judge.POLICY_FILE", file)
    with pytest.raises(Mismatch, match="firm"):
        judge(a_case())
    with pytest.raises(Mismatch, match="class: expected 'success'"):
        judge(a_case(basis="policy"))


def wrong(value: Any) -> Any:
    """Return something else of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"not {value}"
    if value is None:
        return "something"
    if isinstance(value, list):
        return [wrong(one) for one in value] or ["something"]
    return {key: wrong(one) for key, one in value.items()}


_NO_OPPOSITE = {"decision_within_s", "must_not_say", "errors", "impossible_price"}
"""Bounds and absences: a larger bound and another absence hold as well."""


@pytest.mark.parametrize("case_id", JUDGED)
def test_a_wrong_expectation_is_seen(case_id: str) -> None:
    """Each key of each case is really compared: whatever else it says does not hold."""
    case = CASES[case_id]
    for key, value in case["expect"].items():
        if key in _NO_OPPOSITE or key in COMMENTARY or value is None:
            continue
        changed = copy.deepcopy(case)
        changed["expect"] = {key: wrong(value)}
        with pytest.raises((Mismatch, UnreadableError)):
            judge(changed)


def test_an_overlay_replaces_a_key_or_a_field_of_a_pool() -> None:
    """Short forms of a node are merged, raw objects are replaced."""
    base = {
        "pools": {"E": {"free": 8}},
        "node": {"ready": "Unknown", "for_s": 600},
        "pod": {"status": {"a": 1}},
    }
    found = laid_over(base, {"E.free": 0, "node": {"for_s": 60}, "pod": {"status": {"b": 2}}})
    assert found["pools"] == {"E": {"free": 0}}
    assert found["node"] == {"ready": "Unknown", "for_s": 60}
    assert found["pod"] == {"status": {"b": 2}}
    assert base["pools"] == {"E": {"free": 8}}


def test_an_overlay_reaches_into_queues_objects_and_pools() -> None:
    """By the name of a queue, by steps into a raw object, and by pools that are all known."""
    base = {
        "clusterQueues": [{"name": "a", "active": True}, {"name": "b", "active": True}],
        "clusterQueue": {"spec": {"stopPolicy": "None", "cohort": "c"}},
        "pools": {"E": {"free": 8, "region": "east"}, "W": {"free": 8}},
    }
    found = laid_over(
        base,
        {"b.active": False, "clusterQueue.spec.stopPolicy": "Hold", "pools": {"E": {"free": 0}}},
    )
    assert found["clusterQueues"] == [{"name": "a", "active": True}, {"name": "b", "active": False}]
    assert found["clusterQueue"] == {"spec": {"stopPolicy": "Hold", "cohort": "c"}}
    assert found["pools"] == {"E": {"free": 0, "region": "east"}, "W": {"free": 8}}
    assert laid_over(base, {"pools": {"N": {"free": 1}}})["pools"] == {"N": {"free": 1}}


def test_a_list_of_lists_is_one_input_for_each() -> None:
    """Tolerations are a list themselves."""
    found = variants_of({"job_tolerations": [[{"key": "a"}], []]})
    assert [one["job_tolerations"] for one in found] == [[{"key": "a"}], []]
    assert len(variants_of({"job_tolerations": [{"key": "a"}]})) == 1


@pytest.mark.parametrize(
    ("expected", "got", "want"),
    [
        (1.0, 1, True),
        (0.1, 0.1 + 1e-12, True),
        (True, 1, False),
        (1, True, False),
        (None, 0, False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {}, False),
        ([1, 2], (1, 2), True),
        ([1, 2], (2, 1), False),
    ],
)
def test_equal_means_equal(expected: Any, got: Any, want: bool) -> None:
    """A number is not a truth value, a part that is not mentioned does not matter."""
    assert same(expected, got) is want
