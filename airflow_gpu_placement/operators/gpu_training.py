"""Run one training job on the GPU pool where it can really run, and place it again when it is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.sdk import BaseOperator

from airflow_gpu_placement.catalog import DEFAULT_PROFILE
from airflow_gpu_placement.exceptions import GpuPlacementError, PlacementTimeout
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.hooks.memory import TaskStateMemory, recall
from airflow_gpu_placement.model.outcome import Outcome
from airflow_gpu_placement.operators.placing import Launched, Placing, Waiting
from airflow_gpu_placement.operators.settling import result_of, settle
from airflow_gpu_placement.operators.sweep import LOOK_SECONDS, withdraw_attempt
from airflow_gpu_placement.policies.retry import GpuRetryPolicy
from airflow_gpu_placement.settings import load_settings
from airflow_gpu_placement.triggers.pause import PauseTrigger
from airflow_gpu_placement.triggers.remote_job import RemoteJobTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context
    from airflow.sdk.definitions.retry_policy import RetryPolicy

    from airflow_gpu_placement.model.attempt import AttemptRecord
    from airflow_gpu_placement.model.request import GpuRequest

_KILL_TIMEOUT_SECONDS = 20.0


class GpuTrainingJobOperator(BaseOperator):
    """Decide where a training job can run, launch it there, watch it, and re-place it when its node is lost.

    The task returns what the training program wrote to ``GPU_PLACEMENT_RESULT_PATH`` (JSON, at most 4096
    bytes). A failure of the training code fails the task at once; the loss of a node is retried elsewhere at
    once, at most ``retries`` times, from the newest checkpoint.

    :param image: container image of the training program. (templated)
    :param command: the container's command. (templated)
    :param arguments: arguments of the command. (templated)
    :param gpu: what the job needs: a :class:`~airflow_gpu_placement.model.request.GpuRequest`, or a dict with
        the same keys, whose texts are templated.
    :param profile: name of a profile of the catalogue: ``cheapest`` (money alone), ``balanced`` (an hour is
        worth 10 USD) or ``fastest`` (1000 USD), or one of the platform team's own; default ``cheapest``.
        (templated)
    :param env: environment of the training program; names that begin with ``GPU_PLACEMENT_`` are taken.
        (templated)
    :param pod_resources: other resources of each pod, such as ``{"cpu": "32", "memory": "200Gi"}``.
        (templated)
    :param volumes: volumes of the pod in Kubernetes form. (templated)
    :param volume_mounts: mounts of the container in Kubernetes form. (templated)
    :param resume: ``auto``: tries of one run resume from their newest checkpoint, and a task that is cleared
        after a success starts anew; ``always``: even then it resumes; ``never``: every try starts anew.
    :param placement_timeout: how long the task waits for a pool that can take the job; default 24 hours.
    :param ttl_seconds_after_finished: how long the cluster keeps a finished remote job, in seconds; default a
        day.
    :param deferrable: wait in the triggerer, without a worker slot; default true.
    :param retries: how often a lost job may be placed again; default 5. With 0 it is never re-placed.
    """

    template_fields: Sequence[str] = (
        "image",
        "command",
        "arguments",
        "gpu",
        "profile",
        "env",
        "pod_resources",
        "volumes",
        "volume_mounts",
    )
    ui_color = "#76b900"

    def __init__(
        self,
        *,
        image: str,
        command: Sequence[str],
        gpu: GpuRequest | Mapping[str, Any],
        profile: str = DEFAULT_PROFILE,
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        pod_resources: Mapping[str, str] | None = None,
        volumes: Sequence[Mapping[str, Any]] = (),
        volume_mounts: Sequence[Mapping[str, Any]] = (),
        resume: str = "auto",
        placement_timeout: timedelta = timedelta(hours=24),
        ttl_seconds_after_finished: int = 86_400,
        deferrable: bool = True,
        retries: int = 5,
        retry_policy: RetryPolicy | None = GpuRetryPolicy(),  # noqa: B008 - immutable, and expand() reads it
        **kwargs: Any,
    ) -> None:
        super().__init__(retries=retries, retry_policy=retry_policy, **kwargs)
        self.image = image
        self.command = command
        self.arguments = arguments
        self.gpu = gpu
        self.profile = profile
        self.env = env
        self.pod_resources = pod_resources
        self.volumes = volumes
        self.volume_mounts = volume_mounts
        self.resume = resume
        self.placement_timeout = placement_timeout
        self.ttl_seconds_after_finished = ttl_seconds_after_finished
        self.deferrable = deferrable
        self._launched: AttemptRecord | None = None

    def execute(self, context: Context) -> Any:
        """Place the job and wait for its end."""
        if not self.retries:
            self.log.warning("retries=0: when the job is lost with its node it will not be placed again")
        Placing.of(self, context, load_settings()).announce()
        return self._place(context)

    def place_again(self, context: Context, event: dict[str, Any] | None = None) -> Any:  # noqa: ARG002 - interface
        """Decide again after a pause in which nothing fitted."""
        return self._place(context)

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> Any:
        """Take up the task when its remote job has ended.

        :param event: what :class:`RemoteJobTrigger` saw.
        :raises RemoteJobError: the job ended without success.
        """
        if event is None or event.get("kind") != "ended":
            self._withdraw_unwatched(context)
            raise GpuPlacementError(
                f"the remote job is withdrawn, as its watch brought no outcome: {event!r}"
            )
        return self._end(context, msgspec.convert(event["outcome"], Outcome))

    def _withdraw_unwatched(self, context: Context) -> None:
        """Leave nothing running that nobody watches; the next try starts from the newest checkpoint."""
        memory = TaskStateMemory(context["task_state_store"])
        known = recall(memory.read(), str(context["ti"].id))
        if known is not None:
            asyncio.run(
                withdraw_attempt(known, pool=None, open_cluster=open_on_worker, timeout_seconds=LOOK_SECONDS)
            )

    def on_kill(self) -> None:
        """Withdraw the remote job when the task is killed while a worker waits for it."""
        launched = self._launched
        if launched is None:
            return
        withdrawal = threading.Thread(
            target=lambda: asyncio.run(
                withdraw_attempt(launched, pool=None, open_cluster=open_on_worker, timeout_seconds=1.0)
            ),
            name="withdraw",
        )
        withdrawal.start()
        withdrawal.join(_KILL_TIMEOUT_SECONDS)

    def _place(self, context: Context) -> Any:
        while True:
            settings = load_settings()
            # Read anew each time: the platform team may have changed the catalogue meanwhile.
            step = asyncio.run(Placing.of(self, context, settings).attempt())
            if isinstance(step, Launched):
                return self._watch(context, step)
            self._check_placement_timeout(context, step)
            until = datetime.now(UTC) + timedelta(seconds=settings.decide_again_seconds)
            if self.deferrable:
                self.defer(trigger=PauseTrigger(until=until.isoformat()), method_name="place_again")
            time.sleep(settings.decide_again_seconds)

    def _check_placement_timeout(self, context: Context, step: Waiting) -> None:
        waited = datetime.now(UTC) - context["ti"].start_date
        if waited >= self.placement_timeout:
            raise PlacementTimeout(
                f"no GPU pool could take the job within {self.placement_timeout}:\n{step.explanation}"
            )

    def _watch(self, context: Context, launched: Launched) -> Any:
        trigger = RemoteJobTrigger(**launched.trigger_arguments)
        if self.deferrable:
            self.defer(trigger=trigger, method_name="execute_complete")
        self._launched = launched.record
        outcome = asyncio.run(trigger.watch(open_on_worker))
        return self._end(context, outcome)

    def _end(self, context: Context, outcome: Outcome) -> Any:
        memory = TaskStateMemory(context["task_state_store"])
        known = recall(memory.read(), str(context["ti"].id))
        if known is None:
            raise GpuPlacementError("nothing is remembered of this try; was its task state deleted by hand?")
        asyncio.run(
            settle(
                outcome,
                known,
                memory,
                settings=load_settings(),
                try_number=context["ti"].try_number,
                max_tries=context["ti"].max_tries,
            )
        )
        return result_of(outcome)
