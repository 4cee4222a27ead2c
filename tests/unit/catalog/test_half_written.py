"""A catalogue that is being written while a task reads it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.catalog import EXAMPLE, load, load_patiently
from airflow_gpu_placement.exceptions import CatalogError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GOOD = "version: 1\npools: [{name: p, kubernetes_conn_id: c}]\n"


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """Return a catalogue that a tool has begun to write, and that it goes on with in a moment."""
    path = tmp_path / "gpu.yaml"
    path.write_text("")
    writer = threading.Timer(0.25, path.write_text, [GOOD])
    writer.start()
    yield path
    writer.join()


def test_a_task_waits_for_the_rest_and_says_so_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The try goes on with what the file says in the end."""
    assert [pool.name for pool in load_patiently(path).pools] == ["p"]
    assert [record.getMessage() for record in caplog.records] == [
        f"The catalogue is wrong, or being written now; it is read again "
        f"({path}: is empty; it needs at least 'version: 1' and 'pools:')"
    ]


def test_whoever_checks_a_catalogue_is_told_at_once(path: Path) -> None:
    """A command reads it as it is."""
    began = time.monotonic()
    with pytest.raises(CatalogError, match="is empty"):
        load(path)
    assert time.monotonic() - began < 0.2


@pytest.mark.parametrize("text", ["pools: [", "version: 1\npools: [{nam: p}]\n"], ids=["cut", "a mistake"])
def test_a_catalogue_that_stays_wrong_is_told_after_two_seconds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    """With the usual error, and with one line before it."""
    path = tmp_path / "gpu.yaml"
    path.write_text(text)
    with pytest.raises(CatalogError) as usual:
        load(path)
    began = time.monotonic()
    with pytest.raises(CatalogError) as patient:
        load_patiently(path)
    assert 1.9 < time.monotonic() - began < 4
    assert patient.value.problems == usual.value.problems
    assert len(caplog.records) == 1


def test_a_catalogue_that_is_right_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any pause."""
    path = tmp_path / "gpu.yaml"
    path.write_text(EXAMPLE)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"paused for {seconds:g} s"))
    assert load_patiently(path).pools
