"""One decision record, told as a line, a table, a text and JSON."""

from __future__ import annotations

import io
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Table

from airflow_gpu_placement.model.decision import Decision
from airflow_gpu_placement.model.reasons import TIERS, Verdict
from airflow_gpu_placement.model.request import GpuRequest

if TYPE_CHECKING:
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


def table(decision: Decision) -> Table:
    """Draw a decision: one row a pool, and one more for each further reason."""
    request = GpuRequest.model_validate(decision.request)
    drawn = Table(
        title=f"{decision.subject}: {request.describe()}", title_justify="left", header_style="bold"
    )
    for heading in (
        "pool",
        "GPU",
        "verdict",
        "free",
        "USD/h",
        "reason",
        "needed",
        "observed",
        "age",
        "source",
    ):
        drawn.add_column(heading, justify="right" if heading in {"free", "USD/h", "age"} else "left")
    for verdict in decision.verdicts:
        chosen = verdict.pool == decision.chosen
        first, *others = verdict.reasons or (None,)
        drawn.add_row(
            verdict.pool,
            verdict.gpu or "unknown",
            "chosen" if chosen else _VERDICT_WORDS[verdict.verdict],
            "?" if verdict.free_gpus is None else str(verdict.free_gpus),
            "?" if verdict.usd_per_hour is None else f"{verdict.usd_per_hour:.2f}",
            first.code if first else "",
            first.needed if first else "",
            first.observed if first else "",
            "?" if verdict.age_seconds is None else f"{verdict.age_seconds:.1f} s",
            verdict.source or "",
            style="bold green" if chosen else _VERDICT_STYLES[verdict.verdict],
        )
        for reason in others:
            if reason is not None:
                drawn.add_row("", "", "", "", "", reason.code, reason.needed, reason.observed, "", "")
    return drawn


def table_text(decision: Decision, *, width: int = _TABLE_WIDTH) -> str:
    """Draw the table as plain text for a log.

    :param width: columns of the text.
    """
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, legacy_windows=False).print(table(decision))
    return "\n".join(row.rstrip() for row in out.getvalue().rstrip("\n").splitlines())


def details(decision: Decision) -> str:
    """Tell a decision in full, for an error message: the line, then for each pool every reason and note."""
    rows = [line(decision)]
    for verdict in decision.verdicts:
        if verdict.verdict is Verdict.FIT:
            rows.append(f"  {verdict.pool}: fits ({_chosen_words(decision, verdict)})")
        for reason in verdict.reasons:
            rows.append(f"  {verdict.pool}: {reason.code}: {reason.message}")
        rows.extend(f"  {verdict.pool}: note: {note}" for note in verdict.notes)
    return "\n".join(rows)


def to_json(decision: Decision) -> bytes:
    """Encode a decision record."""
    return msgspec.json.encode(decision)


def from_json(data: bytes | str) -> Decision:
    """Decode a decision record."""
    return msgspec.json.decode(data, type=Decision)
