"""The decision record: one verdict for every pool, with all it takes to decide it again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from airflow_gpu_placement.model.attempt import Refusal
from airflow_gpu_placement.model.estimate import Cost, Knowledge
from airflow_gpu_placement.model.money import BUILT_IN_PROFILES, Dataset, EgressRoute, Profile, Tenant
from airflow_gpu_placement.model.pool import GpuPool
from airflow_gpu_placement.model.reasons import Reason, Verdict
from airflow_gpu_placement.model.signals import Snapshot


class ClusterSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster as an attempt reached it.

    :param cluster_uid: uid of its ``kube-system`` namespace; ``None``: not known.
    """

    kubernetes_conn_id: str
    context: str | None = None
    cluster_uid: str | None = None


class History(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier attempts of the same logical task taught.

    :param lost_nodes: pool name -> names of nodes that were lost; not used again by this logical task until
        they are booted anew.
    :param lost_boots: pool name -> lost node -> its boot id then, as far as it was seen.
    :param lost_in: pool name -> clusters that it was in when nodes were lost; a node is lost for every pool
        that has it, whatever that is called and however its cluster is reached.
    :param losses: pool name -> number of losses there; such a pool is used again only when nothing else fits.
    :param leave_spot: spot capacity is used again only when nothing else fits.
    :param excluded_pools: pool name -> why the job cannot run there.
    :param excluded_architectures: processor -> why the job cannot run on it.
    :param start_timeouts: pool name -> when a job last failed to start there in time.
    :param refusals: pool name -> that its cluster has not taken the job, where this may pass.
    :param since: when the first decision was made, from which ``complete_within_hours`` counts over all tries
        and waits until the task is cleared; ``None``: this is the first.
    """

    lost_nodes: dict[str, tuple[str, ...]] = {}
    lost_boots: dict[str, dict[str, str]] = {}
    lost_in: dict[str, tuple[ClusterSeen, ...]] = {}
    losses: dict[str, int] = {}
    leave_spot: bool = False
    excluded_pools: dict[str, str] = {}
    excluded_architectures: dict[str, str] = {}
    start_timeouts: dict[str, datetime] = {}
    refusals: dict[str, Refusal] = {}
    since: datetime | None = None


class PoolVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What was found about one pool.

    :param reasons: empty when the pool fits; worst first otherwise.
    :param rank: 1 for the chosen pool, counting on in order of preference; ``None`` when it does not fit.
    :param cost: what it would cost here, for pools that fit.
    :param usd_per_hour: price of the whole request for an hour in USD; ``None``: unknown.
    :param gpu: GPU of the pool in words, such as ``H100 80 GB SXM``.
    :param free_gpus: GPUs free on usable nodes, with what else the job's pods need beside them; ``None``:
        unknown.
    :param gang_fits: how many pods of the request would fit now; ``None``: unknown.
    :param avoid_nodes: nodes of the pool that the remote job must be kept off: lost by earlier attempts, with
        a GPU that the request does not name, with shared ones, bought in a way that it does not allow, about
        to be stopped for maintenance before it would end, or perhaps in another region than the others.
    :param node_labels: label -> accepted values: what a node must carry to take the remote job, also one that
        joins the pool later; empty where nothing is asked of the nodes, or no label tells it, and in every
        pool but the chosen one.
    :param barred_labels: label -> values that no node may carry which takes the remote job, none that joins
        later either.
    :param age_seconds: age of the pool's signals when the decision was made.
    """

    pool: str
    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    rank: int | None = None
    usd_per_hour: float | None = None
    cost: Cost | None = None
    gpu: str | None = None
    free_gpus: int | None = None
    gang_fits: int | None = None
    avoid_nodes: tuple[str, ...] = ()
    node_labels: dict[str, tuple[str, ...]] = {}
    barred_labels: dict[str, tuple[str, ...]] = {}
    age_seconds: float | None = None
    source: str | None = None
    notes: tuple[str, ...] = ()


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision rests on beside the request and the signals: catalogue entries, money, things learnt.

    :param tenant: who pays; ``None``: no tenant is defined, nothing is limited.
    :param datasets: by name, those that the request reads.
    :param pod_resources: what each pod of the job asks for beside its GPUs, as Kubernetes writes it; it
        decides where a pod fits.
    :param may_wait_for_budget: an exhausted budget is waited for instead of refused.
    """

    profile: Profile = BUILT_IN_PROFILES[0]
    tenant: Tenant | None = None
    datasets: dict[str, Dataset] = {}
    egress: tuple[EgressRoute, ...] = ()
    knowledge: Knowledge = Knowledge()
    pod_resources: dict[str, str | int | float] = {}
    may_wait_for_budget: bool = False


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A chosen pool or a diagnosis, with everything that led to it.

    :param subject: the logical task as text, for people.
    :param request: the request as JSON types.
    :param catalog_hash: hash of the catalogue that was used.
    :param pools: the pools as they were when this was decided; what it takes to decide it again.
    :param verdicts: exactly one a pool, fitting ones first in order of preference, then the others by name.
    :param chosen: name of the chosen pool; ``None``: none fits now.
    """

    version: int = 1
    engine_version: str
    decided_at: datetime
    subject: str
    request: dict[str, Any]
    history: History
    catalog_hash: str
    snapshot: Snapshot
    pools: tuple[GpuPool, ...] = ()
    setting: Setting = Setting()
    warnings: tuple[str, ...] = ()
    verdicts: tuple[PoolVerdict, ...]
    chosen: str | None = None

    @property
    def chosen_pool(self) -> GpuPool | None:
        """The chosen pool as it was decided on, which may say more than its catalogue entry."""
        return next((pool for pool in self.pools if pool.name == self.chosen), None)

    @property
    def never(self) -> bool:
        """Whether every pool said never: waiting cannot help."""
        return self.chosen is None and all(v.verdict is Verdict.UNRESOLVABLE for v in self.verdicts)
