"""Laws of "never": what is not told yet, or not told any more, takes no pool's chances away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_gpu_placement.engine import potential
from airflow_gpu_placement.model.reasons import ReasonCode, Verdict
from tests.property.fleets import Situation, decide, situations
from tests.property.test_broken_engines import breaks

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.model.pool import GpuPool
    from airflow_gpu_placement.model.signals import NodeCapacity

TOLD_BY_NODES = {
    ReasonCode.GPU_MODEL_NOT_OFFERED,
    ReasonCode.GPU_MEMORY_TOO_SMALL,
    ReasonCode.FORM_FACTOR_NOT_OFFERED,
    ReasonCode.INTERCONNECT_NOT_OFFERED,
    ReasonCode.EXCEEDS_POOL_SIZE,
}
"""Reasons for never that rest on labels and devices."""


def ruled_out(situation: Situation) -> set[str]:
    """Return the pools that nodes rule out."""
    return {
        verdict.pool
        for verdict in decide(situation).verdicts
        if any(reason.code in TOLD_BY_NODES for reason in verdict.reasons)
    }


def out(situation: Situation) -> set[str]:
    """Return the pools that say never for any reason."""
    return {one.pool for one in decide(situation).verdicts if one.verdict is Verdict.UNRESOLVABLE}


def without_devices(node: NodeCapacity) -> NodeCapacity:
    """Take a node's devices away, as when its device plugin is gone for longer."""
    return msgspec.structs.replace(
        node, capacity=0, allocatable=0, used=0, free=0, unusable_because="offers no nvidia.com/gpu"
    )


def without_labels(node: NodeCapacity) -> NodeCapacity:
    """Take the labels away that tell its GPU, as of a node that has just come up."""
    return msgspec.structs.replace(node, gpu=None, labels={})


def is_even(pool: GpuPool, nodes: tuple[NodeCapacity, ...]) -> bool:
    """Whether a node is as large as the catalogue or another node says."""
    return (
        len({node.capacity for node in nodes} | {pool.gpu.per_node or node.capacity for node in nodes}) == 1
    )


def a_node_that_tells_less_rules_nothing_out(situation: Situation, which: int, bare: bool) -> None:
    """In no pool that might take the job; one node of each tells less."""
    blurred = {}
    for pool in situation.pools:
        signals = situation.snapshot.pools.get(pool.name)
        if signals is None or not signals.nodes:
            continue
        nodes = list(signals.nodes)
        chosen = which % len(nodes)
        if not nodes[chosen].whole or (bare and not is_even(pool, signals.nodes)):
            continue
        take = without_devices if bare else without_labels
        nodes[chosen] = take(nodes[chosen])
        blurred[pool.name] = msgspec.structs.replace(signals, nodes=tuple(nodes))
    snapshot = msgspec.structs.replace(situation.snapshot, pools={**situation.snapshot.pools, **blurred})
    less = situation._replace(snapshot=snapshot)
    assert ruled_out(less) & blurred.keys() <= out(situation)


ASKED = (situations(least_pools=1), st.integers(min_value=0, max_value=9), st.booleans())


@settings(max_examples=200, deadline=None, derandomize=True)
@given(*ASKED)
def test_a_node_that_tells_less_rules_nothing_out(situation: Situation, which: int, bare: bool) -> None:
    """Whichever node of a pool it is, and whether its devices or its labels are missing."""
    a_node_that_tells_less_rules_nothing_out(situation, which, bare)


@pytest.mark.parametrize(
    ("name", "stupid"),
    [
        pytest.param("could_match", lambda *_: False, id="labels that are not there are wrong ones"),
        pytest.param("_presumed", lambda *_: 0, id="devices that are not there are none"),
    ],
)
def test_an_engine_that_takes_unknown_for_never_is_noticed(
    monkeypatch: pytest.MonkeyPatch, name: str, stupid: Callable[..., object]
) -> None:
    """The law sees both."""
    monkeypatch.setattr(potential, name, stupid)
    assert breaks(a_node_that_tells_less_rules_nothing_out, *ASKED)
