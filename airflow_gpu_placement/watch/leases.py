"""How long each node has been silent, by our own clock and by what we ourselves saw change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from airflow_gpu_placement.model.kube import Lease

DEFAULT_RENEW_SECONDS = 10.0
_RENEWALS_PER_DURATION = 4
_OVERDUE_RENEWALS = 2.0
_STALE_RENEWALS = 2.5
_TOGETHER_RENEWALS = 3.0


@dataclass(slots=True)
class _Pulse:
    renew_time: str | None
    renew_seconds: float
    changed_at: float
    alive: bool  # renewed since we listen, or called ready by the cluster when we began to


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

    def listed(self, leases: Iterable[Lease], ready: Collection[str]) -> None:
        """Take a whole list: every clock starts anew.

        :param ready: nodes that the cluster calls ready now.
        """
        now = self._afresh_at = self._now()
        self._pulses = {
            lease.metadata.name: _Pulse(
                lease.spec.renew_time, _renew_seconds(lease), now, lease.metadata.name in ready
            )
            for lease in leases
        }

    def renewed(self, lease: Lease) -> bool:
        """Take one changed Lease; tell whether its node had been overdue until now."""
        name, now = lease.metadata.name, self._now()
        pulse = self._pulses.get(name)
        if pulse is None:
            self._pulses[name] = _Pulse(lease.spec.renew_time, _renew_seconds(lease), now, alive=True)
            return False
        if pulse.renew_time == lease.spec.renew_time:
            return False
        was_overdue = self.is_overdue(name)
        pulse.renew_time, pulse.renew_seconds = lease.spec.renew_time, _renew_seconds(lease)
        pulse.changed_at, pulse.alive = now, True
        return was_overdue

    def removed(self, name: str) -> None:
        """Forget a node whose Lease was deleted."""
        self._pulses.pop(name, None)

    def deaf(self) -> None:
        """Stop all clocks: the stream of Leases is broken."""
        if self._deaf_since is None:
            self._deaf_since = self._now()

    def listening(self, ready: Collection[str]) -> None:
        """Start again after :meth:`deaf`: every node gets a full fresh interval."""
        if self._deaf_since is None:
            return
        self._deaf_since = None
        now = self._afresh_at = self._now()
        for name, pulse in self._pulses.items():
            pulse.changed_at, pulse.alive = now, name in ready

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
        counted = {
            name for name, one in self._pulses.items() if one.alive and self.silent_seconds(name) <= longest
        }
        if not counted:
            return len(self._pulses), 1.0  # nobody was heard since we listen: not the fault of one node
        stale = sum(map(self._is_stale, counted))
        return stale, stale / len(counted)

    def _is_stale(self, name: str) -> bool:
        return self.silent_seconds(name) >= _STALE_RENEWALS * self.renew_seconds(name)

    def _until(self) -> float:
        return self._now() if self._deaf_since is None else self._deaf_since


def _renew_seconds(lease: Lease) -> float:
    """Return the period: a node renews four times within the duration that it writes into its Lease."""
    duration = lease.spec.lease_duration_seconds
    return duration / _RENEWALS_PER_DURATION if duration else DEFAULT_RENEW_SECONDS
