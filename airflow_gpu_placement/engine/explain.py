"""One decision record, told as a line, a table, a text and JSON."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from rich.table import Table
from rich.text import Text

from airflow_gpu_placement.engine.text_table import text_table
from airflow_gpu_placement.model.decision import Decision
from airflow_gpu_placement.model.reasons import TIERS, Verdict
from airflow_gpu_placement.model.request import GpuRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_gpu_placement.model.decision import PoolVerdict
    from airflow_gpu_placement.model.reasons import ReasonCode

_VERDICT_STYLES = {Verdict.FIT: "green", Verdict.UNSCHEDULABLE: "yellow", Verdict.UNRESOLVABLE: "red"}
_VERDICT_WORDS = {Verdict.FIT: "fits", Verdict.UNSCHEDULABLE: "not now", Verdict.UNRESOLVABLE: "never"}
_TABLE_WIDTH = 160


def line(decision: Decision) -> str:
    """Tell a decision in one line.

    Each pool that does not fit is counted once, under its worst reason; the most frequent first, then the
    worse.
    """
    fitting = [verdict for verdict in decision.verdicts if verdict.verdict is Verdict.FIT]
    head = f"{len(fitting)}/{len(decision.verdicts)} GPU pools fit {decision.subject}"
    parts = []
    if decision.chosen is not None:
        parts.append(f"chose {decision.chosen} ({_chosen_words(decision, fitting[0])})")
    counted = Counter(verdict.reasons[0].code for verdict in decision.verdicts if verdict.reasons)
    if counted:
        parts.append(", ".join(f"{count} {code}" for code, count in sorted(counted.items(), key=_order)))
    return f"{head}: {'; '.join(parts)}" if parts else f"{head}: the catalogue has no pool"


def _order(item: tuple[ReasonCode, int]) -> tuple[int, int, str]:
    code, count = item
    return -count, TIERS[code], code.value


def _chosen_words(decision: Decision, verdict: PoolVerdict) -> str:
    request = decision.request
    size = f"{request['nodes']} x {request['gpus_per_node']} GPUs"
    return f"{verdict.gpu or 'unknown GPU'}, {size}, {_price(verdict)}"


def _price(verdict: PoolVerdict) -> str:
    return "price unknown" if verdict.usd_per_hour is None else f"{verdict.usd_per_hour:.2f} USD/h"


class Row(NamedTuple):
    """One row of the table: a pool, a further reason of it, or a term of its cost.

    :param style: how a terminal may show it.
    """

    cells: tuple[str, ...]
    style: str


HEADINGS = (
    "pool",
    "GPU",
    "verdict",
    "free",
    "USD/h",
    "total USD",
    "reason",
    "needed",
    "observed",
    "age",
    "source",
)
_NUMBERS = frozenset({"free", "USD/h", "total USD", "age"})
_PARTS = {"compute": "work", "rework": "expected rework"}


def rows(decision: Decision) -> list[Row]:
    """Lay a decision out: each pool with its worst reason or its total, its other reasons, its cost terms."""
    return [row for verdict in decision.verdicts for row in _rows_of(verdict, decision.chosen)]


def _rows_of(verdict: PoolVerdict, chosen: str | None) -> Iterator[Row]:
    is_chosen = verdict.pool == chosen
    age = "?" if verdict.age_seconds is None else f"{verdict.age_seconds:.1f} s"
    seen = (age, verdict.source or "")
    told = [(reason.code.value, reason.needed, reason.observed, *seen) for reason in verdict.reasons]
    yield Row(
        (
            verdict.pool,
            verdict.gpu or "unknown",
            "chosen" if is_chosen else _VERDICT_WORDS[verdict.verdict],
            "?" if verdict.free_gpus is None else str(verdict.free_gpus),
            "?" if verdict.usd_per_hour is None else f"{verdict.usd_per_hour:.2f}",
            _sum_words(verdict),
            *(told[0] if told else ("", "", "", *seen)),
        ),
        "bold green" if is_chosen else _VERDICT_STYLES[verdict.verdict],
    )
    for reason in told[1:]:
        yield Row(("", "", "", "", "", "", *reason), "")
    for term in verdict.cost.terms if verdict.cost is not None else ():
        name = f"cost: {_PARTS.get(term.name, term.name)}"
        yield Row(("", "", "", "", "", f"{term.usd:.2f}", name, "", term.formula, "", ""), "")


def _sum_words(verdict: PoolVerdict) -> str:
    """Tell what the job costs in all; GPUs of an unknown price make no sum."""
    if verdict.cost is None:
        return ""
    total = f"{verdict.cost.total_usd:.2f}"
    if verdict.usd_per_hour is not None:
        return total
    return f"? + {total}" if verdict.cost.terms else "?"


def _title(decision: Decision) -> str:
    request = GpuRequest.model_construct(**decision.request)  # it was checked before it was decided on
    return f"{decision.subject}: {request.describe()}"


def table(decision: Decision) -> Table:
    """Draw a decision for a terminal."""
    # Names and messages are texts: "[x]" in them is no style.
    title = Text(_title(decision), style="table.title")
    drawn = Table(title=title, title_justify="left", header_style="bold")
    for heading in HEADINGS:
        drawn.add_column(heading, justify="right" if heading in _NUMBERS else "left")
    for row in rows(decision):
        drawn.add_row(*map(Text, row.cells), style=row.style)
    return drawn


def table_text(decision: Decision, *, width: int = _TABLE_WIDTH) -> str:
    """Draw the same table as plain text for a log.

    :param width: columns of the text.
    """
    cells = [row.cells for row in rows(decision)]
    return f"{_title(decision)}\n{text_table(HEADINGS, cells, _NUMBERS, width)}"


def details(decision: Decision) -> str:
    """Tell a decision in full, for an error message: the line, then for each pool every reason and note."""
    told = [line(decision), *(f"  warning: {warning}" for warning in decision.warnings)]
    for verdict in decision.verdicts:
        if verdict.verdict is Verdict.FIT:
            told.append(f"  {verdict.pool}: fits ({_chosen_words(decision, verdict)}){_total(verdict)}")
        for reason in verdict.reasons:
            told.append(f"  {verdict.pool}: {reason.code}: {reason.message}")
        told.extend(f"  {verdict.pool}: note: {note}" for note in verdict.notes)
    return "\n".join(told)


def _total(verdict: PoolVerdict) -> str:
    cost = verdict.cost
    if cost is None or not cost.terms:
        return ""
    terms = " + ".join(f"{term.name} {term.usd:.2f}" for term in cost.terms)
    return f": {_sum_words(verdict)} USD = {terms}; ends in {cost.finish_hours:.2f} h"


def to_json(decision: Decision) -> bytes:
    """Encode a decision record."""
    return msgspec.json.encode(decision)


def from_json(data: bytes | str) -> Decision:
    """Decode a decision record."""
    return msgspec.json.decode(data, type=Decision)
