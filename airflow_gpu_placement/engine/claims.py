"""Claims on pools: GPUs that attempts were promised and that the snapshot does not show yet.

A claim holds ``max(0, claimed - seen)`` GPUs on top of what pods hold. Nobody knows on which nodes its pods
will land, so they are laid where they leave the least room for the newcomer.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import Claim, PoolSignals, Snapshot

_MOST_STATES = 600
"""Ways to have placed part of the claims up to which the worst one is searched exactly."""


def unseen_claims(pools: Sequence[GpuPool], snapshot: Snapshot) -> dict[str, dict[int, int]]:
    """Return what claims hold beside the pods in the snapshot: pool name -> GPUs a pod -> pods.

    A claim counts for its own pool and for every other one that may have the same nodes.
    """
    if not snapshot.claims:
        return {}
    owners = _Owners(pools, snapshot)
    found: dict[str, dict[int, int]] = {}
    for pool in pools:
        signals = snapshot.pools.get(pool.name)
        claims = owners.claims_on(pool)
        if signals is not None and claims:
            held = Counter(_unseen_pods(claims, signals))
            found[pool.name] = dict(sorted(held.items()))
    return found


def claims_on(pool: GpuPool, pools: Sequence[GpuPool], snapshot: Snapshot) -> tuple[Claim, ...]:
    """Return the claims that may land on a pool's nodes, as claims on that pool."""
    return tuple(
        msgspec.structs.replace(claim, pool=pool.name) for claim in _Owners(pools, snapshot).claims_on(pool)
    )


class _Owners:
    """The pools that have claims, by their clusters."""

    def __init__(self, pools: Sequence[GpuPool], snapshot: Snapshot) -> None:
        self._seen = snapshot.pools
        self._claims: dict[str, list[Claim]] = {}
        for claim in snapshot.claims:
            self._claims.setdefault(claim.pool, []).append(claim)
        self._names: dict[str, frozenset[str]] = {}
        self._of_cluster: dict[tuple[str | None, ...], _Cluster] = {}
        for pool in pools:
            if pool.name in self._claims:
                for key in self._clusters(pool):
                    self._of_cluster.setdefault(key, _Cluster()).add(pool, self._nodes_of(pool.name))

    def _clusters(self, pool: GpuPool) -> tuple[tuple[str | None, ...], ...]:
        uid = _uid(pool, self._seen.get(pool.name))
        by_connection = (pool.cluster.kubernetes_conn_id, pool.cluster.context)
        return (by_connection,) if uid is None else (by_connection, (uid,))

    def claims_on(self, pool: GpuPool) -> list[Claim]:
        """Return the claims on a pool and on those that may share nodes with it."""
        clusters = [self._of_cluster[key] for key in self._clusters(pool) if key in self._of_cluster]
        if not clusters:
            return []
        nodes = self._nodes_of(pool.name)
        near = {owner.name: owner for cluster in clusters for owner in cluster.may_share(nodes)}
        return [
            claim
            for name, owner in sorted(near.items())
            if name == pool.name or self._share(owner, pool)
            for claim in self._claims[name]
        ]

    def _share(self, owner: GpuPool, pool: GpuPool) -> bool:
        """Whether two pools of a cluster may have nodes in common: those seen, else what selectors allow."""
        if owner.gpu.resource_name != pool.gpu.resource_name:
            return False
        names, others = self._nodes_of(owner.name), self._nodes_of(pool.name)
        if names and others:
            return not names.isdisjoint(others)
        selector = pool.node_selector
        return all(selector.get(key, value) == value for key, value in owner.node_selector.items())

    def _nodes_of(self, name: str) -> frozenset[str]:
        found = self._names.get(name)
        if found is None:
            seen = self._seen.get(name)
            found = frozenset(node.name for node in seen.nodes) if seen is not None else frozenset()
            self._names[name] = found
        return found


