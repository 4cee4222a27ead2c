"""The cohort tree of one resource in one flavour, and what each queue in it may take.

Every node of the tree has quota of its own. With a lending limit, the rest of its subtree's quota stays
inside the subtree; everything else is held in common by the parent. Use first eats what stays inside and
then what is held in common, which is how a queue's quota can be gone although it uses nothing itself.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class QueueQuota(msgspec.Struct, frozen=True, kw_only=True):
    """A ClusterQueue's part of one resource in one flavour.

    :param reserved: held by its workloads; may exceed ``nominal``, by borrowing or since quota was lowered.
    :param borrowing_limit: most that it may hold above ``nominal``; ``None``: no limit.
    :param lending_limit: most of ``nominal`` that others may use; ``None``: all of it.
    :param cohort: ``None``: it neither borrows nor lends.
    :param active: an inactive queue admits nothing, but its quota stays in the cohort: it goes on lending.
    :param reclaim: ``Never``, ``LowerPriority`` or ``Any``: who gives back what is this queue's own.
    """

    name: str
    nominal: int = 0
    reserved: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    cohort: str | None = None
    active: bool = True
    reclaim: str = "Never"


class CohortQuota(msgspec.Struct, frozen=True, kw_only=True):
    """A Cohort's own part of one resource in one flavour; limits as for a queue, towards its parent."""

    name: str
    nominal: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    parent: str | None = None


class _Sums(msgspec.Struct, frozen=True):
    """A node's quota with that of its subtree, and what is used of it."""

    quota: int
    used: int
    kept: int

    @property
    def lent(self) -> int:
        """Quota that the parent holds in common."""
        return self.quota - self.kept

    @property
    def used_in_parent(self) -> int:
        return max(0, self.used - self.kept)

    @property
    def free_inside(self) -> int:
        return max(0, self.kept - self.used)


class QuotaTree:
    """All queues and cohorts that share one resource in one flavour.

    :param queues: every ClusterQueue of the cluster, also those without this flavour.
    :param cohorts: the Cohort objects; cohorts that are only named by queues need none.
    """

    def __init__(self, queues: Iterable[QueueQuota], cohorts: Iterable[CohortQuota] = ()) -> None:
        self.queues: Mapping[str, QueueQuota] = {one.name: one for one in queues}
        self._explicit: Mapping[str, CohortQuota] = {one.name: one for one in cohorts}

    def available(self, name: str) -> int:
        """Return what one more workload of a queue can reserve now, borrowing included; never below 0."""
        queue = self.queues[name]
        return max(0, self._available(queue)) if self.admits(name) else 0

    def available_now(self) -> dict[str, int]:
        """Return :meth:`available` of every queue."""
        return {name: self.available(name) for name in self.queues}

    def potential(self, name: str) -> int:
        """Return the most that a queue could hold, were nothing reserved anywhere."""
        queue = self.queues[name]
        if queue.cohort is None or self.in_cycle(name):
            return max(0, queue.nominal)
        most = self._kept(queue) + self._cohort_potential(queue.cohort)
        return max(
            0, most if queue.borrowing_limit is None else min(most, queue.nominal + queue.borrowing_limit)
        )

    def borrowing(self, name: str) -> int:
        """Return the part of :meth:`available` that is not the queue's own."""
        queue = self.queues[name]
        return max(0, self.available(name) - max(0, queue.nominal - queue.reserved))

    def withheld(self, name: str) -> int:
        """Return how much of a queue's own unused quota others hold now, beyond what is available to it."""
        queue = self.queues[name]
        own = min(queue.nominal, self.potential(name)) - queue.reserved
        return max(0, own - self.available(name)) if self.admits(name) else 0

    def borrowers(self, name: str) -> frozenset[str]:
        """Return the other queues of the same tree that hold more than is theirs."""
        root = self._root(self.queues[name])
        return frozenset(
            other.name
            for other in self.queues.values()
            if root is not None
            and other.name != name
            and other.reserved > other.nominal
            and self._root(other) == root
        )

    def admits(self, name: str) -> bool:
        """Whether the queue admits anything at all: it is active and its cohorts form no circle."""
        return self.queues[name].active and not self.in_cycle(name)

    def in_cycle(self, name: str) -> bool:
        """Whether the queue's cohorts are their own ancestors; Kueue admits nothing there."""
        cohort = self.queues[name].cohort
        return cohort is not None and self._path(cohort) is None

    def _available(self, queue: QueueQuota) -> int:
        if queue.cohort is None:
            return queue.nominal - queue.reserved
        sums = _Sums(queue.nominal, queue.reserved, self._kept(queue))
        return _with_parent(sums, queue.borrowing_limit, self._cohort_available(queue.cohort))

    def _cohort_available(self, name: str) -> int:
        sums = self._sums[name]
        parent = self._cohort(name).parent
        if parent is None:
            return sums.quota - sums.used
        return _with_parent(sums, self._cohort(name).borrowing_limit, self._cohort_available(parent))

    def _cohort_potential(self, name: str) -> int:
        sums, cohort = self._sums[name], self._cohort(name)
        if cohort.parent is None:
            return sums.quota
        most = sums.kept + self._cohort_potential(cohort.parent)
        return most if cohort.borrowing_limit is None else min(most, sums.quota + cohort.borrowing_limit)

    def _cohort(self, name: str) -> CohortQuota:
        return self._explicit.get(name) or CohortQuota(name=name)

    def _kept(self, queue: QueueQuota) -> int:
        return _kept(queue.nominal, queue.lending_limit)

    def _path(self, cohort: str) -> tuple[str, ...] | None:
        """Cohorts from this one to its root; ``None``: they form a circle."""
        path = [cohort]
        while (parent := self._cohort(path[-1]).parent) is not None:
            if parent in path:
                return None
            path.append(parent)
        return tuple(path)

    def _root(self, queue: QueueQuota) -> str | None:
        path = None if queue.cohort is None else self._path(queue.cohort)
        return None if path is None else path[-1]

    @cached_property
    def _sums(self) -> Mapping[str, _Sums]:
        """Sums of every cohort that is in no circle, children before parents."""
        members: dict[str, list[QueueQuota]] = {}
        for queue in self.queues.values():
            if queue.cohort is not None:
                members.setdefault(queue.cohort, []).append(queue)
        paths = {name: self._path(name) for name in {*members, *self._explicit}}
        names = {name for path in paths.values() if path is not None for name in path}
        sums: dict[str, _Sums] = {}
        for name in sorted(names, key=lambda one: -len(self._path(one) or ())):
            cohort = self._cohort(name)
            children = [sums[child] for child in sorted(sums) if self._cohort(child).parent == name]
            children += [_Sums(one.nominal, one.reserved, self._kept(one)) for one in members.get(name, ())]
            quota = cohort.nominal + sum(child.lent for child in children)
            used = sum(child.used_in_parent for child in children)
            sums[name] = _Sums(quota, used, _kept(quota, cohort.lending_limit))
        return sums


def _kept(quota: int, lending_limit: int | None) -> int:
    """Quota that is never lent."""
    return 0 if lending_limit is None else max(0, quota - lending_limit)


def _with_parent(sums: _Sums, borrowing_limit: int | None, from_parent: int) -> int:
    """Add what the parent gives: at most what is stored there and not yet used, plus the borrowing limit."""
    if borrowing_limit is not None:
        from_parent = min(from_parent, sums.lent - sums.used_in_parent + borrowing_limit)
    return sums.free_inside + from_parent
