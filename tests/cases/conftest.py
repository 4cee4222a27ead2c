"""The option that says which folder of cases is judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases.lifecycle import LIFE_CYCLE

HERE = Path(__file__).parent
OWN_COPIES = (HERE / "data", HERE / "own")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--cases-dir``."""
    parser.addoption(
        "--cases-dir",
        type=Path,
        default=None,
        help="folder of cases to judge instead of the project's own copies",
    )


def case_files(config: pytest.Config) -> list[Path]:
    """Return the files of the cases to judge.

    :raises pytest.UsageError: the folder has none, which would pass for the wrong reason.
    """
    chosen = config.getoption("--cases-dir", default=None)
    folders = OWN_COPIES if chosen is None else (chosen,)
    files = sorted(file for folder in folders for file in folder.glob("*.json"))
    if not files:
        raise pytest.UsageError(f"no case (*.json) in {', '.join(map(str, folders))}")
    return files


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each case to the tests that take one."""
    if "case_file" in metafunc.fixturenames:
        # Cases about the life cycle are answered elsewhere, each by its id (see lifecycle.py and its tests).
        files = [file for file in case_files(metafunc.config) if _id_of(file) not in LIFE_CYCLE]
        metafunc.parametrize("case_file", files, ids=[file.stem for file in files])


def _id_of(file: Path) -> str:
    return str(json.loads(file.read_text(encoding="utf-8")).get("id"))


@pytest.fixture
def case(case_file: Path) -> dict[str, Any]:
    """Read one case."""
    read: dict[str, Any] = json.loads(case_file.read_text(encoding="utf-8"))
    return read
