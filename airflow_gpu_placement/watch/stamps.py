"""The moments under which the lines of a remote log are told: pure.

Airflow keeps a file for each triggerer that has told lines of a task. Whoever reads the log gets them merged
by time, without a line that equals the one before it, its moment included. So a line is told with a moment
that follows from what its node stamped on it, the same whoever tells it: told twice, it is read once.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from airflow_gpu_placement.engine.disruptions import when
from airflow_gpu_placement.engine.ranks import training_state

if TYPE_CHECKING:
    from airflow_gpu_placement.model.kube import Pod

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = 1000  # in microseconds, as all moments here
_LONGEST_DELAY = 2_000_000
_RANK_SLOTS = 8
_SKEW = timedelta(seconds=5)


class Grid(NamedTuple):
    """The milliseconds that the lines of one pod may take: each line gets one of its own.

    Within a millisecond Airflow sorts lines by their number in their file. Lines ``a b``, told twice in one
    millisecond, would come out as ``a b a b``, and no line would equal the one before it. Programs do write
    like that: whatever they print goes out by a full buffer at a time. So a line is moved to the next
    millisecond that is free, by two seconds at most: what comes faster for longer keeps its order and may be
    read twice. The ranks of a job write at the same moment, and take different milliseconds too.

    :param slot: which of so many milliseconds may be taken.
    """

    slot: int = 0
    slots: int = 1

    def after(self, stamped: int, last: int) -> int:
        """Return the moment of a line, in microseconds since 1970.

        :param stamped: what its node stamped on it.
        :param last: moment of the line before it.
        """
        if last - stamped >= _LONGEST_DELAY:
            return last + 1
        millisecond = max(stamped // _MILLISECOND, last // _MILLISECOND + 1)
        millisecond += (self.slot - millisecond) % self.slots
        return millisecond * _MILLISECOND


def grid_of(rank: int | None) -> Grid:
    """Return the milliseconds of a rank; ``None``: the job has one pod."""
    return Grid() if rank is None else Grid(rank % _RANK_SLOTS, _RANK_SLOTS)


class NodeClock:
    """What the stamps of a pod's node are worth.

    Lines of a node whose clock is wrong would come hours too early or too late in the log. They are told with
    the moment at which they are read instead; then a line that is told twice is read twice. A few seconds
    are borne: clocks differ a little, and a line may have been moved.

    :param pod: with its training container started.
    """

    __slots__ = ("_is_behind",)

    def __init__(self, pod: Pod) -> None:
        state = training_state(pod)
        begun = None if state is None else state.running or state.terminated
        started = None if begun is None else when(begun.started_at)  # by the clock of the node
        created = when(pod.metadata.creation_timestamp)  # by that of the API server
        self._is_behind = started is not None and created is not None and started < created - _SKEW

    def shown(self, moment: int, now: datetime) -> datetime:
        """Return the moment to tell a line with."""
        told = _EPOCH + timedelta(microseconds=moment)
        return now if self._is_behind or told > now + _SKEW else told
