"""Data with copies in several regions: the choice of a copy is in question, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest
from hypothesis import strategies as st

from airflow_gpu_placement.model.decision import History, Setting
from airflow_gpu_placement.model.money import BUILT_IN_PROFILES, Dataset, EgressRoute, Tenant
from airflow_gpu_placement.model.pool import ClusterRef, GpuPool, Place, Price
from airflow_gpu_placement.model.reasons import Verdict
from airflow_gpu_placement.model.request import GpuRequest, TimeNeed
from airflow_gpu_placement.model.signals import NodeCapacity, PoolSignals, Snapshot
from tests.property.fleet_parts import GPUS
from tests.property.fleets import Situation, decide
from tests.unit.engine.builders import NOW

if TYPE_CHECKING:
    from airflow_gpu_placement.model.decision import PoolVerdict

SOURCES = ("r1", "r2", "r3", "r4")
NODE = NodeCapacity(name="n0", gpu=GPUS[0], capacity=8, allocatable=8, free=8)


class MoreCopies(NamedTuple):
    """A situation, and the same with one more copy of one dataset."""

    fewer: Situation
    more: Situation


@st.composite
def more_copies(draw: st.DrawFn) -> MoreCopies:
    """Draw routes, copies and limits; a route that costs less may take longer."""
    routes = tuple(
        EgressRoute(
            source=source,
            target="here",
            usd_per_gib=draw(st.sampled_from((0.0, 0.02, 0.1))),
            gbps=draw(st.sampled_from((0.1, 1.0, 10.0, 100.0))),
        )
        for source in SOURCES
    )
    hard = draw(st.sampled_from((None, False, True)))
    time = TimeNeed() if hard is None else TimeNeed(complete_within_hours=12.0, deadline_is_hard=hard)
    rank = draw(st.sampled_from((None, None, 0.0, 20.0)))
    pool = GpuPool(
        name="p",
        cluster=ClusterRef(kubernetes_conn_id="p"),
        place=Place(region="here"),
        price=Price(gpu_hour_usd=draw(st.sampled_from((0.5, 2.0, None))), rank_gpu_hour_usd=rank),
    )
    data = {
        name: Dataset(
            name=name,
            size_gib=draw(st.sampled_from((10.0, 300.0, 1000.0))),
            locations=draw(
                st.lists(st.sampled_from(SOURCES), min_size=1, max_size=3, unique=True).map(tuple)
            ),
        )
        for name in ("a", "b")
    }
    budget = draw(st.sampled_from((None, 25.0, 60.0, 110.0, 250.0)))
    setting = Setting(
        profile=draw(st.sampled_from(BUILT_IN_PROFILES)),
        tenant=None if budget is None else Tenant(name="t", monthly_budget_usd=budget),
        datasets=data,
        egress=routes,
    )
    another = draw(st.sampled_from(sorted(set(SOURCES) - set(data["a"].locations))))
    grown = msgspec.structs.replace(data["a"], locations=(*data["a"].locations, another))
    request = GpuRequest(
        gpus_per_node=8,
        data=draw(st.sampled_from((("a",), ("a", "b")))),
        time=time.model_copy(update={"runtime_hours": draw(st.sampled_from((2.0, 10.0)))}),
    )
    seen = PoolSignals(pool="p", observed_at=NOW, source="test", nodes=(NODE,))
    fewer = Situation(request, (pool,), Snapshot(taken_at=NOW, pools={"p": seen}), History(), setting)
    more = msgspec.structs.replace(setting, datasets={**data, "a": grown})
    return MoreCopies(fewer, fewer._replace(setting=more))


def another_copy_never_makes_a_pool_dearer(copies: MoreCopies) -> None:
    """Nor does it refuse it, nor make it miss its deadline; so taking one away gains nothing."""
    before, after = _only(copies.fewer), _only(copies.more)
    if before.verdict is not Verdict.FIT:
        return
    assert after.verdict is Verdict.FIT, after.reasons
    assert before.cost is not None
    assert after.cost is not None
    left = copies.fewer.request.time.complete_within_hours
    late = [left is not None and cost.finish_hours > left for cost in (before.cost, after.cost)]
    assert late[1] <= late[0]
    if late[0] == late[1]:
        assert after.cost.total_usd <= before.cost.total_usd + 1e-6
    assert after.cost.total_usd == pytest.approx(sum(term.usd for term in after.cost.terms))


def _only(situation: Situation) -> PoolVerdict:
    (verdict,) = decide(situation).verdicts
    return verdict
