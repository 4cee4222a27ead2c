"""Every case of the folder is judged, unless it is listed as one about the life cycle."""

from __future__ import annotations

from typing import Any

from tests.cases.judge import judge


def test_case(case: dict[str, Any]) -> None:
    """The product answers as the case expects."""
    judge(case)
