"""Logs of real pods: of a job that changes its watcher, floods, long lines, and the tail of a lost pod."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
import pytest

from airflow_gpu_placement.launch.job import create
from airflow_gpu_placement.model.outcome import LossPolicy, OutcomeKind
from airflow_gpu_placement.watch.cluster import ClusterKey, shared_watch
from airflow_gpu_placement.watch.follow import follow
from airflow_gpu_placement.watch.followed import JobRef
from airflow_gpu_placement.watch.position import Bookmark
from tests.integration.cluster_support import opener, pool_of, spec_of, texts, until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from airflow_gpu_placement.model.outcome import Outcome
    from lab import Cluster, Node

pytestmark = pytest.mark.asyncio


class Shelf:
    """Bookmarks that the next watcher finds, as they were stored last."""

    def __init__(self) -> None:
        self.stored = b"{}"
        self.saves = True

    async def load(self) -> Mapping[str, Bookmark]:
        """Take over."""
        return msgspec.json.decode(self.stored, type=dict[str, Bookmark])

    async def save(self, marks: Mapping[str, Bookmark]) -> None:
        """Keep them, unless the watcher counts as killed."""
        if self.saves:
            self.stored = msgspec.json.encode(marks)

    save_now = save

    async def is_ours(self) -> bool:
        """Nobody else is there."""
        return True


async def launch(cluster: Cluster, namespace: str, script: str) -> JobRef:
    """Create a job that runs a script."""
    spec = spec_of(pool_of(cluster, namespace), script, gpus_per_node=0)
    async with await opener(cluster)("", None) as client:
        created = await create(client, spec, expected_uid=cluster.uid)
    return JobRef(namespace, spec.attempt.job_name, created.uid)


async def watch_job(
    cluster: Cluster, ref: JobRef, report_log: Callable[[datetime, str], None], shelf: Shelf | None = None
) -> Outcome:
    """Follow a job as one triggerer does."""
    async with shared_watch(ClusterKey(ref.name), opener(cluster)) as watch:
        return await follow(
            watch, ref, LossPolicy(), report=lambda _: None, report_log=report_log, bookmarks=shelf
        )


@pytest.mark.lab
async def test_a_new_watcher_goes_on_with_the_log(cluster: Cluster, namespace: str) -> None:
    """One that was cancelled leaves no gap and no repeat; one that was killed repeats its last moments.

    What is repeated has the same moment, by which Airflow drops it.
    """
    ref = await launch(cluster, namespace, "for i in $(seq 120); do echo line $i; sleep 0.1; done")
    began = datetime.now(UTC)
    shelf = Shelf()
    files: list[list[tuple[datetime, str]]] = []

    def new_file() -> Callable[[datetime, str], None]:
        file: list[tuple[datetime, str]] = []
        files.append(file)
        return lambda moment, line: file.append((moment, line))

    for killed in (False, False, True):
        watching = asyncio.create_task(watch_job(cluster, ref, new_file(), shelf))
        await until(lambda: len(files[-1]) >= 25, seconds=60, what="25 lines")
        shelf.saves = not killed
        watching.cancel()
        await asyncio.wait([watching])
    shelf.saves = True
    outcome = await asyncio.wait_for(watch_job(cluster, ref, new_file(), shelf), 60)
    assert outcome.kind is OutcomeKind.SUCCEEDED
    everything = [f"line {i}" for i in range(1, 121)]
    logs = [[line for _, line in file] for file in files]
    assert logs[0] + logs[1] + logs[2] == everything[: sum(map(len, logs[:3]))]
    assert logs[3] == everything[-len(logs[3]) :]
    repeated = sum(map(len, logs)) - len(everything)
    assert 0 < repeated <= 40
    told = sorted({entry for file in files for entry in file})
    assert [line for _, line in told] == everything
    assert began <= told[0][0] < told[-1][0] <= datetime.now(UTC)


@pytest.mark.lab
async def test_a_flood_is_cut_short_and_its_end_is_shown(cluster: Cluster, namespace: str) -> None:
    """Two million lines: a bounded part of them is given out, then the last ones, which say what happened."""
    ref = await launch(cluster, namespace, "seq 2000000; echo ValueError: the end >&2; exit 3")
    log: list[str] = []
    outcome = await asyncio.wait_for(watch_job(cluster, ref, texts(log)), 90)
    assert outcome.kind is OutcomeKind.APPLICATION
    assert outcome.message.endswith("ValueError: the end")
    assert log[-1] == "ValueError: the end"
    assert sum("lines are left out here" in line for line in log) == 1
    cut = next(i for i, line in enumerate(log) if "lines are left out here" in line)
    assert log[:cut] == [str(i) for i in range(1, cut + 1)]
    assert cut < 60_000


@pytest.mark.lab
async def test_long_lines_and_progress_bars_are_shown_as_far_as_anybody_reads(
    cluster: Cluster, namespace: str
) -> None:
    """A line of a million letters is cut with a note; of one that is written over, the last state counts."""
    script = (
        "head -c 1000000 /dev/zero | tr '\\0' x; echo; "
        "printf '10%%\\r20%%\\r100%%\\n'; printf 'dos line\\r\\n'; echo the end"
    )
    log: list[str] = []
    outcome = await asyncio.wait_for(
        watch_job(cluster, await launch(cluster, namespace, script), texts(log)), 60
    )
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert log[0].startswith("xxxx")
    assert len(log[0]) <= 16 * 1024
    cut_bytes = 1_000_000 - len(log[0])
    assert log[1:] == [f"({cut_bytes} bytes of a long line are left out)", "100%", "dos line", "the end"]


@pytest.mark.lab
async def test_the_last_lines_seen_of_a_lost_pod_are_in_the_message(
    cluster: Cluster, namespace: str, spare_node: Callable[[], Node]
) -> None:
    """Its log cannot be read any more, but how far it came was seen."""
    node = spare_node()
    pool = pool_of(cluster, namespace, node_selector={"kubernetes.io/hostname": node.name})
    spec = spec_of(pool, "for i in $(seq 9); do echo step $i; done; sleep 600")
    async with await opener(cluster)("", None) as client:
        created = await create(client, spec, expected_uid=cluster.uid)
    ref = JobRef(namespace, spec.attempt.job_name, created.uid)
    log: list[str] = []
    async with shared_watch(ClusterKey(cluster.name), opener(cluster)) as watch:
        policy = LossPolicy(node_grace_seconds=8)
        following = asyncio.create_task(
            follow(watch, ref, policy, report=lambda _: None, report_log=texts(log))
        )
        await until(lambda: len(log) == 9, seconds=60, what="the program has spoken")
        await asyncio.to_thread(node.power_off)
        outcome = await asyncio.wait_for(following, 60)
    assert (outcome.kind, outcome.cause) == (OutcomeKind.INFRASTRUCTURE, "NodeLost")
    lines = outcome.message.splitlines()
    assert node.name in lines[0]
    assert lines[1:] == ["Last lines seen of its log:", *(f"step {i}" for i in range(5, 10))]
