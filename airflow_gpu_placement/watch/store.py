"""What is known of one cluster, and whom a change concerns: no I/O."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_gpu_placement.model.kube import Job, Node, ObjectMeta, Pod
from airflow_gpu_placement.model.outcome import Observation
from airflow_gpu_placement.watch.followed import Followed, JobRef, Subscription
from airflow_gpu_placement.watch.leases import LeaseClocks
from airflow_gpu_placement.watch.nodes import ClusterNodes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_gpu_placement.model.kube import Lease

__all__ = ["ClusterStore", "JobRef"]

_CONTROLLER_UID_LABEL = "batch.kubernetes.io/controller-uid"


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
        self._tracked: dict[str, Followed] = {}  # by uid of the job

    # Following

    def subscribe(self, ref: JobRef) -> Subscription:
        """Begin to follow a job."""
        subscription = Subscription(ref)
        tracked = self._tracked.setdefault(ref.uid, Followed(ref))
        tracked.subscriptions.add(subscription)
        self._look_at_pods(tracked)
        if self._job(ref) is not None:
            tracked.doubtful = False
        subscription.wake()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Stop following; the last one of a job takes what is remembered of it along."""
        tracked = self._tracked[subscription.ref.uid]
        tracked.subscriptions.discard(subscription)
        if not tracked.subscriptions:
            del self._tracked[subscription.ref.uid]

    def doubtful(self) -> list[JobRef]:
        """Return followed jobs that no stream has shown: somebody has to ask for them by name."""
        return [
            one.ref
            for one in self._tracked.values()
            if one.doubtful and one.ref.namespace in self._pods_listed
        ]

    def answered(self, ref: JobRef, job: Job | None) -> None:
        """Take the answer for a job that was asked for by name; ``None``: it does not exist."""
        tracked = self._tracked.get(ref.uid)
        if tracked is None or not tracked.doubtful:
            return
        tracked.doubtful = False
        if job is None or job.metadata.uid != ref.uid:
            tracked.gone = True
        else:
            self._jobs[ref.namespace, ref.name] = job
        self._wake(tracked)

    def wake_all(self) -> None:
        """Wake every follower."""
        for tracked in self._tracked.values():
            self._wake(tracked)

    def wake_overdue(self) -> None:
        """Wake the followers of jobs on a node that is overdue or missing: time alone decides there."""
        for tracked in self._tracked.values():
            if any(map(self._nodes.is_doubtful, tracked.nodes)):
                self._wake(tracked)

    def observation(self, ref: JobRef, *, unreachable_seconds: float) -> Observation:
        """Return everything that is known of a followed job."""
        tracked = self._tracked[ref.uid]
        job = self._job(ref)
        if job is None and not tracked.gone:
            # Not seen yet, which is not the same as not there.
            job = Job(metadata=ObjectMeta(name=ref.name, namespace=ref.namespace, uid=ref.uid))
        pods = {**tracked.vanished, **self._pods.get(ref.uid, {})}
        stale_nodes, stale_share = self.leases.stale_together(tracked.nodes)
        failing = tracked.failing_since
        return Observation(
            job=job,
            deleted_job=tracked.deleted,
            now=self._today(),
            pods=tuple(pods.values()),
            pods_listed=ref.namespace in self._pods_listed,
            vanished=frozenset(tracked.vanished),
            nodes={name: self._nodes.view(name, tracked.boot_ids) for name in sorted(tracked.nodes)},
            unreachable_seconds=unreachable_seconds,
            stale_share=stale_share,
            stale_nodes=stale_nodes,
            failing_seconds=0.0 if failing is None else self.leases.seconds_since(failing),
        )

    # Streams

    def jobs_listed(self, namespace: str, jobs: Iterable[Job]) -> None:
        """Take all Jobs of a namespace."""
        self._jobs = {key: job for key, job in self._jobs.items() if key[0] != namespace}
        self._jobs |= {(namespace, job.metadata.name): job for job in jobs}
        for tracked in self._tracked.values():
            if tracked.ref.namespace == namespace and not tracked.gone:
                # A list may be older than the job; only an answer to its name, or its deletion, is final.
                tracked.doubtful = self._job(tracked.ref) is None
                self._wake(tracked)

    def job_changed(self, namespace: str, kind: str, job: Job) -> None:
        """Take one event of a Job."""
        tracked = self._tracked.get(job.metadata.uid)
        if kind == "DELETED":
            self._jobs.pop((namespace, job.metadata.name), None)
        else:
            self._jobs[namespace, job.metadata.name] = job
        if tracked is not None:
            tracked.doubtful = False
            tracked.gone = kind == "DELETED"
            tracked.deleted = job if tracked.gone else None
            self._wake(tracked)

    def pods_listed(self, namespace: str, pods: Iterable[Pod]) -> None:
        """Take all our pods of a namespace; what a followed job had and is not there has vanished."""
        self._pods_listed.add(namespace)
        listed: dict[str, dict[str, Pod]] = defaultdict(dict)
        for pod in pods:
            listed[_job_uid(pod)][pod.metadata.uid] = pod
        for job_uid, old in list(self._pods.items()):
            for uid, pod in old.items():
                if pod.metadata.namespace != namespace:
                    listed[job_uid].setdefault(uid, pod)
                elif uid not in listed[job_uid] and job_uid in self._tracked:
                    self._tracked[job_uid].vanished[uid] = pod
        self._pods = listed
        for tracked in self._tracked.values():
            self._look_at_pods(tracked)
            self._wake(tracked)

    def pod_changed(self, kind: str, pod: Pod) -> None:
        """Take one event of a pod; the event of its deletion carries its last state."""
        job_uid, uid = _job_uid(pod), pod.metadata.uid
        tracked = self._tracked.get(job_uid)
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
            self._wake(tracked)

    def nodes_listed(self, nodes: Iterable[Node]) -> None:
        """Take all nodes."""
        self._nodes.listed(nodes)
        self.wake_all()

    def node_changed(self, kind: str, node: Node) -> None:
        """Take one event of a node."""
        self._nodes.changed(kind, node)
        self._wake_jobs_on(node.metadata.name)

    def leases_listed(self, leases: Iterable[Lease]) -> None:
        """Take all Leases of nodes."""
        self.leases.listed(leases, self.ready_nodes())
        self.wake_all()

    def lease_changed(self, kind: str, lease: Lease) -> None:
        """Take one event of a Lease; nobody is woken for a renewal that was in time."""
        if kind == "DELETED":
            self.leases.removed(lease.metadata.name)
        elif self.leases.renewed(lease):
            self._wake_jobs_on(lease.metadata.name)

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

    def _look_at_pods(self, tracked: Followed) -> None:
        pods = (*tracked.vanished.values(), *self._pods.get(tracked.ref.uid, {}).values())
        tracked.nodes = frozenset(pod.spec.node_name for pod in pods) - {""}
        if tracked.failing_since is None and any(map(_has_failed, pods)):
            tracked.failing_since = self._now()

    def _wake_jobs_on(self, name: str) -> None:
        for tracked in self._tracked.values():
            if name in tracked.nodes:
                self._wake(tracked)

    def _wake(self, tracked: Followed) -> None:
        for subscription in tracked.subscriptions:
            subscription.wake()


def _job_uid(pod: Pod) -> str:
    return pod.metadata.labels.get(_CONTROLLER_UID_LABEL, "")


def _has_failed(pod: Pod) -> bool:
    return pod.status.phase == "Failed" or any(
        one.state.terminated is not None and one.state.terminated.exit_code != 0
        for one in pod.status.container_statuses
    )
