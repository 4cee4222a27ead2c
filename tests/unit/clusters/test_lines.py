"""Lines come out whole, whatever the chunks are."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.clusters.lines import LineSplitter


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_chunk_borders_do_not_matter(size: int) -> None:
    """Any cut of the stream gives the same lines, empty ones included."""
    data = b"one\n\ntwo and more\nthree"
    splitter = LineSplitter()
    lines = [line for at in range(0, len(data), size) for line in splitter.feed(data[at : at + size])]
    assert lines == [b"one", b"", b"two and more"]
    assert list(splitter.flush()) == [b"three"]
    assert list(splitter.flush()) == []


def test_a_line_of_many_chunks_is_one_line() -> None:
    """A watch event can be megabytes long."""
    splitter = LineSplitter()
    lines = [line for _ in range(64) for line in splitter.feed(b"x" * 65_536)]
    assert lines == []
    assert [len(line) for line in splitter.feed(b"y\n")] == [64 * 65_536 + 1]


def test_with_a_limit_memory_is_bounded() -> None:
    """A program that never ends its line cannot fill the memory."""
    splitter = LineSplitter(limit=10)
    assert list(splitter.feed(b"a" * 25)) == [b"a" * 10, b"a" * 10]
    assert list(splitter.feed(b"b\nshort\n" + b"c" * 12 + b"\n")) == [
        b"aaaaab",
        b"short",
        b"c" * 10,
        b"cc",
    ]
