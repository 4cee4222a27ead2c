"""One attempt: sweep, decide, and launch where the decision says."""

from __future__ import annotations

import asyncio
import importlib
import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.catalog import informed, load_patiently, resolve
from airflow_gpu_placement.cycle import decide
from airflow_gpu_placement.engine.explain import details
from airflow_gpu_placement.engine.history import history_of
from airflow_gpu_placement.engine.learn import learn
from airflow_gpu_placement.hooks.checkpoints import CheckpointScan, checkpoint_root, newest_generation, scan
from airflow_gpu_placement.hooks.clusters import open_on_worker
from airflow_gpu_placement.hooks.memory import TaskStateMemory, recall
from airflow_gpu_placement.launch.spec import LaunchSpec
from airflow_gpu_placement.model.attempt import Attempt, TaskRecord
from airflow_gpu_placement.operators.adopting import unreported_success
from airflow_gpu_placement.operators.arguments import WAIT, check_arguments, env_texts, texts
from airflow_gpu_placement.operators.deadlines import execution_deadline
from airflow_gpu_placement.operators.decisions import forget, keep
from airflow_gpu_placement.operators.giving_up import give_up
from airflow_gpu_placement.operators.identity import logical_task, team_of
from airflow_gpu_placement.operators.launching import active_deadline_seconds, launch, record_of
from airflow_gpu_placement.operators.request import parse_request
from airflow_gpu_placement.operators.resuming import (
    begin,
    checkpoint_region,
    counted,
    still_counting,
)
from airflow_gpu_placement.operators.searching import Ours, settle_earlier
from airflow_gpu_placement.operators.steps import Launched, Refused, Unproven, Waiting

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
    max_tries: int
    clear_number: int
    run_began: datetime | None
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
        catalog = load_patiently(settings.catalog, settings.catalog_overlay)
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
            setting=msgspec.structs.replace(
                resolved.setting, pod_resources=dict(operator.pod_resources or {})
            ),
            remarks=(*resolved.remarks, *catalog.warnings),
            memory=TaskStateMemory(store),
            store=store,
            task=logical_task(ti),
            attempt_id=str(ti.id),
            try_number=ti.try_number,
            max_tries=ti.max_tries,
            clear_number=context["dag_run"].clear_number or 0,
            run_began=context["dag_run"].start_date,
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
            try_number=self.try_number,
            max_tries=self.max_tries,
            open_cluster=open_on_worker,
        )

    async def attempt(self) -> Launched | Refused | Waiting | Unproven:
        """Place the job once.

        :raises NoPoolFits: every pool says never, for certain.
        """
        # The client library takes a second to load, which is not the clusters' time.
        await asyncio.to_thread(importlib.import_module, "airflow_gpu_placement.clusters.connect")
        # 1. Settle what earlier launches left behind.
        record = self._begin()
        current = self._next_launch(record)
        swept = await settle_earlier(
            record,
            current,
            pools={pool.name: pool for pool in self.catalog.pools},
            ours=Ours(self.settings.installation, self.run_began),
            open_cluster=open_on_worker,
            timeout_seconds=self.settings.fence_timeout_seconds,
        )
        if swept.unproven and self.operator.on_unreachable == WAIT:
            self._remember(swept.record)
            return Unproven(swept.unproven[0])
        # 2. Decide on one snapshot, and on where the newest checkpoint of earlier attempts is.
        record = still_counting(
            swept.record, current, max_tries=self.max_tries, clear_number=self.clear_number
        )
        history = history_of(record, self.max_tries)
        found = self._checkpoints(record) if record.attempts else None
        decision = await decide(
            self.request,
            self.catalog,
            history,
            informed(self.catalog, self.setting, self._knowledge(record, found)),
            subject=str(self.task),
            open_cluster=open_on_worker,
            deadline_seconds=self.settings.signal_deadline_seconds,
            clock=lambda: datetime.now(UTC),
        )
        record = counted(record, current, self.max_tries, history.since or decision.decided_at)
        # 3. Keep it, and tell it unless it was told before.
        pool = decision.chosen_pool
        if pool is None:
            return self._nowhere(decision, record)
        # 4. Launch, the intent first.
        found = found or self._checkpoints(record)
        fence = 1 + max(record.last_fence, swept.largest_fence, found.largest_fence)
        current = msgspec.structs.replace(current, fence=fence)
        keep(self.store, decision, fence, self.attempt_id)
        step = await launch(
            self._spec(decision, pool, current, record, found),
            record_of(
                current,
                decision,
                pool,
                gpus=self.request.total_gpus,
                max_tries=self.max_tries,
                clear_number=self.clear_number,
            ),
            record,
            self.memory,
            cancelling=self.operator.cancelling,
            fence_timeout_seconds=self.settings.fence_timeout_seconds,
        )
        forget(self.store, record, self.memory.read())
        return step

    def _begin(self) -> TaskRecord:
        record = begin(self.memory.read(), self.attempt_id, self.operator.resume, datetime.now(UTC))
        uri = self.request.checkpoint.uri
        if record.attempts or uri is None or self.operator.resume != "always":
            return record
        newest = newest_generation(uri, self.task.hash, self.settings.installation)
        return msgspec.structs.replace(record, generation=newest)

    def _root(self, record: TaskRecord) -> str | None:
        uri = self.request.checkpoint.uri
        if uri is None:
            return None
        return checkpoint_root(uri, self.task.hash, record.generation, self.settings.installation)

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
        since = keep(self.store, decision, record.last_fence + 1, self.attempt_id)
        self._remember(record)
        explanation = details(decision)
        give_up(decision, since, explanation)
        return Waiting(explanation)

    def _remember(self, record: TaskRecord) -> None:
        """Keep what the sweep found; a generation begins with a launch, not with each look meanwhile."""
        generation = self.memory.read().generation
        self.memory.write(msgspec.structs.replace(record, generation=generation))

    def _checkpoints(self, record: TaskRecord) -> CheckpointScan:
        root = self._root(record)
        if root is None:
            return CheckpointScan()
        found = scan(root)
        if found.resume_from:
            log.info("Resume from step %s: %s", found.step, found.resume_from)
        return found

    def _spec(
        self,
        decision: Decision,
        pool: GpuPool,
        attempt: Attempt,
        record: TaskRecord,
        found: CheckpointScan,
    ) -> LaunchSpec:
        operator = self.operator
        return LaunchSpec(
            attempt=attempt,
            pool=pool,
            image=operator.image,
            command=texts(operator.command),
            args=texts(operator.arguments),
            env=env_texts(operator.env),
            gpus_per_node=self.request.gpus_per_node,
            nodes=self.request.nodes,
            resources=dict(operator.pod_resources or {}),
            volumes=tuple(dict(volume) for volume in operator.volumes),
            volume_mounts=tuple(dict(mount) for mount in operator.volume_mounts),
            # Fitting pools come first, the chosen one before all.
            excluded_nodes=decision.verdicts[0].avoid_nodes,
            node_labels=decision.verdicts[0].node_labels,
            barred_labels=decision.verdicts[0].barred_labels,
            checkpoint_root=self._root(record),
            resume_from=found.resume_from or None,
            ttl_seconds=operator.ttl_seconds_after_finished,
            active_deadline_seconds=active_deadline_seconds(self.deadline),
        )
