"""From what was seen under a power loss to the figures that are told."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from benchmarks.peer import report as reports
from benchmarks.peer.observe import logged_moments, newest_epoch, open_job, open_pod, ready
from benchmarks.peer.samples import (
    Measurement,
    Sample,
    View,
    all_ended,
    jobs_created,
    moments,
    most_copies,
)
from benchmarks.peer.speed import SPEEDS

if TYPE_CHECKING:
    from pathlib import Path

AT_LOSS = View(
    task_state="deferred", try_number=1, jobs=frozenset({"a"}), pods=frozenset({"a-x"}), copies=0, epoch=7
)
SUSPECTED = View(
    task_state="deferred",
    try_number=1,
    jobs=frozenset({"a"}),
    pods=frozenset({"a-x"}),
    deleting=frozenset({"a-x"}),
    epoch=7,
)
MOVED = View(
    task_state="deferred",
    try_number=2,
    jobs=frozenset({"a", "b"}),
    pods=frozenset({"a-x", "b-y"}),
    deleting=frozenset({"a-x"}),
    copies=1,
    epoch=8,
)
DONE = replace(MOVED, task_state="success", copies=0, epoch=9)


def samples(*views: View) -> list[Sample]:
    """Return one sample a view, ten seconds apart; the node is Unknown from the second on."""
    return [
        Sample(at_seconds=10.0 * index, node_ready="Unknown" if index else "True", views={"one": view})
        for index, view in enumerate(views)
    ]


def measurement(title: str, **times: float | None) -> Measurement:
    """Return a measurement with these moments and no others."""
    names = ("node_unknown", "suspected", "lost", "withdrawn", "next_copy", "resumed", "trained", "ended")
    return Measurement(
        key=title,
        title=title,
        settings="as it comes",
        times_seconds={name: times.get(name) for name in names},
        jobs=2,
        most_copies=1,
        epochs_saved=7,
        epochs_repeated=None,
        state="deferred, try 1",
        open_then=("Job (1 terminating)", "pod (Terminating)"),
        state_after="success, try 2",
        left_behind=(),
    )


def report(*contenders: Measurement, window_seconds: float = 120) -> reports.Report:
    """Return a report of these contenders."""
    return reports.Report(
        date="2026-11-30T00:00:00+00:00",
        machine="a test",
        versions={"kubernetes": "v1.36.3"},
        speed=SPEEDS["fast"],
        window_seconds=window_seconds,
        after_seconds=45,
        missed_samples=0,
        contenders=contenders,
    )


def cells(built: reports.Report) -> dict[str, list[str]]:
    """Return the table's cells by the name of their row."""
    return {row[0]: row[1:] for row in reports.rows(built)}


def test_each_moment_is_the_first_sample_in_which_it_was_seen() -> None:
    """A pod that was there when the power went is no next one, and neither is its epoch."""
    found = moments(samples(AT_LOSS, AT_LOSS, SUSPECTED, MOVED, MOVED, DONE), "one", {"lost": 24.5}, 9)

    assert found == {
        "node_unknown": 10.0,
        "suspected": None,
        "lost": 24.5,
        "withdrawn": 20.0,
        "next_copy": 30.0,
        "resumed": 30.0,
        "trained": 50.0,
        "ended": 50.0,
    }


def test_a_task_that_succeeded_before_the_loss_ended_at_zero() -> None:
    """It did not wait for its job, and the table says so and gives no ratio."""
    ended = moments(samples(replace(AT_LOSS, task_state="success")), "one", {}, 9)["ended"]

    assert ended == 0.0
    shown = cells(report(measurement("ours", ended=60.0), measurement("peer", ended=ended)))
    assert shown["task succeeded"] == ["60.0", "before the loss"]


def test_the_watch_is_over_when_no_task_can_change() -> None:
    """One deferred task keeps it going, and so does a program that nobody waits for."""
    (sample,) = samples(DONE)

    assert all_ended(sample)
    assert not all_ended(replace(sample, views={"one": replace(DONE, copies=1)}))
    assert not all_ended(replace(sample, views={"one": DONE, "two": AT_LOSS}))


def test_copies_are_the_most_that_were_alive_at_once() -> None:
    """A second copy that lived for one sample counts."""
    assert most_copies(samples(AT_LOSS, replace(MOVED, copies=2), MOVED), "one") == 2


def test_a_job_that_is_gone_was_created_all_the_same() -> None:
    """What was withdrawn counts."""
    assert jobs_created(samples(AT_LOSS, MOVED, replace(MOVED, jobs=frozenset({"b"}))), "one") == 2


