"""Reason codes: stable words for why a pool cannot take a job. A code is a contract: add, never rename."""

from __future__ import annotations

from enum import IntEnum, StrEnum

import msgspec


class Verdict(StrEnum):
    """What a filter says of one pool."""

    FIT = "fit"
    UNSCHEDULABLE = "unschedulable"
    UNRESOLVABLE = "unresolvable"


class Tier(IntEnum):
    """How bad a reason is; the worst reason of a pool is shown first."""

    MISCONFIGURED = 0
    NEVER = 1
    NOT_NOW = 2
    UNKNOWN = 3


class ReasonCode(StrEnum):
    """Why a pool cannot take the job."""

    CONNECTION_MISSING = "ConnectionMissing"
    WRONG_CLUSTER = "WrongCluster"
    CREDENTIALS_REFUSED = "CredentialsRefused"
    ACCESS_FORBIDDEN = "AccessForbidden"
    GPU_MODEL_NOT_OFFERED = "GpuModelNotOffered"
    GPU_MEMORY_TOO_SMALL = "GpuMemoryTooSmall"
    FORM_FACTOR_NOT_OFFERED = "FormFactorNotOffered"
    INTERCONNECT_NOT_OFFERED = "InterconnectNotOffered"
    NETWORK_NOT_OFFERED = "NetworkNotOffered"
    ARCHITECTURE_MISMATCH = "ArchitectureMismatch"
    CAPACITY_TYPE_NOT_ALLOWED = "CapacityTypeNotAllowed"
    REGION_NOT_ALLOWED = "RegionNotAllowed"
    EGRESS_DENIED = "EgressDenied"
    TENANT_NOT_ALLOWED = "TenantNotAllowed"
    PRICE_CAP_EXCEEDED = "PriceCapExceeded"
    PRICE_UNKNOWN = "PriceUnknown"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    DEADLINE_UNREACHABLE = "DeadlineUnreachable"
    QUOTA_EXHAUSTED = "QuotaExhausted"
    QUEUE_STOPPED = "QueueStopped"
    SIGNALS_TOO_OLD = "SignalsTooOld"
    EXCEEDS_POOL_SIZE = "ExceedsPoolSize"
    EXCLUDED_BY_HISTORY = "ExcludedByHistory"
    NODES_LOST = "NodesLost"
    START_TIMED_OUT = "StartTimedOut"
    JOB_REFUSED = "JobRefused"
    INSUFFICIENT_FREE_GPUS = "InsufficientFreeGpus"
    GANG_DOES_NOT_FIT = "GangDoesNotFit"
    NODE_RESOURCES_TAKEN = "NodeResourcesTaken"
    NODES_NOT_SCHEDULABLE = "NodesNotSchedulable"
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    SIGNALS_MISSING = "SignalsMissing"


TIERS: dict[ReasonCode, Tier] = {
    ReasonCode.CONNECTION_MISSING: Tier.UNKNOWN,
    ReasonCode.WRONG_CLUSTER: Tier.MISCONFIGURED,
    ReasonCode.CREDENTIALS_REFUSED: Tier.UNKNOWN,
    ReasonCode.ACCESS_FORBIDDEN: Tier.MISCONFIGURED,
    ReasonCode.GPU_MODEL_NOT_OFFERED: Tier.NEVER,
    ReasonCode.GPU_MEMORY_TOO_SMALL: Tier.NEVER,
    ReasonCode.FORM_FACTOR_NOT_OFFERED: Tier.NEVER,
    ReasonCode.INTERCONNECT_NOT_OFFERED: Tier.NEVER,
    ReasonCode.NETWORK_NOT_OFFERED: Tier.NEVER,
    ReasonCode.ARCHITECTURE_MISMATCH: Tier.NEVER,
    ReasonCode.CAPACITY_TYPE_NOT_ALLOWED: Tier.NEVER,
    ReasonCode.REGION_NOT_ALLOWED: Tier.NEVER,
    ReasonCode.EGRESS_DENIED: Tier.NEVER,
    ReasonCode.TENANT_NOT_ALLOWED: Tier.NEVER,
    ReasonCode.PRICE_CAP_EXCEEDED: Tier.NEVER,
    ReasonCode.PRICE_UNKNOWN: Tier.NEVER,
    ReasonCode.BUDGET_EXHAUSTED: Tier.NEVER,
    ReasonCode.DEADLINE_UNREACHABLE: Tier.NEVER,
    ReasonCode.QUOTA_EXHAUSTED: Tier.NOT_NOW,
    ReasonCode.QUEUE_STOPPED: Tier.NOT_NOW,
    ReasonCode.SIGNALS_TOO_OLD: Tier.UNKNOWN,
    ReasonCode.EXCEEDS_POOL_SIZE: Tier.NEVER,
    ReasonCode.EXCLUDED_BY_HISTORY: Tier.NEVER,
    ReasonCode.NODES_LOST: Tier.NOT_NOW,
    ReasonCode.START_TIMED_OUT: Tier.NOT_NOW,
    ReasonCode.JOB_REFUSED: Tier.NOT_NOW,
    ReasonCode.INSUFFICIENT_FREE_GPUS: Tier.NOT_NOW,
    ReasonCode.GANG_DOES_NOT_FIT: Tier.NOT_NOW,
    ReasonCode.NODE_RESOURCES_TAKEN: Tier.NOT_NOW,
    ReasonCode.NODES_NOT_SCHEDULABLE: Tier.NOT_NOW,
    ReasonCode.CLUSTER_UNREACHABLE: Tier.UNKNOWN,
    ReasonCode.SIGNALS_MISSING: Tier.UNKNOWN,
}
"""The one consequence of each code: misconfigured and never end a pool's chances, the other two may pass.

A connection that is not there and credentials that are not accepted say nothing about the pool, and are
mended while a task waits: a token is renewed, a secrets store answers again. A right that an account lacks is
how the cluster was set up.
"""


def verdict_of(code: ReasonCode) -> Verdict:
    """Tell what a code means for the pool it was given to."""
    return Verdict.UNRESOLVABLE if TIERS[code] <= Tier.NEVER else Verdict.UNSCHEDULABLE


class Reason(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One refusal, as data: the numbers are in fields, the text is derived from them once.

    :param needed: what the job needs, for the table; short.
    :param observed: what the pool has, for the table; short.
    :param message: one sentence: what, where, and what to do when there is something to do.
    """

    code: ReasonCode
    needed: str
    observed: str
    message: str
