"""How long each node has been silent, by our own clock and by what we ourselves saw change."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from airflow_gpu_placement.model.kube import Lease

DEFAULT_RENEW_SECONDS = 10.0
_RENEWALS_PER_DURATION = 4
_OVERDUE_RENEWALS = 2.0
_STALE_RENEWALS = 2.4
_TOGETHER_RENEWALS = 3.0
_COUNT_AGAIN_SECONDS = 0.25
_MOMENT_SECONDS = 10.0


@dataclass(slots=True)
class _Pulse:
    renew_time: str | None
    renew_seconds: float
    changed_at: float
    alive: bool  # renewed since we listen, or called ready by the cluster when we began to


@dataclass(slots=True)
class _Living:
    """How long the nodes that are alive were silent at a moment, sorted; and the stale among the first n."""

    at: float
    silent_seconds: list[float]
    stale: list[int]


class LeaseClocks:
    """The pulse of every node of a cluster.

    The times written in Leases are never compared with a clock: another machine wrote them. What counts is
    how long ago we saw one change. While we cannot listen the clocks stand still, and when we can again every
    node gets a full fresh interval, for it may not have been able to renew either.

    :param now: the awake clock.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._pulses: dict[str, _Pulse] = {}
        self._deaf_since: float | None = None
        self._afresh_at = now()
        self._heard_at = now()
        self._living: _Living | None = None

    def listed(self, leases: Iterable[Lease], ready: Collection[str]) -> None:
        """Take a whole list: every clock starts anew.

        :param ready: nodes that the cluster calls ready now.
        """
        now = self._afresh_at = self._heard_at = self._now()
        self._living = None
        self._pulses = {
            lease.metadata.name: _Pulse(
                lease.spec.renew_time, _renew_seconds(lease), now, lease.metadata.name in ready
            )
            for lease in leases
        }

    def renewed(self, lease: Lease) -> bool:
        """Take one changed Lease; tell whether its node had been overdue until now."""
        name = lease.metadata.name
        now = self._heard_at = self._now()
        pulse = self._pulses.get(name)
        if pulse is None:
            self._pulses[name] = _Pulse(lease.spec.renew_time, _renew_seconds(lease), now, alive=True)
            return False
        if pulse.renew_time == lease.spec.renew_time:
            return False
        was_overdue = self.is_overdue(name)
        if was_overdue:
            self._living = None
        pulse.renew_time, pulse.renew_seconds = lease.spec.renew_time, _renew_seconds(lease)
        pulse.changed_at, pulse.alive = now, True
        return was_overdue

    def removed(self, name: str) -> None:
        """Forget a node whose Lease was deleted."""
        self._heard_at = self._now()
        self._pulses.pop(name, None)
        self._living = None

    def confirmed(self) -> None:
        """Know that the cluster keeps Leases right now and has told all that there is to tell."""
        self._heard_at = self._now()

    def unconfirmed_seconds(self) -> float:
        """Return for how long no Lease has proven that renewals would be received."""
        return self._now() - self._heard_at

    @property
    def is_deaf(self) -> bool:
        """Whether the clocks stand still."""
        return self._deaf_since is not None

    def deaf(self, *, since_heard: bool = False) -> None:
        """Stop all clocks: renewals are not received.

        :param since_heard: not from now, but from the last one that was: what followed was no silence.
        """
        if self._deaf_since is None:
            self._deaf_since = self._heard_at if since_heard else self._now()
            self._living = None

    def listening(self, ready: Collection[str]) -> None:
        """Start again after :meth:`deaf`: every node gets a full fresh interval."""
        if self._deaf_since is None:
            return
        self._deaf_since = self._living = None
        now = self._afresh_at = self._heard_at = self._now()
        for name, pulse in self._pulses.items():
            pulse.changed_at, pulse.alive = now, name in ready

    def heard_again(self, ready: Collection[str]) -> None:
        """Know that renewals were received all the time, except perhaps since :meth:`deaf`.

        After a moment the clocks go on where they stopped; after a longer time, in which nodes may not have
        been able to renew either, every node gets a full fresh interval.
        """
        if self._deaf_since is None:
            return
        now = self._now()
        deaf_seconds = now - self._deaf_since
        if deaf_seconds > _MOMENT_SECONDS:
            self.listening(ready)
            return
        self._deaf_since = self._living = None
        self._heard_at = now
        for pulse in self._pulses.values():
            pulse.changed_at += deaf_seconds

    def silent_seconds(self, name: str) -> float:
        """Return how long a node has been silent; 0 for one without a Lease."""
        pulse = self._pulses.get(name)
        return 0.0 if pulse is None else max(0.0, self._until() - pulse.changed_at)

    def seconds_since(self, moment: float) -> float:
        """Return how long we have been listening since a moment: what silence may be compared with."""
        return max(0.0, self._until() - max(moment, self._afresh_at))

    def renew_seconds(self, name: str) -> float:
        """Return the period at which a node renews."""
        pulse = self._pulses.get(name)
        return DEFAULT_RENEW_SECONDS if pulse is None else pulse.renew_seconds

    def is_overdue(self, name: str) -> bool:
        """Whether a node has missed enough renewals for its silence to be worth a look every tick."""
        return self.silent_seconds(name) >= _OVERDUE_RENEWALS * self.renew_seconds(name)

    def stale_together(self, names: Collection[str]) -> tuple[int, float]:
        """Return how many nodes fell silent together with the given ones, and their share (0 to 1).

        Nodes that were dead before are not part of the comparison: a machine that was switched off last week
        and never removed says nothing about what happens now.

        :param names: nodes of one remote job.
        """
        silent = [name for name in names if self._is_stale(name)]
        if not silent:
            return 0, 0.0
        first = max(silent, key=self.silent_seconds)
        longest = self.silent_seconds(first) + _TOGETHER_RENEWALS * self.renew_seconds(first)
        stale, counted = self._count(longest)
        if not counted:
            return len(self._pulses), 1.0  # nobody was heard since we listen: not the fault of one node
        return stale, stale / counted

    def _count(self, longest: float) -> tuple[int, int]:
        """Count the nodes that are not silent for longer than that: those that are stale, and all.

        They are sorted once for all jobs that ask within a moment.
        """
        now = self._until()
        if self._living is None or not 0 <= now - self._living.at < _COUNT_AGAIN_SECONDS:
            alive = sorted(
                (now - one.changed_at, self._is_stale(name))
                for name, one in self._pulses.items()
                if one.alive
            )
            stale = [0, *accumulate(is_stale for _, is_stale in alive)]
            self._living = _Living(now, [seconds for seconds, _ in alive], stale)
        living = self._living
        counted = bisect_right(living.silent_seconds, longest - (now - living.at))
        return living.stale[counted], counted

    def _is_stale(self, name: str) -> bool:
        return self.silent_seconds(name) >= _STALE_RENEWALS * self.renew_seconds(name)

    def _until(self) -> float:
        return self._now() if self._deaf_since is None else self._deaf_since


def _renew_seconds(lease: Lease) -> float:
    """Return the period: a node renews four times within the duration that it writes into its Lease."""
    duration = lease.spec.lease_duration_seconds
    return duration / _RENEWALS_PER_DURATION if duration else DEFAULT_RENEW_SECONDS
