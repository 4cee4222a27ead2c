"""What was seen, and what follows from it: pure values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

ENDED_STATES = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})


@dataclass(frozen=True, kw_only=True)
class View:
    """One contender at one moment.

    :param jobs: names of its Jobs.
    :param pods: names of its pods.
    :param deleting: names of its pods that have a deletion timestamp.
    :param copies: processes of its training program that are alive on this machine.
    :param epoch: newest epoch of which a complete checkpoint is on the shared folder.
    """

    task_state: str
    try_number: int
    jobs: frozenset[str] = frozenset()
    pods: frozenset[str] = frozenset()
    deleting: frozenset[str] = frozenset()
    copies: int = 0
    epoch: int = 0


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Everything at one moment.

    :param at_seconds: seconds after the power loss.
    :param node_ready: status of the lost node's Ready condition.
    """

    at_seconds: float
    node_ready: str
    views: Mapping[str, View]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What the power loss did to one contender; times are seconds after it, ``None``: not in the window.

    :param title: name in the table.
    :param settings: how the operator was used, in words.
    :param times_seconds: moments by name, in the order of ``MOMENTS``.
    :param jobs: remote jobs created until the window ended.
    :param most_copies: most copies of the program that were alive at once after the loss.
    :param epochs_saved: epochs whose checkpoint was complete when the power went.
    :param epochs_repeated: epochs trained twice; ``None``: nothing was resumed in the window.
    :param state: state and try of the task when the window ended.
    :param open_then: what had not ended on the cluster by then.
    :param state_after: state and try some time after the power came back.
    :param left_behind: what had not ended on the cluster by then.
    """

    key: str
    title: str
    settings: str
    times_seconds: Mapping[str, float | None]
    jobs: int
    most_copies: int
    epochs_saved: int
    epochs_repeated: int | None
    state: str
    open_then: tuple[str, ...]
    state_after: str
    left_behind: tuple[str, ...]


#: Moments that are read off the samples, in order, with their name in the table.
MOMENTS = {
    "node_unknown": "cluster says Ready=Unknown",
    "suspected": "operator suspects the node",
    "lost": "operator calls the job lost",
    "withdrawn": "old pod is asked to end",
    "next_copy": "next remote job or pod exists",
    "resumed": "first new epoch saved elsewhere",
    "trained": "last epoch saved",
    "ended": "task succeeded",
}


def moments(
    samples: Sequence[Sample], key: str, logged: Mapping[str, float], epochs: int
) -> dict[str, float | None]:
    """Return the moments of one contender.

    :param samples: the first is the one that was taken when the power had gone.
    :param epochs: length of the training.
    :param logged: moments that only the task's log tells.
    """
    before = samples[0].views[key]
    return {
        "node_unknown": _first(samples, lambda sample: sample.node_ready == "Unknown"),
        "suspected": logged.get("suspected"),
        "lost": logged.get("lost"),
        "withdrawn": _first(samples, lambda sample: bool(sample.views[key].deleting & before.pods)),
        "next_copy": _first(samples, lambda sample: bool(sample.views[key].pods - before.pods)),
        "resumed": _first(samples, lambda sample: sample.views[key].epoch > before.epoch),
        "trained": _first(samples, lambda sample: sample.views[key].epoch >= epochs),
        # A task that had succeeded when the power went did not wait for its job at all.
        "ended": 0.0
        if before.task_state == "success"
        else _first(samples, lambda sample: sample.views[key].task_state == "success"),
    }


def all_ended(sample: Sample) -> bool:
    """Whether no task can change any more and nothing trains."""
    return all(view.task_state in ENDED_STATES and not view.copies for view in sample.views.values())


def most_copies(samples: Iterable[Sample], key: str) -> int:
    """Return the most copies of a contender's program that were alive at once."""
    return max(sample.views[key].copies for sample in samples)


def jobs_created(samples: Iterable[Sample], key: str) -> int:
    """Return how many Jobs of a contender were ever seen, those that are gone included."""
    return len(frozenset().union(*(sample.views[key].jobs for sample in samples)))


def state_text(view: View) -> str:
    """Name the task's state and try."""
    return f"{view.task_state}, try {view.try_number}"


def _first(samples: Sequence[Sample], holds: Callable[[Sample], bool]) -> float | None:
    return next((sample.at_seconds for sample in samples if holds(sample)), None)
