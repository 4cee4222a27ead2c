"""The examples can be read by Airflow as they are."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow.serialization.serialized_objects import DagSerialization

if TYPE_CHECKING:
    from types import ModuleType

FOLDER = Path(__file__).resolve().parents[3] / "dags"
EXAMPLES = sorted(FOLDER.glob("*.py"))


def read(path: Path) -> ModuleType:
    """Import a DAG file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_one_dag_with_words_for_its_readers(path: Path) -> None:
    """It has the name of its file, can be stored by Airflow, and says what, why, when and what it needs."""
    module = read(path)
    made = getattr(module, path.stem)()
    assert made.dag_id == path.stem
    assert DagSerialization.to_dict(made)["dag"]["dag_id"] == path.stem
    assert module.__doc__ is not None
    for word in ("What:", "Why:", "When:", "Needs:"):
        assert f"\n{word}" in module.__doc__
