"""A decision is told as a line, a table, a text and JSON."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pytest
from rich.console import Console

from airflow_gpu_placement.engine.explain import details, from_json, line, table, table_text, to_json
from airflow_gpu_placement.engine.place import replay
from airflow_gpu_placement.engine.text_table import text_table
from airflow_gpu_placement.model.decision import Decision, Setting
from airflow_gpu_placement.model.money import BUILT_IN_PROFILES
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import GapKind
from tests.unit.engine.builders import L40S, codes, decide, pool, seen, signals

if TYPE_CHECKING:
    from pathlib import Path

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


def test_an_unknown_price_makes_no_total() -> None:
    """Nothing that is unknown counts as 0 USD, and what is known beside it is told as such."""
    unknown = decide(GpuRequest(gpus_per_node=8), [pool()], signals("p", seen()))
    (row,) = [line for line in table_text(unknown).splitlines() if line.startswith("p ")]
    assert row.split()[5:9] == ["chosen", "8", "?", "?"]
    waited = decide(
        GpuRequest(gpus_per_node=8),
        [pool()],
        signals("p", seen()),
        setting=Setting(profile=next(one for one in BUILT_IN_PROFILES if one.name == "balanced")),
    )
    (row,) = [line for line in table_text(waited).splitlines() if line.startswith("p ")]
    assert row.split()[8:10] == ["?", "+"]


def test_brackets_in_a_name_are_no_style() -> None:
    """A mapped task or a file may have such a name."""
    decision = msgspec.structs.replace(one_fits(), subject="requests[all].yaml")
    console = Console(width=200, file=io.StringIO())
    console.print(table(decision))
    assert "requests[all].yaml: 16 GPUs" in console.file.getvalue()  # type: ignore[attr-defined]  # a StringIO


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
    cost_terms = 2
    assert table(one_fits()).row_count == len(one_fits().verdicts) + cost_terms
    text = table_text(one_fits())
    for word in ("chosen", "33.60", "cost: work", "cost: expected rework", "16 GPUs x 2.1 USD x 1 h"):
        assert word in text


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
    seen_of_it = decision.snapshot.pools["onprem-h100"]
    cordoned = msgspec.structs.replace(seen_of_it.nodes[0], free=0, unusable_because="cordoned")
    changed = msgspec.structs.replace(
        decision,
        snapshot=msgspec.structs.replace(
            decision.snapshot,
            pools={
                **decision.snapshot.pools,
                "onprem-h100": msgspec.structs.replace(seen_of_it, nodes=(cordoned, *seen_of_it.nodes[1:])),
            },
        ),
    )
    again = replay(changed)
    assert (decision.chosen, again.chosen) == ("onprem-h100", None)
    assert codes(again, "onprem-h100") == ["NodesNotSchedulable"]


def test_a_record_is_decided_again_in_a_new_process(tmp_path: Path) -> None:
    """From its JSON alone, without anything that this process knows."""
    record = tmp_path / "decision.json"
    record.write_bytes(to_json(one_fits()))
    program = (
        "import pathlib, sys\n"
        "from airflow_gpu_placement.engine.explain import from_json, to_json\n"
        "from airflow_gpu_placement.engine.place import replay\n"
        "decision = from_json(pathlib.Path(sys.argv[1]).read_bytes())\n"
        "sys.stdout.buffer.write(to_json(replay(decision)))\n"
    )
    told = subprocess.run([sys.executable, "-c", program, record], capture_output=True, check=True)
    assert from_json(told.stdout) == one_fits()


def test_the_cost_is_told_term_by_term() -> None:
    """The total of every pool that fits, and what it is made of."""
    decision = decide(
        GpuRequest(gpus_per_node=8),
        [pool(gpu_hour_usd=2.0, interruptions_per_gpu_hour=0.0)],
        signals("p", seen()),
        setting=Setting(profile=BUILT_IN_PROFILES[1]),
    )
    assert details(decision).splitlines()[1] == (
        "  p: fits (H100 80 GB SXM, 1 x 8 GPUs, 16.00 USD/h): 26.00 USD = compute 16.00 + rework 0.00 + "
        "time 10.00; ends in 1.00 h"
    )


def test_a_warning_of_the_decision_is_told() -> None:
    """A deadline that nothing makes is not hidden behind a choice."""
    request = GpuRequest(time={"runtime_hours": 5, "complete_within_hours": 1})  # type: ignore[arg-type]  # a dict is read
    decision = decide(request, [pool()], signals("p", seen()))
    assert "  warning: no pool makes the deadline, which is in 1.00 h" in details(decision)


def test_long_cells_of_the_table_are_wrapped() -> None:
    """Nothing is cut off, and no line is longer than asked for."""
    rows = [("a", "one two three four five"), ("b", "a-word-that-is-longer-than-its-column")]
    text = text_table(("name", "what"), rows, frozenset({"name"}), 20)
    assert text.splitlines() == [
        "name  what",
        "----  --------------",
        "   a  one two three",
        "      four five",
        "   b  a-word-that-is",
        "      -longer-than-i",
        "      ts-column",
    ]
