"""What is seen of a remote job, what that means, and what follows from it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from airflow_gpu_placement.model.kube import Job, Pod
from airflow_gpu_placement.model.kueue import Workload


class OutcomeKind(StrEnum):
    """What happened to a remote job.

    ``queue``: a queue took its GPUs away and will give it others; that is no failure. ``unknown``: nothing
    proves an end of any kind.
    """

    RUNNING = "running"
    SUSPECTED = "suspected"
    SUCCEEDED = "succeeded"
    INFRASTRUCTURE = "infrastructure"
    APPLICATION = "application"
    CONFIGURATION = "configuration"
    QUEUE = "queue"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def final(self) -> bool:
        """Whether nothing more is to be waited for."""
        return self not in {
            OutcomeKind.RUNNING,
            OutcomeKind.SUSPECTED,
            OutcomeKind.QUEUE,
            OutcomeKind.UNKNOWN,
        }


class EndGrade(StrEnum):
    """How well it is proven that every process of a remote job has ended.

    ``confirmed``: the node itself reported every container terminated. ``asserted``: somebody who should know
    says so (a cloud deleted the Node after the machine). ``unknown``: neither; the processes may still run.
    """

    CONFIRMED = "confirmed"
    ASSERTED = "asserted"
    UNKNOWN = "unknown"


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """One node of a remote job as the watcher sees it.

    :param exists: the Node object is there.
    :param ready: status of its Ready condition: ``True``, ``False`` or ``Unknown``.
    :param silent_seconds: own monotonic time since this watcher last saw the node's Lease change.
    :param renew_seconds: period at which the node renews its Lease, from the Lease itself.
    :param ready_seconds: own monotonic time for which ``ready`` has been what it is; 0: not known.
    :param out_of_service: it carries the taint ``node.kubernetes.io/out-of-service``.
    :param leaving: why it is about to go, by a taint of a cloud or an autoscaler; empty: nothing says so.
    :param faults: conditions that report a broken device on it, such as ``XIDErrors``.
    :param pressure: kinds of pressure that it reports, such as ``MemoryPressure``.
    :param rebooted: its boot id is another than when the job came: nothing from before runs there.
    :param architecture: ``amd64`` or ``arm64``; ``None``: not known.
    :param boot_id: boot id when the job came; empty: not known.
    """

    name: str
    exists: bool = True
    ready: str = "True"
    ready_seconds: float = 0.0
    silent_seconds: float = 0.0
    renew_seconds: float = 10.0
    out_of_service: bool = False
    leaving: str = ""
    faults: tuple[str, ...] = ()
    pressure: tuple[str, ...] = ()
    rebooted: bool = False
    architecture: str | None = None
    boot_id: str = ""


class CompletionCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What the author's own check says of the work itself, whatever became of the job.

    :param available: whether it could be asked.
    :param says_done: the work is done; ``None``: it does not know.
    """

    available: bool = True
    says_done: bool | None = None


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about one remote job at one moment.

    :param job: ``None``: the API says that it does not exist.
    :param deleted_job: last state of a job whose deletion was watched; ``None``: its deletion was not seen.
    :param cancelled: Airflow asked for the end.
    :param pods: pods of the job that exist, and the last state seen of those that vanished.
    :param pods_listed: whether the pods were read at all; before that, none of them says nothing.
    :param vanished: uids in ``pods`` whose objects are gone.
    :param nodes: nodes that the pods were bound to, by name.
    :param unreachable_seconds: own monotonic time since the cluster last answered; 0 when it answers.
    :param stale_share: share of all the cluster's nodes that are silent too long right now (0 to 1).
    :param stale_nodes: how many nodes that share is; one silent node is never a fault of the cluster.
    :param failing_seconds: own monotonic time since a pod of this job was first seen to have failed; 0: none
        has, or it is not measured. A peer's node that was heard of since then did not cause the failure.
    :param workload: what Kueue queues and admits for this job; ``None``: no queue is involved.
    :param log_tail: last lines of the log of the pod that failed.
    :param completion: what the author's own check says; ``None``: there is no such check.
    :param now: this reader's time, to be compared with times of the API; ``None``: they are not compared.
    :param waited_seconds: how long the job has waited to start; ``None``: counted from its creation.
    :param unschedulable_seconds: own time for which the scheduler has said that a pod finds no node; 0: it
        does not say so, or it is not measured.
    :param create_refusal: why the cluster creates no pod of the job, by its events; empty: nothing says.
    """

    job: Job | None
    deleted_job: Job | None = None
    cancelled: bool = False
    pods: tuple[Pod, ...] = ()
    pods_listed: bool = True
    vanished: frozenset[str] = frozenset()
    nodes: dict[str, NodeView] = {}
    unreachable_seconds: float = 0.0
    stale_share: float = 0.0
    stale_nodes: int = 0
    failing_seconds: float = 0.0
    workload: Workload | None = None
    log_tail: tuple[str, ...] = ()
    completion: CompletionCheck | None = None
    now: datetime | None = None
    waited_seconds: float | None = None
    unschedulable_seconds: float = 0.0
    create_refusal: str = ""


class LossPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long silence and a late start are borne, in seconds; the pool's settings.

    :param node_grace_seconds: silence of a node, by the watcher's own clock, after which it counts as lost.
    :param cluster_grace_seconds: silence of a whole cluster after which its jobs count as lost.
    :param node_deletion_is_proof: a deleted Node object proves that the machine is gone (a cloud controller
        deletes it after the machine).
    :param start_timeout_seconds: how long it may take until every pod of a job has started.
    :param unschedulable_timeout_seconds: the same once the scheduler says that a pod finds no node; ``None``:
        no shorter, as in a pool that adds nodes.
    """

    node_grace_seconds: float = 120.0
    cluster_grace_seconds: float = 900.0
    node_deletion_is_proof: bool = False
    start_timeout_seconds: float = 600.0
    unschedulable_timeout_seconds: float | None = 60.0


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an observation means.

    :param cause: stable word, such as ``NodeLost``, ``Error``, ``OOMKilled``, ``Preempted``.
    :param message: one sentence for people.
    :param result: termination message of the first pod (rank 0) of a job that succeeded.
    :param warning: something odd that does not change the outcome; empty: nothing.
    :param ambiguous: the evidence also allows another kind; the message says which.
    :param never_started: the pod that is the cause was refused before any of its containers ran.
    :param over: nothing more will ever be seen of the job, so that an unknown end stays unknown.
    :param hint: what the log or the devices say beside the evidence that decided; empty: nothing.
    :param architecture: processor on which the image does not run; ``None``: that is not the trouble.
    :param boot_ids: node of ``nodes`` -> its boot id when the job came, as far as it was seen.
    """

    kind: OutcomeKind
    cause: str = ""
    message: str = ""
    exit_code: int | None = None
    pod: str | None = None
    nodes: tuple[str, ...] = ()
    grade: EndGrade | None = None
    result: str | None = None
    warning: str = ""
    ambiguous: bool = False
    never_started: bool = False
    over: bool = False
    hint: str = ""
    architecture: str | None = None
    boot_ids: dict[str, str] = {}

    @property
    def final(self) -> bool:
        """Whether nothing more is to be waited for."""
        return self.kind.final or self.over

    @property
    def may_still_run(self) -> bool:
        """Whether the job counts as ended and its processes may live on."""
        return self.final and self.grade is EndGrade.UNKNOWN


class NextAction(StrEnum):
    """What recovery does after an attempt."""

    SUCCEED = "succeed"
    FAIL = "fail"
    RETRY_ELSEWHERE = "retry_elsewhere"
    WAIT = "wait"


class NextStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The action and why; the delay is in seconds and counts from now.

    :param withdraw_first: the job may run on or come back to life: it is deleted before it is placed again.
    :param avoid_nodes: nodes that this logical task does not use again.
    :param exclude_pool: the pool that failed is not tried again; the trouble lies in how it is set up.
    :param exclude_architecture: nor is any pool with this processor.
    :param leave_spot: from now on capacity that may be taken away is used only when nothing else fits.
    """

    action: NextAction
    reason: str
    delay_seconds: float = 0.0
    withdraw_first: bool = False
    avoid_nodes: tuple[str, ...] = ()
    exclude_pool: bool = False
    exclude_architecture: str | None = None
    leave_spot: bool = False

    @property
    def rerun(self) -> bool:
        """Whether the work is started again by this step."""
        return self.action is NextAction.RETRY_ELSEWHERE
