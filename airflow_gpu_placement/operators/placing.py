"""One attempt: sweep, decide, and launch where the decision says."""

from __future__ import annotations

import asyncio
import importlib
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from airflow_gpu_placement.catalog import informed, load, resolve
from airflow_gpu_placement.cycle import decide
from airflow_gpu_placement.engine.explain import details, line, table_text
from airflow_gpu_placement.engine.history import history_of
from airflow_gpu_placement.engine.learn import learn
from airflow_gpu_placement.exceptions import NoPoolFits
from airflow_gpu_placement.hooks.checkpoints import CheckpointScan, checkpoint_root, scan
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.hooks.memory import TaskStateMemory, as_json, recall
from airflow_gpu_placement.launch.spec import LaunchSpec
from airflow_gpu_placement.model.attempt import Attempt, AttemptRecord, TaskRecord
from airflow_gpu_placement.model.pool import CapacityType
from airflow_gpu_placement.operators.adopting import unreported_success
from airflow_gpu_placement.operators.arguments import WAIT, check_arguments
from airflow_gpu_placement.operators.deadlines import execution_deadline
from airflow_gpu_placement.operators.decision_size import shortened
from airflow_gpu_placement.operators.identity import logical_task, team_of
from airflow_gpu_placement.operators.launching import active_deadline_seconds, launch
from airflow_gpu_placement.operators.request import parse_request
from airflow_gpu_placement.operators.resuming import begin, checkpoint_region, gpu_model_of
from airflow_gpu_placement.operators.steps import Launched, Unproven, Waiting
from airflow_gpu_placement.operators.sweep import sweep

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_gpu_placement.catalog import Catalog
    from airflow_gpu_placement.model.attempt import LogicalTask
    from airflow_gpu_placement.model.decision import Decision, Setting
    from airflow_gpu_placement.model.estimate import Knowledge
    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.request import GpuRequest
    from airflow_gpu_placement.operators.adopting import Adopted
    from airflow_gpu_placement.operators.gpu_training import GpuTrainingJobOperator
    from airflow_gpu_placement.settings import Settings

log = logging.getLogger(__name__)

DECISION_KEY = "gpu_placement.decision"


