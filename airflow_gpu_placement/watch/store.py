"""What is known of one cluster, and whom a change concerns: no I/O."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_gpu_placement.engine.pod_evidence import failed
from airflow_gpu_placement.engine.ranks import job_uid_of
from airflow_gpu_placement.model.kube import Job, Node, ObjectMeta, Pod
from airflow_gpu_placement.model.outcome import Observation
from airflow_gpu_placement.watch.followers import Followers
from airflow_gpu_placement.watch.leases import LeaseClocks
from airflow_gpu_placement.watch.nodes import ClusterNodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_gpu_placement.model.kube import Lease
    from airflow_gpu_placement.watch.followed import Followed, JobRef, Subscription


class ClusterStore:
    """Objects of one cluster as the streams tell them.

    :param now: the awake clock.
    :param today: the wall clock, to be compared with times that the API wrote.
    """

    def __init__(
        self, now: Callable[[], float], today: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.leases = LeaseClocks(now)
        self._now = now
        self._today = today
        self._nodes = ClusterNodes(self.leases, now)
        self._jobs: dict[tuple[str, str], Job] = {}
        self._pods: dict[str, dict[str, Pod]] = defaultdict(dict)  # uid of the job -> uid of the pod -> pod
        self._pods_listed: set[str] = set()  # namespaces
        self._followers = Followers()

    # Following

    def subscribe(self, ref: JobRef) -> Subscription:
        """Begin to follow a job."""
        known = self._followers.get(ref.uid) is not None
        tracked, subscription = self._followers.add(ref)
        if not known:
            self._followers.set_doubtful(tracked, self._job(ref) is None)
        self._look_at_pods(tracked)
        subscription.wake()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Stop following; the last one of a job takes what is remembered of it along."""
        self._followers.remove(subscription)

    def doubtful(self) -> list[JobRef]:
        """Return followed jobs that no stream has shown: somebody has to ask for them by name."""
        return [ref for ref in self._followers.doubtful() if ref.namespace in self._pods_listed]

    def answered(self, ref: JobRef, job: Job | None) -> None:
        """Take the answer for a job that was asked for by name; ``None``: it does not exist."""
        tracked = self._followers.get(ref.uid)
        if tracked is None or not self._followers.is_doubtful(tracked):
            return
        self._followers.set_doubtful(tracked, False)
        if job is None or job.metadata.uid != ref.uid:
            tracked.gone = True
        else:
            self._jobs[ref.namespace, ref.name] = job
        tracked.wake()

    def wake_all(self) -> None:
        """Wake every follower."""
        self._followers.wake_all()

    def wake_some(self, at_most: int, *, all_jobs: bool = False) -> None:
        """Wake the followers of jobs on a node that is overdue or missing: time alone decides there.

        :param at_most: of so many jobs; the others come next time.
        :param all_jobs: of any job, as when the whole cluster is silent.
        """
        self._followers.wake_some(at_most, None if all_jobs else self._nodes.is_doubtful)

    def overdue_node(self) -> str | None:
        """Return a node of a followed job whose renewals are missing; ``None``: there is none."""
        return next(filter(self.leases.is_overdue, self._followers.nodes()), None)

    def observation(self, ref: JobRef, *, unreachable_seconds: float) -> Observation:
        """Return everything that is known of a followed job."""
        tracked = self._followers[ref.uid]
        job = self._job(ref)
        if job is None and not tracked.gone:
            # Not seen yet, which is not the same as not there.
            job = Job(metadata=ObjectMeta(name=ref.name, namespace=ref.namespace, uid=ref.uid))
        pods = {**tracked.vanished, **self._pods.get(ref.uid, {})}
        pods = {uid: pod for uid, pod in pods.items() if uid not in tracked.left}
        stale_nodes, stale_share = self.leases.stale_together(tracked.nodes)
        failing = tracked.failing_since
        return Observation(
            job=job,
            deleted_job=tracked.deleted,
            now=self._today(),
            pods=tuple(pods.values()),
            pods_listed=ref.namespace in self._pods_listed,
            vanished=frozenset(tracked.vanished) - tracked.left,
            nodes={name: self._nodes.view(name, tracked.boot_ids) for name in tracked.nodes},
            unreachable_seconds=unreachable_seconds,
            stale_share=stale_share,
            stale_nodes=stale_nodes,
            failing_seconds=0.0 if failing is None else self.leases.seconds_since(failing),
        )

    # Streams

    def jobs_listed(self, namespace: str, jobs: Iterable[Job], unreadable: Iterable[ObjectMeta] = ()) -> None:
        """Take all Jobs of a namespace.

        :param unreadable: those that exist and could not be read; what was known of them stays.
        """
        kept = {one.name for one in unreadable}
        self._jobs = {key: job for key, job in self._jobs.items() if key[0] != namespace or key[1] in kept}
        self._jobs |= {(namespace, job.metadata.name): job for job in jobs}
        for tracked in self._followers.all():
            if tracked.ref.namespace == namespace and not tracked.gone:
                # A list may be older than the job; only an answer to its name, or its deletion, is final.
                self._followers.set_doubtful(
                    tracked, self._job(tracked.ref) is None and tracked.ref.name not in kept
                )
                self._look_at_suspension(tracked)
                tracked.wake()

    def job_changed(self, namespace: str, kind: str, job: Job) -> None:
        """Take one event of a Job."""
        tracked = self._followers.get(job.metadata.uid)
        if kind == "DELETED":
            self._jobs.pop((namespace, job.metadata.name), None)
        else:
            self._jobs[namespace, job.metadata.name] = job
        if tracked is not None:
            self._followers.set_doubtful(tracked, False)
            tracked.gone = kind == "DELETED"
            tracked.deleted = job if tracked.gone else None
            self._look_at_suspension(tracked)
            tracked.wake()

    def pods_listed(self, namespace: str, pods: Iterable[Pod], unreadable: Iterable[ObjectMeta] = ()) -> None:
        """Take all our pods of a namespace; what a followed job had and is not there has vanished.

        :param unreadable: those that exist and could not be read; what was known of them stays.
        """
        self._pods_listed.add(namespace)
        kept = {one.uid for one in unreadable}
        listed: dict[str, dict[str, Pod]] = defaultdict(dict)
        for pod in pods:
            listed[job_uid_of(pod)][pod.metadata.uid] = pod
        for job_uid, old in list(self._pods.items()):
            for uid, pod in old.items():
                if pod.metadata.namespace != namespace or uid in kept:
                    listed[job_uid].setdefault(uid, pod)
                elif uid not in listed[job_uid] and (tracked := self._followers.get(job_uid)) is not None:
                    tracked.vanished[uid] = pod
        self._pods = listed
        for tracked in self._followers.all():
            if tracked.ref.namespace == namespace:
                self._look_at_pods(tracked)
                tracked.wake()

    def pod_changed(self, kind: str, pod: Pod) -> None:
        """Take one event of a pod; the event of its deletion carries its last state."""
        job_uid, uid = job_uid_of(pod), pod.metadata.uid
        tracked = self._followers.get(job_uid)
        if kind == "DELETED":
            self._pods[job_uid].pop(uid, None)
            if not self._pods[job_uid]:
                del self._pods[job_uid]
            if tracked is not None:
                tracked.vanished[uid] = pod
        else:
            self._pods[job_uid][uid] = pod
        if tracked is not None:
            self._look_at_pods(tracked)
            tracked.wake()

    def nodes_listed(self, nodes: Iterable[Node], unreadable: Iterable[ObjectMeta] = ()) -> None:
        """Take all nodes.

        :param unreadable: those that exist and could not be read; what was known of them stays.
        """
        self._nodes.listed(nodes, [one.name for one in unreadable])
        self._nodes.forget_missing(self._followers.nodes())
        self._followers.wake_all()

    def node_changed(self, kind: str, node: Node) -> None:
        """Take one event of a node."""
        self._nodes.changed(kind, node)
        if kind == "DELETED":
            self._nodes.forget_missing(self._followers.nodes())
        self._followers.wake_on(node.metadata.name)

    def node_unreadable(self, node: ObjectMeta) -> None:
        """Know that a node exists, although what it is now cannot be read."""
        self._nodes.unreadable(node.name)

    def leases_listed(self, leases: Iterable[Lease], _: Iterable[ObjectMeta] = ()) -> None:
        """Take all Leases of nodes; a node whose Lease cannot be read has no pulse that could stop."""
        self.leases.listed(leases, self.ready_nodes())
        self._followers.wake_all()

    def lease_changed(self, kind: str, lease: Lease) -> None:
        """Take one event of a Lease; nobody is woken for a renewal that was in time."""
        if self.leases.is_deaf:
            self.leases.heard_again(self.ready_nodes())
        if kind == "DELETED":
            self.leases.removed(lease.metadata.name)
        elif self.leases.renewed(lease):
            self._followers.wake_on(lease.metadata.name)

    def leases_opened(self) -> None:
        """Know that renewals are received (again)."""
        self.leases.listening(self.ready_nodes())

    def ready_nodes(self) -> frozenset[str]:
        """Return the nodes that the cluster calls ready."""
        return self._nodes.ready()

    def forget(self, namespace: str) -> None:
        """Drop the objects of a namespace that nobody follows any more."""
        self._pods_listed.discard(namespace)
        self._jobs = {key: job for key, job in self._jobs.items() if key[0] != namespace}
        for job_uid, pods in list(self._pods.items()):
            if any(pod.metadata.namespace == namespace for pod in pods.values()):
                del self._pods[job_uid]

    def _job(self, ref: JobRef) -> Job | None:
        job = self._jobs.get((ref.namespace, ref.name))
        return job if job is not None and job.metadata.uid == ref.uid else None

    def _look_at_suspension(self, tracked: Followed) -> None:
        """Leave out pods that go because their job is suspended: they say nothing of those that follow.

        Only pods that go, for the stream of pods may be ahead of that of Jobs.
        """
        job = self._job(tracked.ref)
        if job is None or not job.spec.suspend:
            return
        alive = self._pods.get(tracked.ref.uid, {}).values()
        leaving = {pod.metadata.uid for pod in alive if pod.metadata.deletion_timestamp is not None}
        if not leaving <= tracked.left or not tracked.vanished.keys() <= tracked.left:
            tracked.left |= leaving | tracked.vanished.keys()
            tracked.failing_since = None

    def _look_at_pods(self, tracked: Followed) -> None:
        self._look_at_suspension(tracked)
        pods = (*tracked.vanished.values(), *self._pods.get(tracked.ref.uid, {}).values())
        self._followers.place(tracked, {pod.spec.node_name for pod in pods} - {""})
        now = [pod for pod in pods if pod.metadata.uid not in tracked.left]
        if tracked.failing_since is None and any(map(failed, now)):
            tracked.failing_since = self._now()
