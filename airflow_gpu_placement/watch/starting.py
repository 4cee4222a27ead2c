"""The start of a remote job: how long it has taken so far, and why no pod of it appears."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from airflow_gpu_placement.engine.start import gang_started, unschedulable
from airflow_gpu_placement.exceptions import ClusterError, Forbidden
from airflow_gpu_placement.model.kube import ObjectMeta, Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_gpu_placement.model.outcome import LossPolicy, Observation
    from airflow_gpu_placement.watch.cluster import ClusterWatch
    from airflow_gpu_placement.watch.followed import JobRef, Subscription

NO_POD_SECONDS = 15.0
"""A Job controller that is only busy has made the pods by then."""

_ASK_AGAIN_SECONDS = 60.0
_ANSWER_SECONDS = 5.0
_A_MOMENT_SECONDS = 0.1


class JobEvent(Struct, frozen=True):
    """An Event that was written about a Job."""

    metadata: ObjectMeta = ObjectMeta()
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None


class Starting:
    """Measures the start of one followed job by the watcher's own clock.

    A watch that begins anew gives the job its whole time again: clocks of other machines are not compared.

    :param policy: how long a start may take.
    """

    __slots__ = (
        "_asked_at",
        "_began",
        "_nowhere_since",
        "_over",
        "_policy",
        "_ref",
        "_refusal",
        "_watch",
        "_without_pods",
    )

    def __init__(self, watch: ClusterWatch, ref: JobRef, policy: LossPolicy) -> None:
        self._watch = watch
        self._ref = ref
        self._policy = policy
        self._began = watch.now()
        self._nowhere_since: float | None = None
        self._asked_at: float | None = None
        self._refusal = ""
        self._over = False
        self._without_pods = True

    async def changed(self, subscription: Subscription) -> None:
        """Wait until the job may have changed, or until time alone may say something about its start."""
        await subscription.changed(within_seconds=min(self._due_seconds(), default=None))

    async def measured(self, observation: Observation) -> Observation:
        """Add what is known of the start to an observation; nothing once every pod has started."""
        if gang_started(observation):
            self._over = True
            return observation
        if self._over:
            # It was suspended since, and begins anew when somebody lets it.
            return msgspec.structs.replace(observation, waited_seconds=0.0)
        now = self._watch.now()
        if not unschedulable(observation):
            self._nowhere_since = None
        elif self._nowhere_since is None:
            self._nowhere_since = now
        if self._is_without_pods(observation) and self._may_ask(now):
            self._asked_at = now
            self._refusal = await self._ask()
        self._without_pods = self._is_without_pods(observation)
        return msgspec.structs.replace(
            observation,
            waited_seconds=now - self._began,
            unschedulable_seconds=0.0 if self._nowhere_since is None else now - self._nowhere_since,
            create_refusal=self._refusal,
        )

    def _due_seconds(self) -> Iterator[float]:
        """Yield the times until each moment at which time alone may say something."""
        if self._over:
            return
        waited = self._watch.now() - self._began
        moments = [self._policy.start_timeout_seconds]
        if self._without_pods:
            asked = self._asked_at
            moments.append(NO_POD_SECONDS if asked is None else asked - self._began + _ASK_AGAIN_SECONDS)
        limit = self._policy.unschedulable_timeout_seconds
        if limit is not None and self._nowhere_since is not None:
            moments.append(self._nowhere_since - self._began + limit)
        for moment in moments:
            yield max(moment - waited, 0.0) + _A_MOMENT_SECONDS

    def _is_without_pods(self, observation: Observation) -> bool:
        suspended = observation.job is None or observation.job.spec.suspend
        return observation.pods_listed and not observation.pods and not suspended

    def _may_ask(self, now: float) -> bool:
        if self._asked_at is not None:
            return now - self._asked_at >= _ASK_AGAIN_SECONDS
        return now - self._began >= NO_POD_SECONDS

    async def _ask(self) -> str:
        """Read in the events of the Job why no pod is created; what cannot be asked now says nothing new."""
        path = f"/api/v1/namespaces/{quote(self._ref.namespace)}/events"
        query = {"fieldSelector": f"involvedObject.uid={self._ref.uid}"}
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                client = await self._watch.client()
                events, _ = await client.list_all(path, JobEvent, query)
        except Forbidden as error:
            return f"nobody may read the events that say why ({error})"
        except (ClusterError, TimeoutError):
            return self._refusal
        failed = [one for one in events if one.reason == "FailedCreate"]
        latest = max(failed, key=lambda one: one.last_timestamp or "", default=None)
        return self._refusal if latest is None else latest.message