def test_each_figure_has_its_ratio_and_what_never_came_has_a_bound() -> None:
    """The product's own column has no ratio, a shared moment neither."""
    ours = measurement("ours", node_unknown=10.4, suspected=5.0, lost=24.0, next_copy=32.0)
    peer = measurement("peer", node_unknown=10.4, withdrawn=16.0, next_copy=64.0)

    shown = cells(report(ours, peer))

    assert shown["cluster says Ready=Unknown"] == ["10.4", "10.4"]
    assert shown["operator calls the job lost"] == ["24.0", "-"]
    assert shown["old pod is asked to end"] == ["-", "16.0"]
    assert shown["next remote job or pod exists"] == ["32.0", "64.0 (2x)"]
    assert shown["task succeeded"] == ["> 120", "> 120"]
    assert shown["epochs trained twice"] == ["not resumed", "not resumed"]
    assert shown["not ended on the cluster then"][0] == "Job (1 terminating); pod (Terminating)"
    assert shown["left behind on the cluster"] == ["nothing", "nothing"]


def test_a_peer_that_is_faster_is_shown_as_faster() -> None:
    """A ratio below one is neither hidden nor turned round."""
    shown = cells(report(measurement("ours", next_copy=40.0), measurement("peer", next_copy=10.0)))

    assert shown["next remote job or pod exists"] == ["40.0", "10.0 (0.25x)"]


@pytest.mark.parametrize(("window_seconds", "told"), [(120, True), (700, False)])
def test_a_window_too_short_for_the_default_eviction_is_told(window_seconds: float, told: bool) -> None:
    """Nobody shall take 'not within 120 s' for a measured end."""
    text = "\n".join(reports.notes(report(measurement("ours"), window_seconds=window_seconds)))

    assert ("--window-seconds 700" in text) is told
    assert "speed fast: all waiting times 5 times shorter than by default" in text


def test_json_holds_every_figure_and_its_ratio() -> None:
    """It survives encoding, and the ratio of what never came is null."""
    ours, peer = measurement("ours", next_copy=32.0), measurement("peer", next_copy=48.0)

    found = json.loads(json.dumps(reports.as_json(report(ours, peer))))

    assert found["speed"]["node_grace_seconds"] == 24
    assert found["contenders"][1]["times_seconds"]["next_copy"] == 48.0
    assert found["contenders"][1]["times_ratio_to_ours"]["next_copy"] == 1.5
    assert found["contenders"][1]["times_ratio_to_ours"]["ended"] is None


def test_markdown_has_a_heading_and_a_row_a_figure() -> None:
    """Every line has as many cells as there are contenders, and one for its name."""
    lines = reports.markdown(report(measurement("ours"), measurement("peer"))).splitlines()

    assert lines[0] == "|  | ours | peer |"
    assert {line.count("|") for line in lines} == {4}


def test_the_log_tells_when_the_first_suspicion_and_the_loss_were() -> None:
    """Later lines of the same kind, and lines without a time, change nothing."""
    log = "\n".join(
        [
            "  no time suspected: x",
            "2026-11-30T00:00:10.500000Z info pod a-x is bound to node n",
            "2026-11-30T00:00:15.500000Z info suspected: node n is silent for 6 s",
            "2026-11-30T00:00:16+00:00 info suspected: node n is silent for 7 s",
            "2026-11-30T00:00:34Z info NodeLost: node n is lost",
        ]
    )

    assert logged_moments(log, 1795996810.0) == {"suspected": 5.5, "lost": 24.0}


def test_the_newest_epoch_is_that_of_a_complete_checkpoint(tmp_path: Path) -> None:
    """A folder without a manifest is no checkpoint, however new."""
    for folder, complete in (("1-a/step-000000000003", True), ("2-b/step-000000000004", False)):
        (tmp_path / folder).mkdir(parents=True)
        if complete:
            (tmp_path / folder / "manifest.json").touch()

    assert newest_epoch(tmp_path) == 3
    assert newest_epoch(tmp_path / "none") == 0


def test_a_node_without_a_ready_condition_is_unknown() -> None:
    """A node that has only registered says nothing yet."""
    assert ready({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}) == "True"
    assert ready({"status": {}}) == "Unknown"


def test_a_job_whose_pod_cannot_end_is_described() -> None:
    """A Job has ended by its final condition alone, whatever else it says."""
    waiting = {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}], "terminating": 1}
    ended = {"conditions": [{"type": "Complete", "status": "True"}]}

    assert open_job({"metadata": {}, "status": waiting}) == "Job (SuccessCriteriaMet, 1 terminating)"
    assert open_job({"metadata": {"deletionTimestamp": "t"}, "status": {}}) == "Job (being deleted)"
    assert open_job({"metadata": {}, "status": ended}) is None


def test_a_pod_that_cannot_end_is_described() -> None:
    """Its phase stays Running on a lost node; what tells is that it was asked to end."""
    running = {"phase": "Running"}

    assert open_pod({"metadata": {"deletionTimestamp": "t"}, "status": running}) == "pod (Terminating)"
    assert open_pod({"metadata": {}, "status": running}) == "pod (Running)"
    assert open_pod({"metadata": {}, "status": {"phase": "Failed"}}) is None
