"""What was measured, and the table of it."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class Loss:
    """One power loss under the product. Times in seconds; ``None``: it was not seen.

    :param phase_seconds: time since the node's last renewal of its Lease when it lost power.
    :param suspected_seconds: from the power loss to the suspicion.
    :param lost_seconds: from the power loss to the verdict.
    :param replaced_seconds: from the verdict to the creation of the next remote job.
    """

    node: str
    phase_seconds: float
    suspected_seconds: float | None
    lost_seconds: float | None
    replaced_seconds: float | None


@dataclass(frozen=True, kw_only=True)
class PeerLoss:
    """One power loss under the peer: seconds from it to the next pod; ``None``: not within the run."""

    title: str
    replaced_seconds: float | None
    watched_seconds: float


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that one run has measured.

    :param moves_by_pauses: remote jobs that moved although their node had only paused.
    :param moves_by_restart: the same for the restart of the API server.
    """

    date: str
    machine: str
    node_grace_seconds: float
    losses: Sequence[Loss]
    pauses: int
    pause_seconds: float
    moves_by_pauses: int
    moves_by_restart: int
    peers: Sequence[PeerLoss]

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return asdict(self)


def table(report: Report) -> Table:
    """Lay the figures out for people."""
    shown = Table(title=f"{len(report.losses)} power losses at random phases of the renewal (every 10 s)")
    for heading in ("from", "to", "seen", "min s", "median s", "max s"):
        shown.add_column(heading, justify="left" if heading in {"from", "to"} else "right")
    rows = (
        ("power loss", "suspected", [one.suspected_seconds for one in report.losses]),
        (
            "power loss",
            f"lost (grace {report.node_grace_seconds:g} s)",
            [one.lost_seconds for one in report.losses],
        ),
        ("lost", "next remote job created", [one.replaced_seconds for one in report.losses]),
        ("power loss", "next remote job created", [_total(one) for one in report.losses]),
    )
    for start, end, values in rows:
        seen = [value for value in values if value is not None]
        figures = (min(seen), statistics.median(seen), max(seen)) if seen else ()
        shown.add_row(start, end, f"{len(seen)}/{len(values)}", *(f"{figure:.1f}" for figure in figures))
    ours = [total for one in report.losses if (total := _total(one)) is not None]
    for peer in report.peers:
        value = peer.replaced_seconds
        text = f"> {peer.watched_seconds:.0f}" if value is None else f"{value:.1f}"
        ratio = "" if value is None or not ours else f" ({value / statistics.median(ours):.1f}x ours)"
        shown.add_row(
            "power loss", f"next pod under {peer.title}", f"{value is not None:d}/1", "", text + ratio
        )
    return shown


def notes(report: Report) -> list[str]:
    """Say what the table does not."""
    return [
        f"{report.pauses} pauses of {report.pause_seconds:g} s: {report.moves_by_pauses} moves",
        f"1 restart of the API server: {report.moves_by_restart} moves",
        f"{report.date}; {report.machine}",
    ]


def _total(loss: Loss) -> float | None:
    if loss.lost_seconds is None or loss.replaced_seconds is None:
        return None
    return loss.lost_seconds + loss.replaced_seconds
