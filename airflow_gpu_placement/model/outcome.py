"""What is seen of a remote job, what that means, and what follows from it."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from airflow_gpu_placement.model.kube import Job, Pod


class OutcomeKind(StrEnum):
    """What happened to a remote job."""

    RUNNING = "running"
    SUSPECTED = "suspected"
    SUCCEEDED = "succeeded"
    INFRASTRUCTURE = "infrastructure"
    APPLICATION = "application"
    CONFIGURATION = "configuration"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def final(self) -> bool:
        """Whether nothing more is to be waited for."""
        return self not in {OutcomeKind.RUNNING, OutcomeKind.SUSPECTED, OutcomeKind.UNKNOWN}


class EndGrade(StrEnum):
    """How well it is proven that every process of a remote job has ended.

    ``confirmed``: the node itself reported every container terminated. ``asserted``: somebody who should
    know says so
    (a cloud deleted the Node after the machine). ``unknown``: neither; the processes may still run.
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
    :param out_of_service: it carries the taint ``node.kubernetes.io/out-of-service``.
    """

    name: str
    exists: bool = True
    ready: str = "True"
    silent_seconds: float = 0.0
    renew_seconds: float = 10.0
    out_of_service: bool = False


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about one remote job at one moment.

    :param job: ``None``: the API says that it does not exist.
    :param pods: pods of the job that exist, and the last state seen of those that vanished.
    :param pods_listed: whether the pods were read at all; before that, none of them says nothing.
    :param vanished: uids in ``pods`` whose objects are gone.
    :param nodes: nodes that the pods were bound to, by name.
    :param unreachable_seconds: own monotonic time since the cluster last answered; 0 when it answers.
    :param stale_share: share of all the cluster's nodes that are silent too long right now (0 to 1).
    :param stale_nodes: how many nodes that share is; one silent node is never a fault of the cluster.
    :param failing_seconds: own monotonic time since a pod of this job was first seen to have failed; 0: none
        has, or it is not measured. A peer's node that was heard of since then did not cause the failure.
    """

    job: Job | None
    pods: tuple[Pod, ...] = ()
    pods_listed: bool = True
    vanished: frozenset[str] = frozenset()
    nodes: dict[str, NodeView] = {}
    unreachable_seconds: float = 0.0
    stale_share: float = 0.0
    stale_nodes: int = 0
    failing_seconds: float = 0.0


class LossPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long silence is borne, in seconds; the pool's settings."""

    node_grace_seconds: float = 120.0
    cluster_grace_seconds: float = 900.0
    node_deletion_is_proof: bool = False


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an observation means.

    :param cause: stable word, such as ``NodeLost``, ``Error``, ``OOMKilled``, ``Preempted``.
    :param message: one sentence for people.
    :param result: termination message of the first pod (rank 0) of a job that succeeded.
    :param warning: something odd that does not change the outcome; empty: nothing.
    :param ambiguous: the evidence also allows another kind; the message says which.
    :param never_started: the pod that is the cause was refused before any of its containers ran.
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


class NextAction(StrEnum):
    """What recovery does after an attempt."""

    SUCCEED = "succeed"
    FAIL = "fail"
    RETRY_ELSEWHERE = "retry_elsewhere"
    WAIT = "wait"


class NextStep(msgspec.Struct, frozen=True, kw_only=True):
    """The action and why; the delay is in seconds and counts from now."""

    action: NextAction
    reason: str
    delay_seconds: float = 0.0
