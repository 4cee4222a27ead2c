"""What is known of a remote job over its whole life, and the law that no two of a task may break.

``JobRecorder`` (``tests/harness/recorder.py``) fills these values in; here they are only judged.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A node renews its Lease every second here; after this much silence nobody can learn from it what has ended.
SILENT_SECONDS = 2.5
#: How much later than its event a process may be seen: one look at the processes is this long.
LOOK_SECONDS = 0.5


class Moment(NamedTuple):
    """When something happened.

    :param version: resource version of the event. All clusters of a lab share one etcd, whose one counter
        orders the events of different clusters without a clock.
    :param seen_at: ``time.monotonic()`` at which this process learnt of it.
    """

    version: int
    seen_at: float


@dataclass(kw_only=True)
class RemoteJob:
    """One remote job, present or gone.

    :param task: hash of its logical task.
    :param deletion: when its deletion was asked for, at the latest.
    :param closed: when it became Complete or Failed, or its object went.
    :param nodes: names of the nodes that its pods were bound to.
    :param running_at: times of all looks at which one of its container processes was alive.
    """

    uid: str
    cluster: str
    name: str
    dag_id: str
    run_id: str
    task: str
    attempt_id: str
    fence: int
    pool: str
    created: Moment
    deletion: Moment | None = None
    closed: Moment | None = None
    succeeded: bool = False
    nodes: set[str] = field(default_factory=set)
    running_at: list[float] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Name it with its fence and pool."""
        return f"{self.name} (fence {self.fence}, {self.pool})"

    @property
    def live(self) -> bool:
        """Whether it may still be doing work, by its object alone."""
        return self.closed is None


@dataclass
class NodeLife:
    """Signs of life of one node.

    :param renewals: times at which its Lease was seen to change, in order.
    :param gone: spans of time without a Node object; the last one may be open.
    """

    renewals: list[float] = field(default_factory=list)
    gone: list[list[float]] = field(default_factory=list)

    def can_tell(self, at: float) -> bool:
        """Whether the node could tell at that moment what has ended on it."""
        if any(span[0] <= at and (len(span) == 1 or at <= span[1]) for span in self.gone):
            return False
        before = bisect.bisect_right(self.renewals, at)
        return before > 0 and at - self.renewals[before - 1] <= SILENT_SECONDS


def violations(jobs: Iterable[RemoteJob], nodes: dict[str, NodeLife]) -> list[str]:
    """Return one line for each pair of remote jobs of one logical task that breaks the law.

    The law, for an older and a newer remote job of one logical task (older: its create has the smaller
    resource version), at the instant at which the newer one is created:

    1. the newer one has the larger fence, always, whether the older one is over or not;
    2. the older one is *over*, or it is *given up*.

    Over: its object is Complete, Failed or gone, and from then on none of its container processes is seen
    alive. Given up, which makes its writes harmless by its smaller fence: its deletion has been asked for
    (its ``deletionTimestamp`` or its removal has a smaller resource version than the newer one's create), or
    at least one node that it runs on cannot be asked: the Node object is gone, or its Lease has not changed
    for ``SILENT_SECONDS``, which covers a dead agent, a partition, a power loss and a cluster out of reach.

    As every later pair was such a pair at the creation of its newer one, this holds at every instant: at most
    one live remote job of a logical task is neither fenced nor given up.
    """
    by_task: dict[str, list[RemoteJob]] = {}
    for job in jobs:
        by_task.setdefault(job.task, []).append(job)
    found = []
    for group in by_task.values():
        group.sort(key=lambda job: job.created.version)
        for older, newer in combinations(group, 2):
            found += _judge(older, newer, nodes)
    return found


def _judge(older: RemoteJob, newer: RemoteJob, nodes: dict[str, NodeLife]) -> list[str]:
    when = f"when {newer.label} was created, at {newer.created.seen_at:.2f} s"
    found = []
    if newer.fence <= older.fence:
        found.append(f"{older.label} had no smaller fence {when}")
    if not (_over(older, newer.created) or _given_up(older, newer.created, nodes)):
        created = f"created at {older.created.seen_at:.2f} s"
        ended = "never" if older.closed is None else f"at {older.closed.seen_at:.2f} s"
        found.append(f"{older.label}, {created}, closed {ended}, was live and not given up {when}")
    return found


def _over(older: RemoteJob, moment: Moment) -> bool:
    closed = older.closed is not None and older.closed.version <= moment.version
    return closed and not any(at > moment.seen_at + LOOK_SECONDS for at in older.running_at)


def _given_up(older: RemoteJob, moment: Moment, nodes: dict[str, NodeLife]) -> bool:
    if older.deletion is not None and older.deletion.version <= moment.version:
        return True
    return any(not nodes.get(name, NodeLife()).can_tell(moment.seen_at) for name in older.nodes)