@dataclass(frozen=True, kw_only=True)
class Placing:
    """Everything one attempt needs, read once from the task's context."""

    operator: GpuTrainingJobOperator
    request: GpuRequest
    catalog: Catalog
    setting: Setting
    remarks: tuple[str, ...]
    memory: TaskStateMemory
    store: Any
    task: LogicalTask
    attempt_id: str
    try_number: int
    first_try: int
    clear_number: int
    settings: Settings
    deadline: datetime | None

    @classmethod
    def of(cls, operator: GpuTrainingJobOperator, context: Context, settings: Settings) -> Placing:
        """Read the request, the catalogue as it is now, and the memory.

        :raises RequestError: the request or an argument cannot be read or satisfied.
        :raises CatalogError: the catalogue is missing or wrong, or does not tell who pays.
        """
        check_arguments(operator)
        ti = context["ti"]
        store = context["task_state_store"]
        catalog = load(settings.catalog, settings.catalog_overlay)
        resolved = resolve(
            catalog,
            parse_request(operator.gpu),
            profile=operator.profile,
            dag_id=ti.dag_id,
            team=team_of(context["dag_run"]),
        )
        return cls(
            operator=operator,
            request=resolved.request,
            catalog=catalog,
            setting=resolved.setting,
            remarks=(*resolved.remarks, *catalog.warnings),
            memory=TaskStateMemory(store),
            store=store,
            task=logical_task(ti),
            attempt_id=str(ti.id),
            try_number=ti.try_number,
            # A clear gives the task all its retries anew, counted from the try that it had come to.
            first_try=max(ti.max_tries - (operator.retries or 0), 0) + 1,
            clear_number=context["dag_run"].clear_number or 0,
            settings=settings,
            deadline=execution_deadline(operator, ti),
        )

    def announce(self) -> None:
        """Log what is asked for, how, and for whom."""
        tenant = self.setting.tenant
        log.info(
            "%s asks for %s; profile %s%s",
            self.task,
            self.request.describe(),
            self.setting.profile.name,
            "" if tenant is None else f", tenant {tenant.name}",
        )
        for remark in self.remarks:
            log.warning("%s", remark)

    async def unreported_success(self) -> Adopted | None:
        """Find the success of a remote job whose try Airflow has lost."""
        return await unreported_success(
            self.memory.read(),
            first_try=self.first_try,
            try_number=self.try_number,
            clear_number=self.clear_number,
            open_cluster=open_on_worker,
        )

    async def attempt(self) -> Launched | Waiting | Unproven:
        """Place the job once.

        :raises NoPoolFits: every pool says never.
        """
        pools = {pool.name: pool for pool in self.catalog.pools}
        # 1. Settle what earlier launches left behind.
        record = begin(self.memory.read(), self.attempt_id, self.operator.resume)
        current = self._next_launch(record)
        swept = await sweep(
            record,
            current,
            pools=pools,
            open_cluster=open_on_worker,
            timeout_seconds=self.settings.fence_timeout_seconds,
        )
        if swept.unproven and self.operator.on_unreachable == WAIT:
            self._remember(swept.record)
            return Unproven(swept.unproven[0])
        # The client library takes a second to load, which is not the clusters' time.
        await asyncio.to_thread(importlib.import_module, "airflow_gpu_placement.clusters.connect")
        # 2. Decide on one snapshot, and on where the newest checkpoint of earlier attempts is.
        found = self._checkpoints(swept.record) if swept.record.attempts else None
        decision = await decide(
            self.request,
            self.catalog,
            history_of(swept.record, self.clear_number),
            informed(self.catalog, self.setting, self._knowledge(swept.record, found)),
            subject=str(self.task),
            open_cluster=open_on_worker,
            deadline_seconds=self.settings.signal_deadline_seconds,
            clock=lambda: datetime.now(UTC),
        )
        # 3. Keep it, and tell it unless it was told before.
        pool = decision.chosen_pool
        if pool is None:
            return self._nowhere(decision, swept.record)
        # 4. Launch, the intent first.
        found = found or self._checkpoints(swept.record)
        fence = 1 + max(swept.record.last_fence, swept.largest_fence, found.largest_fence)
        current = msgspec.structs.replace(current, fence=fence)
        self._keep(decision, fence)
        known = await launch(
            self._spec(decision, pool, current, swept.record, found),
            self._launch_record(decision, pool, current),
            swept.record,
            self.memory,
            cancelling=self.operator.cancelling,
        )
        return Launched(known)

    def _next_launch(self, record: TaskRecord) -> Attempt:
        """Name the launch that comes now; whatever this try has launched before is an earlier one."""
        latest = recall(record, self.attempt_id)
        move = 0 if latest is None else latest.move + 1
        return Attempt(
            task=self.task,
            attempt_id=self.attempt_id,
            try_number=self.try_number,
            move=move,
            installation=self.settings.installation,
        )

    def _knowledge(self, record: TaskRecord, found: CheckpointScan | None) -> Knowledge:
        """Learn from the task's own memory: runtimes, losses, and where its newest checkpoint is."""
        own = record.attempts
        learnt = learn(own, own, self.catalog.pools, now=datetime.now(UTC))
        return msgspec.structs.replace(learnt, checkpoint_region=checkpoint_region(record, found))

    def _nowhere(self, decision: Decision, record: TaskRecord) -> Waiting:
        self._keep(decision, record.last_fence + 1)
        self._remember(record)
        explanation = details(decision)
        if decision.never:
            raise NoPoolFits(explanation)
        return Waiting(explanation)

    def _remember(self, record: TaskRecord) -> None:
        """Keep what the sweep found; a generation begins with a launch, not with each look meanwhile."""
        generation = self.memory.read().generation
        self.memory.write(msgspec.structs.replace(record, generation=generation))

    def _checkpoints(self, record: TaskRecord) -> CheckpointScan:
        uri = self.request.checkpoint.uri
        if uri is None:
            return CheckpointScan()
        found = scan(checkpoint_root(uri, self.task.hash, record.generation))
        if found.resume_from:
            log.info("Resume from step %s: %s", found.step, found.resume_from)
        return found

    def _keep(self, decision: Decision, fence: int) -> None:
        """Store the decision beside the memory, without the nodes when they are too many; tell it once."""
        kept = shortened(as_json(decision))
        key = f"{DECISION_KEY}.{fence}"
        told = self.store.get(key)
        telling = {"line": line(decision), "attempt_id": self.attempt_id}
        self.store.set(key, {**kept, **telling}, retention=NEVER_EXPIRE)
        if isinstance(told, dict) and telling.items() <= told.items():
            return
        log.info("%s", line(decision))
        for row in table_text(decision).splitlines():
            log.info("%s", row)

    def _launch_record(self, decision: Decision, pool: GpuPool, attempt: Attempt) -> AttemptRecord:
        return AttemptRecord(
            attempt_id=attempt.attempt_id,
            try_number=attempt.try_number,
            clear_number=self.clear_number,
            fence=attempt.fence,
            move=attempt.move,
            pool=pool.name,
            region=pool.place.region,
            kubernetes_conn_id=pool.cluster.kubernetes_conn_id,
            context=pool.cluster.context,
            cluster_uid=decision.snapshot.pools[pool.name].cluster_uid,
            namespace=pool.cluster.namespace,
            job_name=attempt.job_name,
            started_at=datetime.now(UTC),
            gpus=self.request.total_gpus,
            gpu_model=gpu_model_of(decision, pool),
            loss=pool.watch_policy,
            spot=pool.capacity_type is CapacityType.SPOT,
        )

    def _spec(
        self,
        decision: Decision,
        pool: GpuPool,
        attempt: Attempt,
        record: TaskRecord,
        found: CheckpointScan,
    ) -> LaunchSpec:
        operator, uri = self.operator, self.request.checkpoint.uri
        return LaunchSpec(
            attempt=attempt,
            pool=pool,
            image=operator.image,
            command=tuple(operator.command),
            args=tuple(operator.arguments),
            env=dict(operator.env or {}),
            gpus_per_node=self.request.gpus_per_node,
            nodes=self.request.nodes,
            resources=dict(operator.pod_resources or {}),
            volumes=tuple(dict(volume) for volume in operator.volumes),
            volume_mounts=tuple(dict(mount) for mount in operator.volume_mounts),
            # Fitting pools come first, the chosen one before all.
            excluded_nodes=decision.verdicts[0].avoid_nodes,
            node_labels=decision.verdicts[0].node_labels,
            checkpoint_root=checkpoint_root(uri, self.task.hash, record.generation) if uri else None,
            resume_from=found.resume_from or None,
            ttl_seconds=operator.ttl_seconds_after_finished,
            active_deadline_seconds=active_deadline_seconds(self.deadline),
        )
