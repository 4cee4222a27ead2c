"""A small cluster on which attempts claim, start, end and are looked at, in any order."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec
from hypothesis import strategies as st

from airflow_gpu_placement.engine import place as engine
from airflow_gpu_placement.model.decision import History
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import Claim, NodeCapacity, PoolSignals, Snapshot
from tests.unit.engine.builders import NOW, pool

if TYPE_CHECKING:
    from collections.abc import Sequence

NODES = 3
GPUS = 8

SCRIPTS = st.lists(
    st.tuples(
        st.sampled_from(("claim", "claim", "start", "start", "start", "end", "look", "look", "look")),
        st.integers(0, 3),
        st.sampled_from((1, 2, 4, 8)),
        st.integers(0, NODES - 1),
    ),
    min_size=2,
    max_size=24,
)
"""Steps: what happens, to which attempt, GPUs a pod of a new claim, node of a pod that starts."""


class Cluster:
    """Claims and the pods that make them real."""

    def __init__(self) -> None:
        self.claims: dict[str, Claim] = {}
        self.pods: dict[str, list[int]] = {}

    def used(self) -> list[int]:
        """Return the GPUs that pods hold, by node."""
        used = [0] * NODES
        for name, nodes in self.pods.items():
            for node in nodes:
                used[node] += self.claims[name].gpus_per_node
        return used

    def step(self, what: str, attempt: int, size: int, node: int, now_seconds: int) -> None:
        """Let one thing happen, when it can."""
        name = f"attempt-{attempt}"
        if what == "claim" and name not in self.claims:
            promised = sum(self.held(one) for one in self.claims)
            if promised + 2 * size <= NODES * GPUS:
                self.claims[name] = Claim(pool="p", attempt_id=name, gpus_per_node=size, nodes=2)
                self.pods[name] = []
        elif what == "start" and name in self.claims and self.claims[name].released_at is None:
            fits = self.used()[node] + self.claims[name].gpus_per_node <= GPUS
            if fits and len(self.pods[name]) < self.claims[name].nodes:
                self.pods[name].append(node)
        elif what == "end" and name in self.claims:
            self.pods[name] = []
            released = NOW + timedelta(seconds=now_seconds)
            self.claims[name] = msgspec.structs.replace(self.claims[name], released_at=released)

    def held(self, name: str) -> int:
        """Return the GPUs that an attempt holds: what it was promised, or what its pods have."""
        claim = self.claims[name]
        seen = len(self.pods[name]) * claim.gpus_per_node
        return seen if claim.released_at is not None else max(claim.gpus_per_node * claim.nodes, seen)

    def snapshot(self, now_seconds: int) -> Snapshot:
        """Look at nodes, pods and claims at one moment."""
        at = NOW + timedelta(seconds=now_seconds)
        nodes = tuple(
            NodeCapacity(name=f"n{index}", capacity=GPUS, allocatable=GPUS, used=used, free=GPUS - used)
            for index, used in enumerate(self.used())
        )
        claims = tuple(
            msgspec.structs.replace(claim, seen_gpus=len(self.pods[name]) * claim.gpus_per_node)
            for name, claim in self.claims.items()
        )
        seen = PoolSignals(pool="p", observed_at=at, source="test", nodes=nodes)
        return Snapshot(taken_at=at, pools={"p": seen}, claims=claims)


def worst_by_trying(free: Sequence[int], unseen: Sequence[int], size: int) -> int:
    """Try every placement of unseen pods, of all or of some, and return the fewest places that are left."""
    best = sum(one // size for one in free)
    for places in itertools.product(range(-1, len(free)), repeat=len(unseen)):
        left = list(free)
        for node, gpus in zip(places, unseen, strict=True):
            left[node] -= gpus if node >= 0 else 0
        if min(left) >= 0:
            best = min(best, sum(one // size for one in left))
    return best


def claims_and_pods_are_counted_once(script: Sequence[tuple[str, int, int, int]]) -> None:
    """Never count a GPU twice nor miss one, at any moment; hold the worst placement of what is not seen."""
    cluster = Cluster()
    for seconds, (what, attempt, size, node) in enumerate(script):
        if what != "look":
            cluster.step(what, attempt, size, node, seconds)
            continue
        decision = engine.place(
            GpuRequest(gpus_per_node=size, nodes=1),
            [pool()],
            cluster.snapshot(seconds),
            History(),
            now=NOW + timedelta(seconds=seconds),
            subject="s",
            catalog_hash="h",
        )
        (verdict,) = decision.verdicts
        assert verdict.free_gpus == NODES * GPUS - sum(map(cluster.held, cluster.claims))
        unseen = [
            claim.gpus_per_node
            for name, claim in cluster.claims.items()
            if claim.released_at is None
            for _ in range(claim.nodes - len(cluster.pods[name]))
        ]
        free = [GPUS - used for used in cluster.used()]
        assert verdict.gang_fits == worst_by_trying(free, unseen, size)
