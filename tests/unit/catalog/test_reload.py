"""A changed catalogue is picked up by the next decision; an unchanged one is not read again."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.exceptions import CatalogError

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "version: 1\nprices: [{file: list.csv}]\npools: [{name: a, kubernetes_conn_id: c, region: one}]\n"
LONG_AGO = time.time() - 3600


def write(path: Path, text: str, at: float = LONG_AGO) -> None:
    """Write a file as if it had been changed at some time."""
    path.write_text(text)
    os.utime(path, (at, at))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a catalogue and its price list, both old."""
    write(tmp_path / "gpu.yaml", TEXT)
    write(tmp_path / "list.csv", "pool,price\na,1\n")
    return tmp_path


def test_an_unchanged_catalogue_is_the_same_object(folder: Path) -> None:
    """Nothing is parsed for the second decision."""
    assert load(folder / "gpu.yaml") is load(folder / "gpu.yaml")


def test_a_changed_file_is_read(folder: Path) -> None:
    """A new time is enough, also with the same size."""
    before = load(folder / "gpu.yaml")
    write(folder / "gpu.yaml", TEXT.replace("one", "two"), LONG_AGO + 1)
    after = load(folder / "gpu.yaml")
    assert (before.pools[0].place.region, after.pools[0].place.region) == ("one", "two")
    assert before.hash != after.hash


def test_a_replaced_file_is_read(folder: Path) -> None:
    """A rename of another file over it, with the same size and time, is seen by the inode."""
    load(folder / "gpu.yaml")
    write(folder / "new", TEXT.replace("one", "two"))
    (folder / "new").rename(folder / "gpu.yaml")
    assert load(folder / "gpu.yaml").pools[0].place.region == "two"


def test_a_change_within_one_tick_of_the_clock_is_seen(folder: Path) -> None:
    """A file that was changed just now is not remembered, since the next change may look the same."""
    now = time.time()
    write(folder / "gpu.yaml", TEXT, now)
    load(folder / "gpu.yaml")
    write(folder / "gpu.yaml", TEXT.replace("one", "two"), now)
    assert load(folder / "gpu.yaml").pools[0].place.region == "two"


def test_a_changed_price_list_is_read(folder: Path) -> None:
    """Files that the catalogue names belong to it."""
    load(folder / "gpu.yaml")
    write(folder / "list.csv", "pool,price\na,2\n", LONG_AGO + 1)
    assert load(folder / "gpu.yaml").pools[0].price.gpu_hour_usd == 2


def test_a_new_file_of_a_folder_is_read(folder: Path) -> None:
    """A folder is listed each time."""
    load(folder)
    write(folder / "over.yaml", "version: 1\npools: [{name: b, kubernetes_conn_id: c}]\n")
    assert [pool.name for pool in load(folder).pools] == ["a", "b"]


def test_a_file_that_was_removed_is_missed(folder: Path) -> None:
    """What is remembered does not outlive the file."""
    load(folder / "gpu.yaml")
    (folder / "gpu.yaml").unlink()
    with pytest.raises(CatalogError, match="there is no catalogue"):
        load(folder / "gpu.yaml")


def test_a_mistake_and_its_repair_are_seen(folder: Path) -> None:
    """A wrong catalogue is not remembered either."""
    write(folder / "gpu.yaml", "version: 2\n")
    with pytest.raises(CatalogError):
        load(folder / "gpu.yaml")
    write(folder / "gpu.yaml", TEXT)
    assert load(folder / "gpu.yaml").pools[0].name == "a"
