"""A decision is told as a line, a table, a text and JSON."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.engine.explain import details, from_json, line, table, table_text, to_json
from airflow_gpu_placement.engine.place import replay
from airflow_gpu_placement.model.decision import Decision, History
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import GapKind
from tests.unit.engine.builders import L40S, decide, pool, seen, signals

GANG = GpuRequest(gpus_per_node=8, nodes=2, models=("H100",))


def nothing_fits() -> Decision:
    """Decide where four pools refuse for three reasons."""
    return decide(
        GANG,
        [pool("a"), pool("b"), pool("c"), pool("d")],
        signals("a", seen("n1", used=8), seen("n2", used=8)),
        signals("b", seen("n1", used=8), seen("n2")),
        signals("c", seen("n1", product=L40S), seen("n2", product=L40S)),
        signals("d", gap=GapKind.UNREACHABLE),
    )


def one_fits() -> Decision:
    """Decide where one of three pools fits."""
    return decide(
        GANG,
        [pool("onprem-h100", gpu_hour_usd=2.1), pool("b"), pool("c")],
        signals("onprem-h100", seen("n1"), seen("n2")),
        signals("b", seen("n1", product=L40S), seen("n2", product=L40S)),
        signals("c", gap=GapKind.TIMEOUT),
    )


def test_the_line_counts_each_pool_once_when_nothing_fits() -> None:
    """Under its worst reason; the most frequent first, then the worse."""
    assert line(nothing_fits()) == (
        "0/4 GPU pools fit llm.train: 2 InsufficientFreeGpus, 1 GpuModelNotOffered, 1 ClusterUnreachable"
    )


def test_the_line_names_the_chosen_pool() -> None:
    """With its GPU, the size and the price of the request."""
    assert line(one_fits()) == (
        "1/3 GPU pools fit llm.train: chose onprem-h100 (H100 80 GB SXM, 2 x 8 GPUs, 33.60 USD/h); "
        "1 GpuModelNotOffered, 1 ClusterUnreachable"
    )


def test_the_line_says_when_the_price_is_unknown() -> None:
    """Nothing is promised about money that nothing tells."""
    decision = decide(GpuRequest(gpus_per_node=8), [pool()], signals("p", seen()))
    assert line(decision) == (
        "1/1 GPU pools fit llm.train: chose p (H100 80 GB SXM, 1 x 8 GPUs, price unknown)"
    )


def test_the_line_survives_an_empty_catalogue() -> None:
    """Even without a pool there is a sentence."""
    assert line(decide(GANG, [])) == "0/0 GPU pools fit llm.train: the catalogue has no pool"


def test_the_table_shows_every_pool_and_every_reason() -> None:
    """Pool, GPU, verdict, what was needed and seen, how old and from where."""
    text = table_text(nothing_fits())
    assert text.splitlines()[0] == "llm.train: 16 GPUs = 2 x 8 (H100)"
    for word in (
        "InsufficientFreeGpus",
        "GpuModelNotOffered",
        "ClusterUnreachable",
        "L40S 48 GB PCIe",
        "16 free GPUs",
        "8 free",
        "0.0 s",
        "never",
        "not now",
    ):
        assert word in text
    assert table(one_fits()).row_count == len(one_fits().verdicts)
    assert "chosen" in table_text(one_fits())
    assert "33.60" in table_text(one_fits())


def test_the_text_of_an_error_says_why_not_for_each_pool() -> None:
    """Line first, then a sentence a reason."""
    assert details(nothing_fits()).splitlines() == [
        line(nothing_fits()),
        "  a: InsufficientFreeGpus: pool a has 0 GPUs free on nodes that can take the job, which needs 16; "
        "other pods hold 16",
        "  b: InsufficientFreeGpus: pool b has 8 GPUs free on nodes that can take the job, which needs 16; "
        "other pods hold 8",
        "  c: GpuModelNotOffered: pool c has L40S 48 GB PCIe, not H100",
        "  d: ClusterUnreachable: unreachable happened",
    ]


@pytest.mark.parametrize("decision", [nothing_fits(), one_fits()], ids=["nothing fits", "one fits"])
def test_a_record_is_decided_again_from_its_json(decision: Decision) -> None:
    """The record holds all that it takes."""
    again = from_json(to_json(decision))
    assert again == decision
    assert replay(again) == decision


def test_another_signal_makes_another_decision() -> None:
    """A replay decides and does not just repeat."""
    decision = one_fits()
    without = decide(GANG, list(decision.pools), signals("onprem-h100", seen("n1")), history=History())
    assert replay(without).chosen is None
