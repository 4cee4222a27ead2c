"""Every finding of the doctor is provoked on a real cluster by a test, and is told in the documentation."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_gpu_placement.cli.doctor.finding import FindingId

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
LAB_TESTS = ROOT / "tests" / "integration" / "doctor"
ROW = re.compile(r"^\| `(\w+)` \|", re.MULTILINE)


def promised() -> Iterator[str]:
    """Walk the marks ``provokes`` of the tests on the lab, which hold each test to what it says there."""
    for file in LAB_TESTS.glob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.provokes":
                yield from (ast.literal_eval(one) for one in node.args)


def test_every_finding_is_provoked_and_mended_on_the_lab() -> None:
    """A new finding needs a test with the mark ``provokes``, which sees it come and go."""
    assert set(promised()) == {str(one) for one in FindingId}


def test_every_finding_is_told_in_the_documentation() -> None:
    """One row of the table each."""
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    _, _, table = text.partition("| finding | what is wrong | mending |")
    assert sorted(ROW.findall(table.partition("\n\n")[0])) == sorted(FindingId)