class _Cluster:
    """The pools of one cluster that have claims, by the nodes that were seen in them."""

    def __init__(self) -> None:
        self._all: list[GpuPool] = []
        self._without_nodes: list[GpuPool] = []
        self._by_node: dict[str, list[GpuPool]] = {}

    def add(self, pool: GpuPool, nodes: Collection[str]) -> None:
        """Keep a pool with the names of its nodes."""
        self._all.append(pool)
        if not nodes:
            self._without_nodes.append(pool)
        for node in nodes:
            self._by_node.setdefault(node, []).append(pool)

    def may_share(self, nodes: Collection[str]) -> Sequence[GpuPool]:
        """Return the pools with one of these nodes, and those that may have one; of no nodes all may."""
        if not nodes:
            return self._all
        return [*self._without_nodes, *[pool for node in nodes for pool in self._by_node.get(node, ())]]


def _unseen_pods(claims: Iterable[Claim], signals: PoolSignals) -> Iterable[int]:
    for claim in claims:
        if claim.released_at is not None and claim.released_at < signals.observed_at:
            continue  # what it held was gone when the pods were read
        held = claim.gpus_per_node * claim.nodes - claim.seen_gpus
        pods, rest = divmod(max(held, 0), claim.gpus_per_node)
        yield from itertools.repeat(claim.gpus_per_node, pods)
        if rest:
            yield rest


def _uid(pool: GpuPool, seen: PoolSignals | None) -> str | None:
    return (seen.cluster_uid if seen is not None else None) or pool.cluster.uid


def worst_fit(free: Sequence[int], gpus_per_node: int, unseen: Mapping[int, int]) -> int:
    """Return how many pods fit on nodes with these free GPUs when unseen pods are laid in the worst way.

    :param unseen: GPUs a pod -> pods that will land on some of these nodes, nobody knows which.
    """
    fits = sum([one // gpus_per_node for one in free])
    if not unseen or not fits:
        return fits
    sizes = sorted(unseen)
    states = math.prod(unseen[size] + 1 for size in sizes)
    if states > _MOST_STATES:
        return max(_by_pods(fits, gpus_per_node, unseen), _by_gpus(free, gpus_per_node, unseen), 0)
    return fits - _largest_loss(free, gpus_per_node, sizes, unseen)


def _largest_loss(
    free: Sequence[int], gpus_per_node: int, sizes: list[int], unseen: Mapping[int, int]
) -> int:
    """Search the placement of the unseen pods that breaks most places of the newcomer."""
    most = sum(unseen.values())
    worst = {(0,) * len(sizes): 0}  # unseen pods placed so far -> most places lost
    for gpus, nodes in Counter(free).items():
        per_node = _losses(gpus, gpus_per_node, sizes, unseen)
        for _ in range(min(nodes, most)):  # more nodes of a kind than pods cannot all be touched
            spread = dict(worst)
            for state, lost in worst.items():
                for placed, more in per_node:
                    after = tuple(map(sum, zip(state, placed, strict=True)))
                    if all(have <= unseen[size] for have, size in zip(after, sizes, strict=True)):
                        spread[after] = max(spread.get(after, -1), lost + more)
            worst = spread
    return max(worst.values())


def _losses(
    gpus: int, gpus_per_node: int, sizes: list[int], unseen: Mapping[int, int]
) -> list[tuple[tuple[int, ...], int]]:
    """List what may land on one node and how many places that breaks; what breaks none is left out."""
    ranges = [range(min(unseen[size], gpus // size) + 1) for size in sizes]
    found = []
    for placed in itertools.product(*ranges):
        taken = sum(count * size for count, size in zip(placed, sizes, strict=True))
        lost = gpus // gpus_per_node - max(gpus - taken, 0) // gpus_per_node
        if taken <= gpus and lost:
            found.append((placed, lost))
    return found


def _by_pods(fits: int, gpus_per_node: int, unseen: Mapping[int, int]) -> int:
    """Bound from below: no unseen pod breaks more places than it has GPUs for, rounded up."""
    return fits - sum(-(-size // gpus_per_node) * pods for size, pods in unseen.items())


def _by_gpus(free: Sequence[int], gpus_per_node: int, unseen: Mapping[int, int]) -> int:
    """Bound from below: single GPUs, laid freely, break the cheapest places first."""
    left = sum(size * pods for size, pods in unseen.items())
    costs = []
    for gpus in free:
        places, rest = divmod(gpus, gpus_per_node)
        if places:
            costs += [rest + 1, *itertools.repeat(gpus_per_node, places - 1)]
    costs.sort()
    kept = len(costs)
    for cost in costs:
        left -= cost
        if left < 0:
            break
        kept -= 1
    return kept
