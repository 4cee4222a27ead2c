"""Writing catalogue files and reading what is wrong with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.catalog import Catalog, load
from airflow_gpu_placement.exceptions import CatalogError

if TYPE_CHECKING:
    from pathlib import Path


def read(folder: Path, text: str) -> Catalog:
    """Write a catalogue and load it."""
    path = folder / "gpu.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path)


def problems(folder: Path, text: str) -> list[str]:
    """Load a wrong catalogue and return its problems without the file's name."""
    with pytest.raises(CatalogError) as caught:
        read(folder, text)
    file = f"{folder / 'gpu.yaml'}:"
    assert all(problem.startswith(file) for problem in caught.value.problems)
    return [problem.removeprefix(file).strip() for problem in caught.value.problems]


def one(**fields: str) -> str:
    """Build a catalogue of one pool; each field is a line of YAML."""
    lines = "".join(f"    {key}: {value}\n" for key, value in fields.items())
    return f"version: 1\npools:\n  - name: a\n    kubernetes_conn_id: c\n{lines}"
