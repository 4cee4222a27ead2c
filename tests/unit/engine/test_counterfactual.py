"""What would have to be different for a refused pool."""

from __future__ import annotations

import msgspec

from airflow_gpu_placement.engine.counterfactual import apply_all, counterfactual, why_not
from airflow_gpu_placement.model.decision import Setting
from airflow_gpu_placement.model.estimate import Knowledge
from airflow_gpu_placement.model.money import Tenant
from airflow_gpu_placement.model.reasons import ReasonCode
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import GapKind
from tests.unit.engine.builders import A100_40, decide, pool, seen, signals


def test_every_failing_requirement_has_the_value_that_clears_it() -> None:
    """The request's own values first; what only time changes last."""
    decision = decide(
        GpuRequest(
            gpus_per_node=8,
            models=("H100",),
            min_memory_gb=80,
            where={"regions": ["eu"]},  # type: ignore[arg-type]  # a dict is read
            price_cap_usd_per_gpu_hour=1,
        ),
        [pool("us-a100", region="us", gpu_hour_usd=1.5)],
        signals("us-a100", seen(product=A100_40, used=3)),
    )
    assert why_not(decision, "us-a100").splitlines() == [
        "us-a100 would fit llm.train with all of these:",
        "  GpuModelNotOffered: needed H100, observed A100 40 GB SXM",
        '    request.models: ["H100"] -> ["H100","A100"]',
        "  GpuMemoryTooSmall: needed >= 80 GB, observed 40 GB",
        "    request.min_memory_gb: 80.0 -> 40.0",
        "  RegionNotAllowed: needed eu, observed us",
        '    request.where.regions: ["eu"] -> ["eu","us"]',
        "  PriceCapExceeded: needed <= 1 USD per GPU hour, observed 1.5 USD",
        "    request.price_cap_usd_per_gpu_hour: 1.0 -> 1.5",
        "  InsufficientFreeGpus: needed 8 free GPUs, observed 5 free",
        "    node n1: used 3 -> 0, free 5 -> 8",
    ]
    changed = apply_all(decision, "us-a100", counterfactual(decision, "us-a100"))
    assert changed.chosen == "us-a100"


def test_what_fails_only_then_is_told_too() -> None:
    """A price that is set to be known must also be paid."""
    setting = Setting(
        tenant=Tenant(name="t", monthly_budget_usd=10), knowledge=Knowledge(spent_usd={"t": 12.0})
    )
    decision = decide(GpuRequest(), [pool(preference_usd=1)], signals("p", seen()), setting=setting)
    found = counterfactual(decision, "p")
    assert [(one.code.value, one.follows) for one in found] == [
        ("PriceUnknown", False),
        ("BudgetExhausted", True),
    ]
    assert [(one.path, one.before, one.after) for one in found[1].changes] == [
        ("/setting/tenant/monthly_budget_usd", 10, 12.01)
    ]


def test_a_pool_that_fits_needs_nothing() -> None:
    """And the text says so."""
    decision = decide(GpuRequest(), [pool()], signals("p", seen()))
    assert counterfactual(decision, "p") == ()
    assert why_not(decision, "p") == "p fits llm.train"


def test_a_silent_pool_would_have_to_answer() -> None:
    """With nodes that hold what is asked for."""
    decision = decide(GpuRequest(nodes=2), [pool()], signals("p", gap=GapKind.TIMEOUT))
    (only,) = counterfactual(decision, "p")
    assert [change.path for change in only.changes] == ["/signals/gap", "/signals/nodes"]
    assert why_not(decision, "p").splitlines()[-1] == "    nodes: 0 -> 2 (new-0, new-1 with GPUs free: 1)"
    assert len(only.changes[1].after) == 2


def test_unlabelled_nodes_for_a_switched_board_would_have_to_be_told_and_declared() -> None:
    """Any GPU will do, so no model of the new nodes implies the NVSwitch that is asked for."""
    node = msgspec.structs.replace(seen(), gpu=None, labels={})
    decision = decide(GpuRequest(interconnect="nvswitch"), [pool()], signals("p", node))
    (verdict,) = decision.verdicts
    assert [reason.code for reason in verdict.reasons] == [ReasonCode.SIGNALS_MISSING]
    requirements = counterfactual(decision, "p")
    changes = {change.path: change.after for one in requirements for change in one.changes}
    assert changes["/pool/gpu/interconnect"] == "nvswitch"
    assert apply_all(decision, "p", requirements).chosen == "p"


def test_nodes_like_the_declared_ones_would_have_to_be_there() -> None:
    """The request names no model: the new nodes have that of the catalogue, of the form that is asked for."""
    node = msgspec.structs.replace(seen(), gpu=None, labels={})
    request = GpuRequest(form_factors=("PCIe",))
    decision = decide(request, [pool(model="H100", memory_gb=80, per_node=8)], signals("p", node))
    assert [reason.code for reason in decision.verdicts[0].reasons] == [ReasonCode.SIGNALS_MISSING]
    assert apply_all(decision, "p", counterfactual(decision, "p")).chosen == "p"
