"""How decisions and figures look."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from airflow_gpu_placement.engine.explain import details, line, table
from lab.demo.facts import attempt_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from airflow_gpu_placement.model.decision import Decision
    from lab.demo.facts import Facts
    from lab.demo.figures import Cost, Figures, Move, Training

FULL_WIDTH = 150
"""A decision table is readable from this width on."""
SHORT_WIDTH = 104
"""The same without age and source of the signals. Below this width the decision is told in lines."""
PICTURE_WIDTH = 120
_LEFT_OUT = ("age", "source")
_TABLE_TITLE = "bold"


def decision_view(decision: Decision, heading: str, width: int) -> list[RenderableType]:
    """Show a decision: its line, and as much of its table as there is room for.

    :param width: columns of the terminal.
    """
    told = Text.assemble((f"{heading}: ", "bold"), line(decision))
    return [Text(""), told, _fitting(decision, width), Text("")]


def _fitting(decision: Decision, width: int) -> RenderableType:
    if width < SHORT_WIDTH:
        return Text(details(decision).partition("\n")[2])
    drawn = table(decision)
    if width < FULL_WIDTH:
        drawn.columns = [column for column in drawn.columns if column.header not in _LEFT_OUT]
    return drawn


def figures_view(figures: Figures) -> Iterator[RenderableType]:
    """Show the figures."""
    yield Text("")
    yield _move_table(figures.move)
    yield Text("")
    yield Text.assemble(("The training", _TABLE_TITLE))
    for text in training_lines(figures.training, figures.move):
        yield Text(f"  {text}")
    yield Text("")
    yield _cost_table(figures)
    yield Text("")


def move_line(move: Move) -> str:
    """Tell the move in one line."""
    return (
        f"Node {move.node} loses its power. Lost after {move.lost_seconds:.1f} s, next remote job after "
        f"{move.next_job_seconds:.1f} s, next new epoch saved after {move.next_epoch_seconds:.1f} s."
    )


def training_lines(training: Training, move: Move) -> Iterator[str]:
    """Tell what became of the epochs."""
    saved, resumed = training.saved_before_loss, training.resumed_from_epoch
    yield f"{_epochs(1, saved)} saved in {move.from_pool} before the power went"
    yield f"{_epochs(resumed + 1, training.epochs)} trained in {move.to_pool}, resumed from epoch {resumed}"
    again = f"epoch {saved + 1} was begun twice"
    yield f"not lost: {resumed} of {saved} saved epochs; repeated: {training.repeated} ({again})"
    yield f"accuracy on images never seen in training: {training.accuracy:.1%}"


def picture(facts: Facts, figures: Figures) -> str:
    """Draw the decisions and the move as SVG."""
    console = Console(file=io.StringIO(), record=True, width=PICTURE_WIDTH, highlight=False, emoji=False)
    for number, (fence, decision) in enumerate(facts.decisions.items()):
        if number:
            console.print(Text(move_line(figures.move), "bold"))
        console.print(*decision_view(decision, heading(facts, fence), PICTURE_WIDTH), sep="\n")
    drawn = console.export_svg(title="make demo", unique_id="decision")
    # The fonts named there would be fetched from the network by whoever looks at the picture.
    return re.sub(r"\s*@font-face \{.*?\}", "", drawn, flags=re.DOTALL)


def heading(facts: Facts, fence: int) -> str:
    """Name the try that a decision was made for."""
    attempt = attempt_of(facts.record, fence)
    return "No pool" if attempt is None else f"Try {attempt.try_number}"


def _epochs(first: int, last: int) -> str:
    return f"epoch {first}" if first == last else f"epochs {first} to {last}"


def _move_table(move: Move) -> Table:
    drawn = Table(
        title=f"The move from {move.from_pool} to {move.to_pool}",
        title_justify="left",
        title_style=_TABLE_TITLE,
        show_header=False,
    )
    drawn.add_column(justify="right")
    drawn.add_column()
    drawn.add_row("0.0 s", f"node {move.node} loses its power, {move.processes_killed} processes die")
    if move.suspected_seconds is not None:
        drawn.add_row(f"{move.suspected_seconds:.1f} s", "the node is suspected; nothing is done yet")
    drawn.add_row(
        f"{move.lost_seconds:.1f} s",
        f"the node counts as lost, {move.node_grace_seconds:g} s after its last sign of life",
    )
    drawn.add_row(f"{move.next_job_seconds:.1f} s", f"the next try creates its remote job in {move.to_pool}")
    drawn.add_row(f"{move.next_epoch_seconds:.1f} s", "the first new epoch is saved there")
    return drawn


def _cost_table(figures: Figures) -> Table:
    drawn = Table(
        title="What this would have cost at the published prices",
        title_justify="left",
        title_style=_TABLE_TITLE,
        show_footer=True,
    )
    drawn.add_column("pool", footer="total")
    for name in ("try", "GPUs", "seconds", "GPU-seconds", "USD per GPU-hour"):
        drawn.add_column(name, justify="right")
    drawn.add_column("USD", justify="right", footer=_usd(figures.total_usd))
    for cost in figures.costs:
        drawn.add_row(*_cost_row(cost))
    return drawn


def _cost_row(cost: Cost) -> list[str]:
    return [
        cost.pool,
        str(cost.try_number),
        str(cost.gpus),
        f"{cost.seconds:.1f}",
        f"{cost.gpu_seconds:.1f}",
        "unknown" if cost.usd_per_gpu_hour is None else f"{cost.usd_per_gpu_hour:.4f}",
        _usd(cost.usd),
    ]


def _usd(amount: float | None) -> str:
    return "unknown" if amount is None else f"{amount:.4f}"
