"""Run one training job on the GPU pool where it can really run, and place it again when it is lost."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import msgspec
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowTaskTimeout, TaskDeferralError, TaskDeferralTimeout

from airflow_gpu_placement.catalog import DEFAULT_PROFILE
from airflow_gpu_placement.exceptions import GpuPlacementError, PlacementTimeout
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.hooks.memory import TaskStateMemory, recall
from airflow_gpu_placement.model.attempt import MAX_MOVES, AttemptPhase
from airflow_gpu_placement.model.outcome import Outcome
from airflow_gpu_placement.operators.adopting import unreported_end
from airflow_gpu_placement.operators.arguments import REPLACE, check_fixed
from airflow_gpu_placement.operators.cancelling import Cancelling
from airflow_gpu_placement.operators.deadlines import (
    backstop,
    execution_deadline,
    next_look,
    placement_deadline,
)
from airflow_gpu_placement.operators.identity import logical_task
from airflow_gpu_placement.operators.launching import watch_arguments
from airflow_gpu_placement.operators.marking import hand_over, mark
from airflow_gpu_placement.operators.placing import Placing
from airflow_gpu_placement.operators.returning import result_of
from airflow_gpu_placement.operators.settling import (
    leave,
    may_move,
    note_proof,
    run_out_of_time,
    settle,
    watch_again,
)
from airflow_gpu_placement.operators.steps import Launched, Refused, Unproven
from airflow_gpu_placement.operators.sweep import labels_of, sweep_again
from airflow_gpu_placement.policies.retry import GpuRetryPolicy
from airflow_gpu_placement.settings import load_settings
from airflow_gpu_placement.triggers.pause import PauseTrigger
from airflow_gpu_placement.triggers.proof import ProofTrigger
from airflow_gpu_placement.triggers.remote_job import RemoteJobTrigger

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context
    from airflow.sdk.definitions.retry_policy import RetryPolicy

    from airflow_gpu_placement.model.attempt import AttemptRecord
    from airflow_gpu_placement.model.request import GpuRequest

log = logging.getLogger(__name__)


class GpuTrainingJobOperator(BaseOperator):
    """Decide where a training job can run, launch it there, watch it, and re-place it when its node is lost.

    The task returns what the training program wrote to ``GPU_PLACEMENT_RESULT_PATH`` (JSON, at most 4096
    bytes). A failure of the training code fails the task at once; the loss of a node is retried elsewhere at
    once, at most ``retries`` times, from the newest checkpoint. A job whose pods do not all start in the time
    that the pool allows is placed elsewhere in the same try, up to three times.

    ``execution_timeout`` counts from the start of the try over everything: waiting for a pool, for pods, and
    training. When it is over, the remote job is withdrawn and the try fails as Airflow's time-outs do.

    :param image: container image of the training program. (templated)
    :param command: the container's command; empty (the default): the entry point of the image. (templated)
    :param arguments: arguments of the command, in which numbers are taken as texts. (templated)
    :param gpu: what the job needs: a :class:`~airflow_gpu_placement.model.request.GpuRequest`, or a dict with
        the same keys, whose texts are templated.
    :param profile: name of a profile of the catalogue: ``cheapest`` (money alone), ``balanced`` (an hour is
        worth 10 USD) or ``fastest`` (1000 USD), or one of the platform team's own; default ``cheapest``.
        (templated)
    :param env: environment of the training program; names that begin with ``GPU_PLACEMENT_`` are taken.
        (templated)
    :param pod_resources: other resources of each pod, such as ``{"cpu": "32", "memory": "200Gi"}`` or
        ``{"rdma/hca": "4"}``, which its node must have free beside the GPUs. (templated)
    :param volumes: volumes of the pod in Kubernetes form. (templated)
    :param volume_mounts: mounts of the container in Kubernetes form. (templated)
    :param resume: ``auto``: tries of one run resume from their newest checkpoint; after a success that is
        cleared, or a run that is deleted, it starts anew; ``always``: even then it resumes; ``never``: never.
    :param placement_timeout: how long a try may wait for a pool that can take the job, counted from its
        start; default 24 hours.
    :param on_unreachable: what follows when a remote job is lost and no node has reported its end:
        ``replace`` (default): the next try starts all the same, since it writes only into its own checkpoint
        folder; ``wait``: nothing is launched before the end of every earlier remote job is confirmed.
    :param ttl_seconds_after_finished: seconds for which a cluster keeps a finished remote job; default a day.
    :param deferrable: wait in the triggerer, without a worker slot; default true.
    :param retries: how often a lost job may be placed again; default 5. With 0 it is never re-placed.
    :param retry_policy: what a failure means for the next try; default :class:`GpuRetryPolicy`.
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
        command: Sequence[str] = (),
        gpu: GpuRequest | Mapping[str, Any],
        profile: str = DEFAULT_PROFILE,
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        pod_resources: Mapping[str, str] | None = None,
        volumes: Sequence[Mapping[str, Any]] = (),
        volume_mounts: Sequence[Mapping[str, Any]] = (),
        resume: Literal["auto", "always", "never"] = "auto",
        placement_timeout: timedelta = timedelta(hours=24),
        on_unreachable: Literal["replace", "wait"] = REPLACE,
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
        self.on_unreachable = on_unreachable
        self.ttl_seconds_after_finished = ttl_seconds_after_finished
        self.deferrable = deferrable
        self.cancelling = Cancelling()
        check_fixed(self)

    def execute(self, context: Context) -> Any:
        """Place the job and wait for its end."""
        if not self.retries:
            self.log.warning("retries=0: when the job is lost with its node it will not be placed again")
        with self.cancelling.at_work():
            placing = Placing.of(self, context, load_settings())
            placing.announce()
            adopted = asyncio.run(placing.unreported_success())
            if adopted is not None:
                return self._end(context, adopted.outcome, adopted.known)
            return self._place(context)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Take the task up again after a deferral, also after one that failed."""
        with self.cancelling.at_work():
            try:
                return super().resume_execution(next_method, next_kwargs, context)
            except TaskDeferralTimeout:
                if (outcome := unreported_end(context)) is not None:
                    return self._end(context, outcome)
                self._run_out_of_time(context)
            except TaskDeferralError as error:
                return self._after_failed_deferral(context, str(error))

    def place_again(self, context: Context, event: dict[str, Any] | None = None) -> Any:  # noqa: ARG002 - interface
        """Decide again after a pause in which nothing fitted."""
        return self._place(context)

    def place_proven(self, context: Context, event: dict[str, Any] | None = None) -> Any:
        """Decide again after the end of an earlier remote job was waited for.

        :param event: what :class:`ProofTrigger` found.
        """
        note_proof(TaskStateMemory(context["task_state_store"]), event or {})
        return self._place(context)

    def execute_complete(self, context: Context, event: dict[str, Any] | None = None) -> Any:
        """Take up the task when its remote job has ended, its time is over, or its watch broke.

        :param event: what :class:`RemoteJobTrigger` saw.
        :raises RemoteJobError: the job ended without success.
        :raises AirflowTaskTimeout: ``execution_timeout`` is over.
        """
        kind = None if event is None else event.get("kind")
        if event is not None and kind == "ended":
            return self._end(context, msgspec.convert(event["outcome"], Outcome))
        if kind == "deadline":
            self._run_out_of_time(context)
        return self._after_failed_deferral(context, str((event or {}).get("message", event)))

    def on_kill(self) -> None:
        """Withdraw the remote job when Airflow ends the task while a worker runs it."""
        self.cancelling.on_kill()

    def _place(self, context: Context) -> Any:
        refusals = 0
        while True:
            deadline = execution_deadline(self, context["ti"])
            if deadline is not None and datetime.now(UTC) >= deadline:
                self._run_out_of_time(context)
            settings = load_settings()
            # Read anew each time: the platform team may have changed the catalogue meanwhile.
            step = asyncio.run(Placing.of(self, context, settings).attempt())
            if isinstance(step, Launched):
                return self._watch(context, step.record)
            patience = placement_deadline(self, context["ti"])
            if datetime.now(UTC) >= patience:
                raise PlacementTimeout(step.too_long(self.placement_timeout))
            if isinstance(step, Unproven):
                self._await_proof(context, step.earlier)
                continue
            if isinstance(step, Refused) and (refusals := refusals + 1) <= MAX_MOVES:
                continue
            until = next_look(settings.decide_again_seconds, deadline, patience)
            if self.deferrable:
                mark(context)
                self.defer(
                    trigger=PauseTrigger(until=until.isoformat()),
                    method_name="place_again",
                    timeout=backstop(deadline),
                )
            time.sleep(max((until - datetime.now(UTC)).total_seconds(), 0.0))

    def _await_proof(self, context: Context, earlier: AttemptRecord) -> None:
        """Wait until the end of an earlier launch is confirmed, or nothing more is to be waited for."""
        ti = context["ti"]
        deadline = execution_deadline(self, ti)
        moments = [moment for moment in (deadline, placement_deadline(self, ti)) if moment is not None]
        trigger = ProofTrigger.of(earlier, labels=labels_of(earlier, logical_task(ti)), until=min(moments))
        text = "The end of %s in %s is not confirmed; nothing is launched before it is (on_unreachable=wait)"
        log.info(text, earlier.job_name, earlier.pool)
        if self.deferrable:
            mark(context)
            self.defer(trigger=trigger, method_name="place_proven", timeout=backstop(deadline))
        note_proof(TaskStateMemory(context["task_state_store"]), asyncio.run(trigger.news(open_on_worker)))

    def _watch(self, context: Context, known: AttemptRecord, pause_seconds: float = 0.0) -> Any:
        deadline = execution_deadline(self, context["ti"])
        trigger = RemoteJobTrigger(**watch_arguments(known, deadline, pause_seconds))
        if self.deferrable:
            hand_over(context, known)
            self.defer(trigger=trigger, method_name="execute_complete", timeout=backstop(deadline))
        return self.execute_complete(context, asyncio.run(trigger.event(open_on_worker)))

    def _after_failed_deferral(self, context: Context, why: str) -> Any:
        """Go on with what was waited for: a remote job may be healthy although its watch broke."""
        memory = TaskStateMemory(context["task_state_store"])
        known = recall(memory.read(), str(context["ti"].id))
        if known is None or known.phase is AttemptPhase.ENDED:
            return self._place(context)
        again = watch_again(known, memory, why)
        if again.outcome is not None:
            return self._end(context, again.outcome)
        return self._watch(context, again.record, again.pause_seconds)

    def _run_out_of_time(self, context: Context) -> NoReturn:
        """Withdraw what runs and end the try as Airflow ends one whose time is over."""
        memory = TaskStateMemory(context["task_state_store"])
        known = recall(memory.read(), str(context["ti"].id))
        text = f"execution_timeout={self.execution_timeout} is over"
        if known is not None and known.phase is not AttemptPhase.ENDED:
            grade = asyncio.run(run_out_of_time(known, memory, load_settings()))
            text += f"; {known.job_name} in pool {known.pool} is withdrawn, its end is {grade}"
        self.cancelling.disarm()
        raise AirflowTaskTimeout(text)

    def _end(self, context: Context, outcome: Outcome, known: AttemptRecord | None = None) -> Any:
        memory = TaskStateMemory(context["task_state_store"])
        known = known or recall(memory.read(), str(context["ti"].id))
        if known is None:
            raise GpuPlacementError("nothing is remembered of this try; was its task state deleted by hand?")
        if may_move(outcome, known, memory.read()):
            asyncio.run(leave(outcome, known, memory, load_settings()))
            return self._place(context)
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
        asyncio.run(sweep_again(memory, known, logical_task(context["ti"]), open_on_worker))
        return result_of(outcome)
