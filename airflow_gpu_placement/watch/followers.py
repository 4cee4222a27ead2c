"""Who follows what in one cluster, found by job and by node: news must not pass by everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gpu_placement.watch.followed import Followed, JobRef, Subscription

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, KeysView


class Followers:
    """The followed jobs of a cluster."""

    def __init__(self) -> None:
        self._jobs: dict[str, Followed] = {}  # by uid
        self._doubtful: dict[str, Followed] = {}
        self._on_node: dict[str, list[Followed]] = {}  # by name
        self._turn = 0

    def __getitem__(self, uid: str) -> Followed:
        return self._jobs[uid]

    def get(self, uid: str) -> Followed | None:
        """Return a job; ``None``: nobody follows it."""
        return self._jobs.get(uid)

    def all(self) -> Collection[Followed]:
        """Return every job that somebody follows."""
        return self._jobs.values()

    def nodes(self) -> KeysView[str]:
        """Return the names of the nodes that jobs were bound to."""
        return self._on_node.keys()

    def add(self, ref: JobRef) -> tuple[Followed, Subscription]:
        """Add a follower of a job."""
        tracked = self._jobs.setdefault(ref.uid, Followed(ref))
        subscription = Subscription(ref)
        tracked.subscriptions.append(subscription)
        return tracked, subscription

    def remove(self, subscription: Subscription) -> None:
        """Remove a follower; the last one of a job takes what is remembered of it along."""
        tracked = self._jobs[subscription.ref.uid]
        tracked.subscriptions.remove(subscription)
        if not tracked.subscriptions:
            self.set_doubtful(tracked, doubtful=False)
            self.place(tracked, ())
            del self._jobs[subscription.ref.uid]

    # Jobs that no stream has shown

    def set_doubtful(self, tracked: Followed, doubtful: bool) -> None:
        """Note whether a job was neither seen by a stream nor asked for: then no list may say it is gone."""
        if doubtful:
            self._doubtful[tracked.ref.uid] = tracked
        else:
            self._doubtful.pop(tracked.ref.uid, None)

    def is_doubtful(self, tracked: Followed) -> bool:
        """Tell what was noted."""
        return tracked.ref.uid in self._doubtful

    def doubtful(self) -> list[JobRef]:
        """Return all such jobs."""
        return [one.ref for one in self._doubtful.values()]

    # News

    def place(self, tracked: Followed, nodes: Collection[str]) -> None:
        """Note on which nodes a job is, so that news of a node find their way."""
        now = tuple(sorted(set(nodes)))
        if now == tracked.nodes:
            return
        for name in set(tracked.nodes) - set(now):
            self._on_node[name].remove(tracked)
            if not self._on_node[name]:
                del self._on_node[name]
        for name in set(now) - set(tracked.nodes):
            self._on_node.setdefault(name, []).append(tracked)
        tracked.nodes = now

    def wake_all(self) -> None:
        """Wake every follower."""
        for tracked in self._jobs.values():
            tracked.wake()

    def wake_on(self, node: str) -> None:
        """Wake the followers of jobs on a node."""
        for tracked in self._on_node.get(node, ()):
            tracked.wake()

    def wake_some(self, at_most: int, concerns: Callable[[str], bool] | None) -> None:
        """Wake the followers of so many jobs; the others are the first next time.

        :param concerns: tells for a node whether its jobs are meant; ``None``: all jobs are.
        """
        if concerns is None:
            meant = list(self._jobs.values())
        else:
            nodes = filter(concerns, self._on_node)
            meant = list(dict.fromkeys(tracked for name in nodes for tracked in self._on_node[name]))
        if len(meant) > at_most:
            first = self._turn % len(meant)
            self._turn = first + at_most
            meant = (meant[first:] + meant[:first])[:at_most]
        for tracked in meant:
            tracked.wake()
