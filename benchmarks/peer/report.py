"""From measurements to a table and to JSON: pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

from benchmarks.peer.samples import MOMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.peer.samples import Measurement
    from benchmarks.peer.speed import Speed

#: Moments of which a contender that has no such thing is not late.
_OWN = frozenset({"suspected", "lost", "withdrawn"})
#: Moments that the cluster decides: a ratio would compare a thing with itself.
_SHARED = frozenset({"node_unknown"})


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run of the benchmark.

    :param date: day and time of the run, with time zone.
    :param machine: what it ran on.
    :param window_seconds: how long was looked, after the power loss.
    :param after_seconds: how long was looked at most, after the power came back.
    :param missed_samples: looks at which a server did not answer.
    :param contenders: the product first.
    """

    date: str
    machine: str
    versions: Mapping[str, str]
    speed: Speed
    window_seconds: float
    after_seconds: float
    missed_samples: int
    contenders: Sequence[Measurement]


def as_json(report: Report) -> dict[str, Any]:
    """Return plain values, the ratios included."""
    plain = asdict(report)
    ours = report.contenders[0]
    for one, entry in zip(report.contenders, plain["contenders"], strict=True):
        entry["times_ratio_to_ours"] = {name: ratio(one, ours, name) for name in MOMENTS}
    return plain


def ratio(one: Measurement, ours: Measurement, name: str) -> float | None:
    """Return how many times as long a contender took as the product; ``None``: nothing to compare."""
    mine, theirs = ours.times_seconds[name], one.times_seconds[name]
    if name in _SHARED or mine is None or theirs is None or mine <= 0:
        return None
    return round(theirs / mine, 2)


def table(report: Report) -> Table:
    """Return the table: a row a figure, a column a contender."""
    ours = report.contenders[0]
    result = Table(title="The same power loss, seconds after it (times of the product)", show_lines=True)
    result.add_column("")
    for one in report.contenders:
        result.add_column(one.title, justify="right")
    for name, label in MOMENTS.items():
        result.add_row(label, *(_time(one, ours, name, report) for one in report.contenders))
    for label, cells in _counts(report.contenders).items():
        result.add_row(label, *cells)
    return result


def rows(report: Report) -> list[list[str]]:
    """Return the cells of the table as text, its heading first."""
    built = table(report)
    columns = [[str(column.header), *map(str, column.cells)] for column in built.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def markdown(report: Report) -> str:
    """Return the table in Markdown, for the README."""
    lines = ["| " + " | ".join(row) + " |" for row in rows(report)]
    return "\n".join([lines[0], "|" + "---|" * len(report.contenders) + "---|", *lines[1:]])


def notes(report: Report) -> list[str]:
    """Say what a reader has to know to judge the table."""
    lines = [f"{one.title}: {one.settings}" for one in report.contenders]
    lines.append(report.speed.describe())
    lines.append(
        f"looked for {report.window_seconds:g} s after the power loss ('> n': not within that time), then"
        f" up to {report.after_seconds:g} s after the power came back"
    )
    if report.window_seconds < 300:
        lines.append(
            "pods that do not say otherwise stay on a lost node for Kubernetes' default of 300 s more, which"
            " this window is too short to show: use --window-seconds 700"
        )
    if report.missed_samples:
        lines.append(f"{report.missed_samples} looks failed because a server did not answer")
    return lines


def _counts(contenders: Sequence[Measurement]) -> dict[str, list[str]]:
    return {
        "remote jobs created": [str(one.jobs) for one in contenders],
        "most copies alive at once, after the loss": [str(one.most_copies) for one in contenders],
        "epochs saved at the loss": [str(one.epochs_saved) for one in contenders],
        "epochs trained twice": [
            "not resumed" if one.epochs_repeated is None else str(one.epochs_repeated) for one in contenders
        ],
        "task when the window ended": [one.state for one in contenders],
        "not ended on the cluster then": ["; ".join(one.open_then) or "nothing" for one in contenders],
        "task after the power came back": [one.state_after for one in contenders],
        "left behind on the cluster": ["; ".join(one.left_behind) or "nothing" for one in contenders],
    }


def _time(one: Measurement, ours: Measurement, name: str, report: Report) -> str:
    theirs = one.times_seconds[name]
    # A task of which the end was seen before the loss did not wait for the job at all.
    if name == "ended" and theirs == 0:
        return "before the loss"
    if theirs is None:
        return "-" if name in _OWN else f"> {report.window_seconds:g}"
    times = ratio(one, ours, name)
    if one is ours or times is None:
        return f"{theirs:.1f}"
    return f"{theirs:.1f} ({times:g}x)"
