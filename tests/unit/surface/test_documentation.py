"""What the documentation shows can be pasted."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.serialization.serialized_objects import DagSerialization

from airflow_gpu_placement.catalog import load

if TYPE_CHECKING:
    import argparse

ROOT = Path(__file__).resolve().parents[3]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^ *(?:\$ )?airflow (gpu-placement [^#\n]*)", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#:]+)\)")
_NAMED = re.compile(r"`((?:airflow_gpu_placement|benchmarks|dags|docker|docs|lab)/[\w./-]+)`")


def snippets(language: str) -> list[tuple[str, str]]:
    """Return all snippets in a language, each with the name of its page."""
    return [
        (page.name, text)
        for page in PAGES
        for found, text in _FENCED.findall(page.read_text(encoding="utf-8"))
        if found == language
    ]


def commands() -> list[str]:
    """Return every command line that a page shows on a line of its own."""
    return [line.strip() for page in PAGES for line in _COMMAND.findall(page.read_text(encoding="utf-8"))]


def test_there_are_snippets_of_each_kind() -> None:
    """The other tests look at something."""
    assert snippets("python")
    assert len(snippets("yaml")) > 1
    assert len(commands()) > 5


@pytest.mark.parametrize("snippet", snippets("python"), ids=lambda snippet: snippet[0])
def test_a_dag_is_a_dag(snippet: tuple[str, str]) -> None:
    """It runs as it stands, and Airflow can store what it makes."""
    made: list[DAG] = []
    names: dict[str, object] = {"__name__": "pasted"}
    exec(compile(textwrap.dedent(snippet[1]), snippet[0], "exec"), names)
    for value in names.values():
        if callable(value) and getattr(value, "__wrapped__", None) is not None:
            result = value()
            assert isinstance(result, DAG)
            made.append(result)
    assert made
    for one in made:
        assert all(isinstance(task, BaseOperator) for task in one.tasks)
        assert DagSerialization.to_dict(one)["dag"]["dag_id"] == one.dag_id


@pytest.mark.parametrize("snippet", snippets("yaml"), ids=lambda snippet: snippet[0])
def test_a_catalogue_is_a_catalogue(snippet: tuple[str, str], tmp_path: Path) -> None:
    """It is read without a problem or a warning."""
    path = tmp_path / "gpu_placement.yaml"
    path.write_text(snippet[1], encoding="utf-8")
    catalog = load(path)
    assert catalog.pools
    assert catalog.warnings == ()


@pytest.mark.parametrize("line", commands())
def test_a_command_line_can_be_read(parser: argparse.ArgumentParser, line: str) -> None:
    """Each flag exists and takes what it is given."""
    parser.parse_args(shlex.split(line))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    """By a link from the page, or by its path in the repository."""
    text = page.read_text(encoding="utf-8")
    missing = [link for link in _LINK.findall(text) if not (page.parent / link).exists()]
    missing += [name for name in _NAMED.findall(text) if not (ROOT / name).exists()]
    assert missing == []
