"""What the demo reads from checkpoints, the task's state store and the task's log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.checkpoint import Checkpoints
from lab.demo import facts
from tests.unit.demo import stories

if TYPE_CHECKING:
    from pathlib import Path


def writer(root: Path, fence: int) -> Checkpoints:
    """Return the checkpoints of an attempt."""
    return Checkpoints(root, root / f"{fence}-abcdef0{fence}", fence=fence, attempt=f"abcdef0{fence}")


def test_epochs_are_read_from_the_manifests_of_all_attempts(tmp_path: Path) -> None:
    """A folder without a manifest is no checkpoint, and the copy of another attempt counts as its own."""
    root = tmp_path / "0123456789" / "1"
    first, second = writer(root, 1), writer(root, 2)
    for epoch in (1, 2):
        with first.save(epoch) as folder:
            (folder / "state").write_text("x")
    (first.write_dir / "step-000000000003").mkdir()
    second.resume()
    found = facts.saved_epochs(tmp_path)
    assert [(saved.fence, saved.epoch) for saved in found] == [(1, 1), (1, 2), (2, 2)]


def test_no_folder_yet_means_no_epoch_yet(tmp_path: Path) -> None:
    """The demo looks before the job has started."""
    assert facts.saved_epochs(tmp_path / "nowhere") == ()


def test_record_and_decisions_come_back_from_the_store() -> None:
    """As JSON types, beside keys of others; decisions in the order of their fences."""
    story = stories.facts()
    store = {
        "somebody.else": 1,
        facts.RECORD_KEY: msgspec.to_builtins(story.record),
        **{f"{facts.DECISION_PREFIX}{n}": msgspec.to_builtins(story.decisions[n]) for n in (2, 1)},
    }
    assert facts.task_record(store) == story.record
    assert list(facts.task_decisions(store).items()) == list(story.decisions.items())


def test_an_empty_store_is_a_task_that_has_not_begun() -> None:
    """Nothing is remembered and nothing decided."""
    assert facts.task_record({}).attempts == ()
    assert facts.task_decisions({}) == {}


def test_log_lines_have_a_time() -> None:
    """Headings and tracebacks of the log have none and are left out."""
    content = [
        {"event": "::group::", "timestamp": None},
        {"event": "epoch 1", "timestamp": "2026-01-05T12:00:01Z"},
        "plain text",
    ]
    assert facts.log_lines(content) == (facts.LogLine(said_at=stories.at(1), text="epoch 1"),)
