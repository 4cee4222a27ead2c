"""Follow one remote job to its end."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.clusters.turns import in_turn
from airflow_gpu_placement.engine.classify import classify, explained
from airflow_gpu_placement.engine.pod_evidence import ended
from airflow_gpu_placement.engine.ranks import TRAINING_CONTAINER
from airflow_gpu_placement.exceptions import ClusterError
from airflow_gpu_placement.model.outcome import OutcomeKind
from airflow_gpu_placement.watch.logs import JobLogs
from airflow_gpu_placement.watch.phases import PhaseReporter
from airflow_gpu_placement.watch.pod_log import TAIL_LINES
from airflow_gpu_placement.watch.starting import Starting

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from airflow_gpu_placement.model.outcome import LossPolicy, Observation, Outcome
    from airflow_gpu_placement.watch.bookmarks import LogBookmarks
    from airflow_gpu_placement.watch.cluster import ClusterWatch
    from airflow_gpu_placement.watch.followed import JobRef, Subscription

_DRAIN_SECONDS = 10.0
_SETTLE_SECONDS = 3.0
_TAIL_SECONDS = 5.0
_SEEN_LINES = 5
_TRAINED = frozenset({OutcomeKind.SUCCEEDED, OutcomeKind.APPLICATION})


async def follow(
    watch: ClusterWatch,
    ref: JobRef,
    policy: LossPolicy,
    *,
    report: Callable[[str], None],
    report_log: Callable[[datetime, str], None],
    logs: bool = True,
    bookmarks: LogBookmarks | None = None,
) -> Outcome:
    """Wait until a remote job has ended, or must be taken as lost.

    :param policy: how long silence and a late start are borne.
    :param report: takes one line for each change of phase.
    :param report_log: takes one line of the remote log, after the moment at which it was written.
    :param logs: whether to stream the logs of all ranks meanwhile.
    :param bookmarks: keeps the positions in the logs for the next watcher; ``None``: there is none.
    :return: a final outcome; its message ends with the last log lines of the pod, after a loss with the last
        ones that were seen.
    """
    phases = PhaseReporter(report)
    streams = JobLogs(watch, report_log, bookmarks)
    handed_over = True
    with watch.track(ref) as subscription:
        try:
            observation, outcome = await _until_final(
                watch, subscription, policy, phases, streams if logs else None
            )
            if outcome.kind in _TRAINED:
                # A lost node's log has no more to say and would hold up the news.
                observation, outcome = await _settled(watch, subscription, policy, observation, outcome)
                if logs:
                    streams.update(observation)
                    await streams.drain(_DRAIN_SECONDS)
            phases.update(observation, outcome)
            if outcome.kind is OutcomeKind.APPLICATION:
                outcome = await _with_tail(watch, ref, observation, outcome, streams)
            elif outcome.kind is OutcomeKind.INFRASTRUCTURE:
                outcome = _with_lines(
                    outcome, "Last lines seen of its log", streams.tail(outcome.pod)[-_SEEN_LINES:]
                )
            handed_over = False
            return outcome
        finally:
            await streams.close(handed_over=handed_over)


async def _until_final(
    watch: ClusterWatch,
    subscription: Subscription,
    policy: LossPolicy,
    phases: PhaseReporter,
    streams: JobLogs | None,
) -> tuple[Observation, Outcome]:
    """Look whenever something may have changed, until nothing more is to be waited for."""
    starting = Starting(watch, subscription.ref, policy)
    while True:
        await starting.changed(subscription)
        await in_turn()  # a list that was read wakes everybody at once
        observation = await starting.measured(watch.observe(subscription.ref))
        outcome = classify(observation, policy)
        phases.tell_troubles(watch.troubles())
        if streams is not None:
            streams.update(observation)
        if outcome.final:
            return observation, outcome
        phases.update(observation, outcome)
        del observation, outcome  # a triggerer has a thousand such loops waiting


async def _settled(
    watch: ClusterWatch,
    subscription: Subscription,
    policy: LossPolicy,
    observation: Observation,
    outcome: Outcome,
) -> tuple[Observation, Outcome]:
    """Give the stream of pods a moment to catch up with that of Jobs, which may be ahead of it."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_SETTLE_SECONDS):
            while not _all_ended(observation):
                await subscription.changed()
                observation = watch.observe(subscription.ref)
                again = classify(observation, policy)
                outcome = again if again.final else outcome
    return observation, outcome


def _all_ended(observation: Observation) -> bool:
    return bool(observation.pods) and all(
        ended(pod) or pod.metadata.uid in observation.vanished for pod in observation.pods
    )


async def _with_tail(
    watch: ClusterWatch, ref: JobRef, observation: Observation, outcome: Outcome, streams: JobLogs
) -> Outcome:
    """Add the last lines of the pod that is the cause, read once more when they were not streamed.

    They may explain an exit code that says nothing by itself: a broken GPU, an image for another processor.
    """
    tail = streams.tail(outcome.pod)
    if not streams.is_complete(outcome.pod) and outcome.pod is not None:
        with contextlib.suppress(ClusterError, TimeoutError):
            async with asyncio.timeout(_TAIL_SECONDS):
                client = await watch.client()
                lines = client.log(
                    ref.namespace, outcome.pod, TRAINING_CONTAINER, {"tailLines": str(TAIL_LINES)}
                )
                tail = tuple([line.decode("utf-8", "replace") async for line in lines])
    if tail:
        outcome = explained(outcome, observation, tail)
    return _with_lines(outcome, "Last lines of its log", tail)


def _with_lines(outcome: Outcome, what: str, lines: tuple[str, ...]) -> Outcome:
    if not lines:
        return outcome
    text = "\n".join(lines)
    return msgspec.structs.replace(outcome, message=f"{outcome.message}\n{what}:\n{text}")
