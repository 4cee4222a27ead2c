"""A table as plain text, for logs: aligned columns, long cells wrapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_GAP = "  "
_NARROWEST = 8


def text_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[str], width: int
) -> str:
    """Draw a table.

    :param right: headings of columns whose cells stand to the right.
    :param width: columns of text that the whole table may take.
    """
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0:
        *_, second, widest = sorted(widths)
        if widest <= _NARROWEST:
            break
        cut = min(excess, max(widest - max(second, _NARROWEST), 1))
        widths[widths.index(widest)] -= cut
        excess -= cut
    layout = _GAP.join(
        f"%{'' if heading in right else '-'}{size}s"  # half the time of str.format
        for heading, size in zip(headings, widths, strict=True)
    )
    wrapped: dict[tuple[str, int], list[str]] = {}
    lines = [(layout % tuple(headings)).rstrip(), _GAP.join("-" * size for size in widths)]
    drawn: dict[tuple[str, ...], list[str]] = {}  # cost terms are the same in many pools
    for row in rows:
        cells = tuple(row)
        found = drawn.get(cells)
        if found is None:
            found = drawn[cells] = _row(cells, widths, layout, wrapped)
        lines += found
    return "\n".join(lines)


def _row(
    cells: Sequence[str], widths: list[int], layout: str, wrapped: dict[tuple[str, int], list[str]]
) -> list[str]:
    """Lay out one row; ``wrapped`` keeps long cells, of which many are repeated in every row."""
    lines = [list(cells)]
    for index, (cell, size) in enumerate(zip(cells, widths, strict=True)):
        if len(cell) > size:
            parts = wrapped.get((cell, size))
            if parts is None:
                parts = wrapped[cell, size] = _wrap(cell, size)
            lines += [[""] * len(cells) for _ in range(len(parts) - len(lines))]
            for number, part in enumerate(parts):
                lines[number][index] = part
    return [(layout % tuple(line)).rstrip() for line in lines]


def _wrap(cell: str, size: int) -> list[str]:
    """Break a text between words, and a word that is too long anywhere."""
    lines = [""]
    for word in cell.split():
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if len(joined) <= size:
            lines[-1] = joined
        else:
            lines += [word[start : start + size] for start in range(0, len(word), size)]
    return lines if lines[0] else lines[1:] or lines
