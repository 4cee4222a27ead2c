"""What happens in the demo, told while it happens."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx

from lab.airflow.rest import ApiError
from lab.demo import facts as read
from lab.demo import fleet, report

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_gpu_placement.model.attempt import AttemptRecord
    from lab.airflow.servers import AirflowProcesses
    from lab.api import Lab
    from lab.demo.options import Options
    from lab.demo.screen import Screen
    from lab.nodes import Node

TASK_ID = "train"
ENDED_STATES = frozenset({"success", "failed", "upstream_failed", "removed", "skipped"})
#: What is passed on of the task's log; the decision is shown as a table, the epochs from their checkpoints.
TOLD = re.compile(
    r"Created remote job|pod \S+ is (bound|running)|suspected: |Node\w+: |.* no longer suspected"
    r"|Resume from step|Remote job \S+ in pool \S+ succeeded|The end of \S+ is not proven"
    r"|\w+ in pool \S+: retry"
)
JOB_NAME = re.compile(r"gp-[a-z0-9-]+?-[0-9a-f]{10}-([0-9a-f]{8})")
_POLL_SECONDS = 0.25
_LOG_POLL_SECONDS = 1.0
_SPARE_SECONDS = 240.0


class DemoFailedError(Exception):
    """The demo did not go as it should; the message says what was seen instead."""


@dataclass
class Run:
    """One run of the example DAG, followed to its end."""

    lab: Lab
    airflow: AirflowProcesses
    screen: Screen
    options: Options
    checkpoints: Path
    dag_id: str
    run_id: str
    _told_epochs: set[tuple[int, int]] = field(default_factory=set)
    _told_decisions: set[int] = field(default_factory=set)
    _told_lines: dict[int, int] = field(default_factory=dict)
    _store: dict[str, Any] = field(default_factory=dict)
    _next_log_poll: float = 0.0

    def follow(self) -> read.Facts:
        """Watch the training, cut the power of its node in the middle, and watch on to the end.

        :raises DemoFailedError: it did not end well.
        """
        deadline = (
            time.monotonic() + _SPARE_SECONDS + 2 * self.options.epochs * (1 + self.options.seconds_per_epoch)
        )
        self._watch(lambda: self._newest_epoch() >= self.options.kill_at_epoch, deadline)
        if self._newest_epoch() < self.options.kill_at_epoch:
            raise DemoFailedError(f"the task ended before epoch {self.options.kill_at_epoch} was saved")
        power_off = self._cut_power()
        self.screen.doing("waiting until the silence has lasted long enough")
        self._watch(lambda: False, deadline)
        return self._collect(power_off)

    def log(self, try_number: int) -> tuple[read.LogLine, ...]:
        """Return the log of one try."""
        path = f"/dags/{self.dag_id}/dagRuns/{self.run_id}/taskInstances/{TASK_ID}/logs/{try_number}"
        answer = self.airflow.client.call(
            "GET", path, params={"full_content": True}, headers={"Accept": "application/json"}
        )
        return read.log_lines(answer["content"])

    def log_tail(self, lines: int) -> str:
        """Return the end of the log of the newest try, for a report of a failure."""
        client = self.airflow.client
        try:
            number = client.task_instance(self.dag_id, self.run_id, TASK_ID).try_number
            text = client.task_log(self.dag_id, self.run_id, TASK_ID, max(number, 1))
        except (ApiError, httpx.TransportError) as error:
            return f"(the task's log cannot be read: {error})"
        tail = "\n".join(text.splitlines()[-lines:])
        return f"--- end of the task's log, try {number}\n{tail}"

    def _watch(self, reached: Callable[[], bool], deadline: float) -> None:
        """Tell what happens until something is reached or the task has ended."""
        while not reached():
            self.airflow.check_alive()
            # A busy machine may be late with an answer; the deadline below bounds how long that is borne.
            with contextlib.suppress(httpx.TransportError):
                if self._tell():
                    return
            if time.monotonic() > deadline:
                raise DemoFailedError("the task takes far longer than the demo should")
            time.sleep(_POLL_SECONDS)

    def _tell(self) -> bool:
        """Tell what is new; return whether the task has ended."""
        self._tell_epochs()
        if time.monotonic() < self._next_log_poll:
            return False
        task = self.airflow.client.task_instance(self.dag_id, self.run_id, TASK_ID)
        self._store = self.airflow.client.task_store(self.dag_id, self.run_id, TASK_ID)
        if not self._told_decisions:
            self.screen.doing(f"the task is {task.state or 'not scheduled yet'}")
        self._tell_decisions()
        for try_number in range(1, task.try_number + 1):
            self._tell_log(try_number)
        self._tell_epochs()
        self._next_log_poll = time.monotonic() + _LOG_POLL_SECONDS
        return task.state in ENDED_STATES and (
            self.airflow.client.run_state(self.dag_id, self.run_id) in ENDED_STATES
        )

    def _tell_epochs(self) -> None:
        record = read.task_record(self._store)
        for saved in read.saved_epochs(self.checkpoints):
            attempt = read.attempt_of(record, saved.fence)
            known = (saved.fence, saved.epoch)
            if known in self._told_epochs or attempt is None:
                continue
            copied = any(epoch == saved.epoch for _, epoch in self._told_epochs)
            self._told_epochs.add(known)
            if copied:
                self.screen.say(f"epoch {saved.epoch} is taken over in {attempt.pool}", "cyan")
            else:
                self.screen.say(
                    f"epoch {saved.epoch} of {self.options.epochs} saved in {attempt.pool}", "cyan"
                )
            self.screen.doing(f"training in {attempt.pool}")

    def _tell_decisions(self) -> None:
        record = read.task_record(self._store)
        for fence, decision in read.task_decisions(self._store).items():
            attempt = read.attempt_of(record, fence)
            if fence in self._told_decisions or attempt is None:
                continue
            self._told_decisions.add(fence)
            shown = report.decision_view(decision, f"Try {attempt.try_number}", self.screen.console.width)
            for part in shown:
                self.screen.show(part)
            self.screen.doing(f"starting the job in {attempt.pool}")

    def _tell_log(self, try_number: int) -> None:
        lines = self.log(try_number)
        for line in lines[self._told_lines.get(try_number, 0) :]:
            if TOLD.match(line.text):
                self.screen.say(self._shorter(line.text), who=f"log of try {try_number}")
        self._told_lines[try_number] = len(lines)

    def _shorter(self, text: str) -> str:
        """Leave out of a line of the log what is the same in all: the folder, most of the job's name."""
        return JOB_NAME.sub(r"gp-...-\1", text.replace(f"file://{self.checkpoints}/", ""))

    def _newest_epoch(self) -> int:
        return max((saved.epoch for saved in read.saved_epochs(self.checkpoints)), default=0)

    def _cut_power(self) -> read.PowerOff:
        self._tell_epochs()
        record = read.task_record(self.airflow.client.task_store(self.dag_id, self.run_id, TASK_ID))
        attempt = record.attempts[-1]
        node = self._node_of(attempt)
        saved = next(
            one for one in read.saved_epochs(self.checkpoints) if one.epoch == self.options.kill_at_epoch
        )
        self._wait_until(saved.saved_at + timedelta(seconds=self.options.seconds_per_epoch / 2))
        at = datetime.now(UTC)
        processes = node.power_off()
        self.screen.say(
            f"POWER OFF: node {node.name} of {attempt.pool} is dead in the middle of epoch "
            f"{self.options.kill_at_epoch + 1}, {processes} processes with it",
            "bold red",
        )
        return read.PowerOff(node=node.name, at=at, processes=processes)

    def _wait_until(self, moment: datetime) -> None:
        left = (moment - datetime.now(UTC)).total_seconds()
        if left > 0:
            time.sleep(left)

    def _node_of(self, attempt: AttemptRecord) -> Node:
        cluster = fleet.cluster_of(self.lab, attempt.kubernetes_conn_id)
        pods = cluster.api.get(
            f"/api/v1/namespaces/{attempt.namespace}/pods",
            labelSelector=f"batch.kubernetes.io/job-name={attempt.job_name}",
        )["items"]
        if not pods:
            raise DemoFailedError(f"remote job {attempt.job_name} has no pod in cluster {cluster.name}")
        return cluster.node(pods[0]["spec"]["nodeName"])

    def _collect(self, power_off: read.PowerOff) -> read.Facts:
        task = self.airflow.client.task_instance(self.dag_id, self.run_id, TASK_ID)
        if task.state != "success":
            raise DemoFailedError(f"the task ended as {task.state} in try {task.try_number}")
        return read.Facts(
            record=read.task_record(self._store),
            decisions=read.task_decisions(self._store),
            logs={number: self.log(number) for number in range(1, task.try_number + 1)},
            saved=read.saved_epochs(self.checkpoints),
            power_off=power_off,
            result=self.airflow.client.xcom(self.dag_id, self.run_id, TASK_ID),
        )
