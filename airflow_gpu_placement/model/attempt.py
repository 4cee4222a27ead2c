"""Who a remote job belongs to, what it is called, and what is remembered of earlier attempts."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from enum import StrEnum

import msgspec

from airflow_gpu_placement.model.outcome import EndGrade, LossPolicy, OutcomeKind

LABEL_PREFIX = "airflow-gpu-placement/"
LOGICAL_TASK_LABEL = f"{LABEL_PREFIX}logical-task"
ATTEMPT_LABEL = f"{LABEL_PREFIX}attempt-id"
FENCE_LABEL = f"{LABEL_PREFIX}fence"
POOL_LABEL = f"{LABEL_PREFIX}pool"
MANAGED_LABEL = f"{LABEL_PREFIX}managed"
IDENTITY_ANNOTATION = f"{LABEL_PREFIX}identity"
INSTALLATION_LABEL = f"{LABEL_PREFIX}installation"

MARKER_KEY = "gpu_placement_attempt"
"""XCom by which a trigger tells whether the attempt that it watches for is still the current one."""

RESUMED_KEY = "gpu_placement_resumed"
"""XCom of the id of the attempt on which a worker decides from now on; empty while a trigger watches."""

MAX_MOVES = 3
"""How often a job that did not start in time is placed again within one try."""

_SLUG = re.compile(r"[^a-z0-9]+")
_SLUG_LENGTH = 28


class LogicalTask(msgspec.Struct, frozen=True, kw_only=True):
    """What Airflow calls one task instance over all its tries: it has attempts."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    @property
    def hash(self) -> str:
        """Ten hexadecimal digits that stand for this logical task in names, labels and folders."""
        text = "\x1f".join((self.dag_id, self.run_id, self.task_id, str(self.map_index)))
        return hashlib.sha256(text.encode()).hexdigest()[:10]

    def __str__(self) -> str:
        """Return ``dag.task`` with the map index of a mapped task."""
        mapped = "" if self.map_index < 0 else f"[{self.map_index}]"
        return f"{self.dag_id}.{self.task_id}{mapped}"


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try of one task instance, or one of the launches that it makes one after the other.

    :param attempt_id: ``ti.id``, a uuid7; its tail (not its head, which is a time) goes into names.
    :param fence: grows with each launch of the logical task.
    :param move: 0 for the first launch of the try, counting on when it is placed again without a new try.
    :param installation: name of the Airflow that launches, where several share a cluster; ``None``: it has
        none.
    """

    task: LogicalTask
    attempt_id: str
    try_number: int
    fence: int = 0
    move: int = 0
    installation: str | None = None

    @property
    def tail(self) -> str:
        """Eight last hexadecimal digits of the attempt id."""
        return self.attempt_id.replace("-", "")[-8:]

    @property
    def job_name(self) -> str:
        """Name of the remote job: the same at every creation of this launch, at most 52 characters.

        A Job's pods append an index and five characters to it and must stay within 63.
        """
        slug = _SLUG.sub("-", f"{self.task.dag_id}-{self.task.task_id}".lower()).strip("-")
        move = f"-{self.move}" if self.move else ""
        shown = slug[: min(_SLUG_LENGTH, _SLUG_LENGTH + 1 - len(move))].strip("-") or "task"
        return f"gp-{shown}-{self.task.hash}-{self.tail}{move}"

    @property
    def write_folder(self) -> str:
        """Name of the only folder below the checkpoint root that this attempt may write to."""
        return f"{self.fence}-{self.tail}"


class AttemptPhase(StrEnum):
    """How far an attempt got; written before the step that it announces."""

    INTENT = "intent"
    CREATED = "created"
    ENDED = "ended"


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """That a cluster did not take a job, for a reason that may pass.

    :param at: when it last did not.
    :param times: how often in a row.
    :param why: what it said.
    """

    at: datetime
    times: int = 1
    why: str = ""


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is remembered of one launch of an attempt; an attempt that is moved has several.

    :param clear_number: how often the DAG run had been cleared then.
    :param max_tries: number of its last try but one, as Airflow had it then: only a clear of this very task
        raises it.
    :param move: number of the launch within its attempt.
    :param region: of the pool, where its checkpoints are near; ``None``: the catalogue did not tell.
    :param grade: how well the end of its remote job is proven; ``None``: it may still run.
    :param lost_nodes: nodes that were lost while it ran.
    :param lost_boots: node that was lost -> its boot id then, as far as it was seen.
    :param refusal: its cluster has not taken the job; ``None``: it has.
    :param exclude_pool: its pool is set up in a way that the job cannot run there.
    :param exclude_architecture: processor on which the job's image does not run.
    :param gpus: GPUs of the whole gang, by which its time counts in interruption rates.
    :param gpu_model: canonical model that it ran on, for which its runtime counts; ``None``: not known, or
        several.
    :param loss: how its pool bears silence and a late start; what it takes to watch it again.
    :param watch_breaks: how often its watch broke and was begun anew, one soon after the other.
    :param watch_broke_at: when it last did.
    :param spot: its pool's capacity may be taken away.
    :param leave_spot: from then on such capacity is used only when nothing else fits.
    """

    attempt_id: str
    try_number: int
    fence: int
    clear_number: int = 0
    max_tries: int = 0
    move: int = 0
    pool: str
    region: str | None = None
    kubernetes_conn_id: str
    context: str | None = None
    cluster_uid: str | None = None
    namespace: str
    job_name: str
    job_uid: str | None = None
    phase: AttemptPhase = AttemptPhase.INTENT
    outcome: OutcomeKind | None = None
    cause: str | None = None
    grade: EndGrade | None = None
    lost_nodes: tuple[str, ...] = ()
    lost_boots: dict[str, str] = {}
    refusal: Refusal | None = None
    exclude_pool: bool = False
    exclude_architecture: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    gpus: int | None = None
    gpu_model: str | None = None
    loss: LossPolicy = LossPolicy()
    watch_breaks: int = 0
    watch_broke_at: datetime | None = None
    spot: bool = False
    leave_spot: bool = False

    def is_same_launch(self, other: AttemptRecord) -> bool:
        """Whether both records are of one launch."""
        return (self.attempt_id, self.move) == (other.attempt_id, other.move)


class Counting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Since when a task is being placed, and the last try that went by it.

    :param since: when the first decision was made since the task was cleared.
    :param max_tries: Airflow's number of the task's last try but one, which only a clear of this task raises.
    """

    since: datetime
    attempt_id: str
    try_number: int
    max_tries: int


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Memory of one logical task.

    :param generation: part of the checkpoint root; a new one starts training from nothing.
    :param last_fence: largest fence ever given out.
    :param attempts: every launch, oldest first, capped.
    :param counting: since when its time counts; ``None``: no decision was made yet, or an earlier version of
        the package wrote this.
    """

    version: int = 1
    generation: int = 1
    last_fence: int = 0
    attempts: tuple[AttemptRecord, ...] = ()
    counting: Counting | None = None
