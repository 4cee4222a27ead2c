"""Logs of scripted pods: of very many, of those that cannot be asked, and what is missing at the end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from airflow_gpu_placement.model.outcome import LossPolicy, OutcomeKind
from airflow_gpu_placement.watch.cluster import ClusterKey, shared_watch
from airflow_gpu_placement.watch.follow import follow
from airflow_gpu_placement.watch.followed import JobRef
from tests.integration.cluster_support import texts, until
from tests.integration.scripted_api import NAMESPACE, ScriptedApi, refusal

if TYPE_CHECKING:
    from airflow_gpu_placement.model.outcome import Outcome

pytestmark = pytest.mark.asyncio

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
NODE = {"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
ENDED = {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:01:00Z"}}


def job(number: int, **status: Any) -> dict[str, Any]:
    """Return a job of one pod."""
    metadata = {"name": f"gp-{number}", "namespace": NAMESPACE, "uid": f"job-{number}"}
    return {"metadata": metadata, "spec": {"completions": 1}, "status": status}


def pod(number: int, phase: str, state: dict[str, Any]) -> dict[str, Any]:
    """Return the pod of a job."""
    labels = {"batch.kubernetes.io/controller-uid": f"job-{number}"}
    return {
        "metadata": {
            "name": f"pod-{number}",
            "namespace": NAMESPACE,
            "uid": f"pod-{number}",
            "labels": labels,
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "training"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "training", "state": state}]},
    }


def succeed(api: ScriptedApi, number: int) -> None:
    """Let a job end."""
    api.send("pods", "MODIFIED", **pod(number, "Succeeded", ENDED))
    conditions = [{"type": "Complete", "status": "True"}]
    api.send("jobs", "MODIFIED", **job(number, succeeded=1, conditions=conditions))


async def follow_scripted(api: ScriptedApi, number: int, log: list[str], phases: list[str]) -> Outcome:
    """Follow one of the jobs."""
    ref = JobRef(NAMESPACE, f"gp-{number}", f"job-{number}")
    async with shared_watch(ClusterKey("scripted"), api.open_cluster) as watch:
        return await follow(watch, ref, LossPolicy(), report=phases.append, report_log=texts(log))


async def test_a_hundred_logs_are_read_over_few_connections() -> None:
    """Every line of every pod comes once, and the cluster never serves more than forty logs at a time."""
    api = ScriptedApi()
    now = most = 0
    ended = asyncio.Event()

    async def log(request: web.Request) -> web.StreamResponse:
        nonlocal now, most
        now += 1
        most = max(most, now)
        try:
            response = web.StreamResponse()
            await response.prepare(request)
            if request.query.get("sinceTime", "") <= "2026-01-01T00:00:00Z":
                await response.write(b"2026-01-01T00:00:00.1Z first\n")
            if request.query.get("follow"):
                await ended.wait()
            if ended.is_set():
                await response.write(b"2026-01-01T00:00:09.1Z last\n")
            return response
        finally:
            now -= 1

    numbers = range(100)
    api.items["jobs"] = [job(number, active=1) for number in numbers]
    api.items["pods"] = [pod(number, "Running", RUNNING) for number in numbers]
    api.items["nodes"] = [NODE]
    api.script["list log"].extend([log] * 1000)
    logs: list[list[str]] = [[] for _ in numbers]
    async with api.running():
        following = [
            asyncio.create_task(follow_scripted(api, number, logs[number], [])) for number in numbers
        ]
        await until(lambda: all(lines == ["first"] for lines in logs), seconds=60, what="all are read")
        await until(lambda: api.is_watched("jobs") and api.is_watched("pods"), seconds=20, what="watches")
        ended.set()
        for number in numbers:
            succeed(api, number)
        outcomes = await asyncio.wait_for(asyncio.gather(*following), 60)
    assert {outcome.kind for outcome in outcomes} == {OutcomeKind.SUCCEEDED}
    assert all(lines == ["first", "last"] for lines in logs)
    assert 20 < most <= 40


@pytest.mark.parametrize(
    ("status", "text"),
    [(404, 'pods "pod-0" not found'), (500, "dial tcp 10.0.0.7:10250: no route"), (403, "no")],
)
async def test_a_log_that_cannot_be_read_fails_nothing(status: int, text: str) -> None:
    """The job has succeeded; its log says why it is not there."""
    api = ScriptedApi()
    api.items["jobs"] = [job(0, active=1)]
    api.items["pods"] = [pod(0, "Running", RUNNING)]
    api.items["nodes"] = [NODE]
    api.script["list log"].extend([refusal(status, text)] * 100)
    log: list[str] = []
    phases: list[str] = []
    async with api.running():
        following = asyncio.create_task(follow_scripted(api, 0, log, phases))
        await until(lambda: any("is running" in line for line in phases), seconds=20, what="it runs")
        await until(lambda: api.is_watched("jobs") and api.is_watched("pods"), seconds=20, what="watches")
        succeed(api, 0)
        outcome = await asyncio.wait_for(following, 30)
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert len(log) == 1
    assert text in log[0]


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param(
            b"unable to retrieve container logs for containerd://0\n",
            ["(the node says: unable to retrieve container logs for containerd://0)"],
            id="no log",
        ),
        pytest.param(
            b"2026-01-01T00:00:00.1Z short\n2026-01-01T00:00:00.2Z " + b"x" * 50_000 + b"\n",
            ["short", "x" * (16_384 - 23), f"({50_000 - 16_384 + 23} bytes of a long line are left out)"],
            id="a long line at the end",
        ),
    ],
)
async def test_what_is_missing_at_the_end_of_a_log_is_said_once(body: bytes, want: list[str]) -> None:
    """A node answers 200 when it has lost a log, and says so in a line without a stamp."""
    api = ScriptedApi()
    api.items["jobs"] = [job(0, active=1)]
    api.items["pods"] = [pod(0, "Running", RUNNING)]
    api.items["nodes"] = [NODE]

    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body)

    api.script["list log"].extend([answer] * 100)
    log: list[str] = []
    async with api.running():
        following = asyncio.create_task(follow_scripted(api, 0, log, []))
        await until(lambda: len(api.asked("list log")) > 2, seconds=20, what="the log is asked for again")
        await until(lambda: api.is_watched("jobs") and api.is_watched("pods"), seconds=20, what="watches")
        succeed(api, 0)
        outcome = await asyncio.wait_for(following, 30)
    assert outcome.kind is OutcomeKind.SUCCEEDED
    assert log == want
