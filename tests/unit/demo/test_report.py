"""How the demo shows decisions and figures."""

from __future__ import annotations

import io
from xml.etree import ElementTree

from rich.console import Console

from lab.demo import report
from lab.demo.figures import figures_of
from tests.unit.demo import stories


def printed(width: int, *parts: object) -> str:
    """Print without colours and return the text, each run of spaces as one."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, legacy_windows=False).print(*parts, sep="\n")
    return " ".join(out.getvalue().split())


def test_a_wide_terminal_gets_the_table() -> None:
    """The line first, then a row a pool."""
    text = printed(160, *report.decision_view(stories.decision(), "Try 1", 160))
    assert "Try 1: 2/2 GPU pools fit llm.train: chose us" in text
    assert "┃ verdict ┃" in text
    assert "nodes and pods of" in text


def test_a_middling_terminal_gets_the_table_without_the_signals() -> None:
    """Reason codes are never cut short."""
    decision = stories.decision({"us": (stories.NODE,)})
    text = printed(104, *report.decision_view(decision, "Try 1", 104))
    assert "┃ verdict ┃" in text
    assert "NodesLost" in text
    assert "nodes and pods of" not in text


def test_a_narrow_terminal_gets_the_same_in_lines() -> None:
    """Folded cells could not be read; no pool and no reason is left out."""
    decision = stories.decision({"us": (stories.NODE,)})
    text = printed(80, *report.decision_view(decision, "Try 2", 80))
    assert "┃" not in text
    assert "eu: fits" in text
    assert "us: NodesLost: earlier tries of this task lost us-1" in text


def test_every_figure_is_shown() -> None:
    """The move, the epochs, the accuracy, and the cost of each pool with the total."""
    figures = figures_of(stories.facts(kill_at_epoch=5, epochs=9))
    text = printed(100, *report.figures_view(figures))
    for said in (
        "The move from us to eu",
        "3.0 s │ the node is suspected",
        "6.0 s │ the node counts as lost, 6 s after its last sign of life",
        "8.0 s │ the next try creates its remote job in eu",
        "9.0 s │ the first new epoch is saved there",
        "epochs 1 to 5 saved in us before the power went",
        "epochs 6 to 9 trained in eu, resumed from epoch 5",
        "not lost: 5 of 5 saved epochs; repeated: 0 (epoch 6 was begun twice)",
        "90.0%",
        "would have cost",
        f"{figures.costs[0].usd:.4f}",
        f"{figures.costs[1].usd:.4f}",
        f"{figures.total_usd:.4f}",
    ):
        assert said in text


def test_the_picture_has_both_decisions_and_fetches_nothing() -> None:
    """It is valid XML with both tables and the move, and names no font of the network."""
    story = stories.facts()
    drawn = report.picture(story, figures_of(story))
    ElementTree.fromstring(drawn)
    text = drawn.replace("&#160;", " ")
    assert "Try 1" in text
    assert "Try 2" in text
    assert "Node us-1 loses its power." in text
    assert "url(http" not in text
    assert "@font-face" not in text
