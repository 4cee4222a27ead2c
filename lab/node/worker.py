"""One pod on this node, from its first sight to the moment its object is gone."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lab.node import volumes
from lab.node.admission import (
    LEAST_GRACE_SECONDS,
    is_over,
    requested_grace,
    seconds_left,
    unsupported,
    usual_grace,
)
from lab.node.api import CONNECTION_ERRORS, Api, ApiError, pause
from lab.node.devices import Devices, Rejected
from lab.node.reporter import Reporter
from lab.node.starter import Starter
from lab.node.status import Verdict, now, pod_status, rejected_status

if TYPE_CHECKING:
    from pathlib import Path

    from lab.node.config import NodeConfig
    from lab.node.container import Container
    from lab.node.sandbox import Sandbox

LOG = logging.getLogger(__name__)
KILL_SECONDS = 5.0  # how long a kill may take before it is done by force
DEVICE_SECONDS = 5.0  # how long a new pod waits for GPUs of a pod that is gone and still dying


@dataclass
class NodeContext:
    """What all pods of a node share."""

    config: NodeConfig
    api: Api
    devices: Devices
    sandbox: Sandbox
    dying: set[str] = field(default_factory=set)  # uids whose objects are gone while their processes are not
    freed: asyncio.Event = field(default_factory=asyncio.Event)  # set when a pod lets go of its GPUs


class PodWorker:
    """Runs one pod. The pod loop tells it what the API server says; it tells the API server what happens."""

    def __init__(self, context: NodeContext, pod: dict[str, Any]) -> None:
        self._context = context
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self.folder: Path = context.config.pods_dir / self.uid
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self.key = (namespace, name)
        self._path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        self._reporter = Reporter(context.api, self._path + "/status", self.uid, self._status)
        self._wake = asyncio.Event()
        self._starter = Starter(context, pod, self.folder, self._changed)
        self._start_time: str = (pod.get("status") or {}).get("startTime") or now()
        self._verdict: Verdict | None = None
        self._rejected = False
        self._gone = False
        self.task = asyncio.create_task(self._run())

    # --- what the pod loop says ---

    def update(self, pod: dict[str, Any]) -> None:
        """Take a newer version of the pod's object."""
        self.pod = pod
        self._wake.set()
        if self._drifted():
            self._reporter.touch()

    def set_gone(self) -> None:
        """Take note that the pod's object has been removed."""
        self._gone = True
        self._context.dying.add(self.uid)
        self._reporter.forget()
        self._wake.set()

    async def close(self) -> None:
        """Stop, and let the containers live on."""
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        for container in self._starter.everything:
            await container.close()
        await self._reporter.close()

    def container(self, name: str) -> Container | None:
        """Return the container of this name."""
        return next((item for item in self._starter.everything if item.name == name), None)

    # --- the pod's life ---

    async def _run(self) -> None:
        try:
            await self._adopt()
            if is_over(self.pod) and not self._was_admitted():
                pass  # it ended elsewhere, or was refused: nothing of it is here
            elif self._was_admitted() or await self._admit():
                self._reporter.touch()
                await self._live()
                await self._finish()
            await self._await_removal()
        except Exception:  # the edge of a task: one pod's fault must not stop the node
            LOG.exception("pod %s/%s (%s) is not looked after any more", *self.key, self.uid)
        finally:
            self._context.dying.discard(self.uid)

    async def _adopt(self) -> None:
        """Take over containers of an earlier agent."""
        status = self.pod.get("status") or {}
        listed = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        seen = {item["name"]: item for item in listed}
        for container in self._starter.everything:
            if await container.adopt():
                continue
            known = seen.get(container.name, {}).get("state") or {}
            if "running" in known or ("terminated" in known and not is_over(self.pod)):
                container.lose()

    def _was_admitted(self) -> bool:
        return (self.folder / "admitted").exists()

    async def _admit(self) -> bool:
        """Check whether the node can run the pod, and give it its GPUs."""
        problem = unsupported(self.pod)
        await self._await_dying()
        try:
            if problem:
                raise Rejected("LabUnsupported", problem)
            self._context.devices.assign(self.uid, self.pod, self.folder)
        except Rejected as rejection:
            self._verdict = Verdict("Failed", rejection.reason, str(rejection))
            self._rejected = True
            self._reporter.touch()
            return False
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "admitted").touch()
        return True

    async def _await_dying(self) -> None:
        """Give pods that are gone a moment to let go of the GPUs that this one needs."""
        deadline = time.monotonic() + DEVICE_SECONDS
        while self._context.dying and self._context.devices.lacks(self.pod) and time.monotonic() < deadline:
            self._context.freed.clear()
            await pause(self._context.freed, deadline - time.monotonic())

    async def _live(self) -> None:
        """Start what is due and wait for the containers' end; end them when the pod must go."""
        kill_at: float | None = None
        while True:
            self._wake.clear()
            grace = self._grace_seconds()
            if grace is None:
                until = await self._starter.advance(self.pod, lambda: self._grace_seconds() is None)
                if until is None and not self._alive():
                    return
                left = self._seconds_left()
                waits = [seconds for seconds in (until, left) if seconds is not None]
                await pause(self._wake, min(waits, default=None))
            elif self._alive():
                kill_at = await self._end(grace, kill_at)
                await pause(self._wake, kill_at - time.monotonic())
            else:
                return

    async def _end(self, grace: float, kill_at: float | None) -> float:
        """Ask the containers to end, or kill them when their time is up; return when that is."""
        clock = time.monotonic()
        if kill_at is None:
            for container in self._alive():
                container.terminate()
        kill_at = min(kill_at or clock + grace, clock + grace)
        if clock >= kill_at:
            for container in self._alive():
                await container.kill()
            kill_at = clock + KILL_SECONDS
        return kill_at

    def _alive(self) -> list[Container]:
        return [container for container in self._starter.everything if container.alive]

    async def _finish(self) -> None:
        """Report the end. GPUs are free before the API server hears of it: the next pod may come at once."""
        if self._grace_seconds() is not None:
            for container in self._starter.everything:
                container.give_up()
        self._context.devices.release(self.uid, self.folder)
        self._context.freed.set()
        if self._drifted():
            self._reporter.touch()
        await self._reporter.flush()

    async def _await_removal(self) -> None:
        """Confirm a deletion, keep the logs until the object is gone, then clear the folder."""
        confirmed = False
        while not self._gone:
            self._wake.clear()
            if not confirmed and "deletionTimestamp" in self.pod["metadata"]:
                await self._reporter.flush()
                confirmed = await self._remove_object()
                await pause(self._wake, 0 if confirmed else 0.5)
            else:
                await self._wake.wait()
        for container in self._starter.everything:
            await container.close()
        await self._reporter.close()
        await asyncio.to_thread(volumes.remove_pod_dir, self.folder)

    async def _remove_object(self) -> bool:
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        try:
            await self._context.api.request("DELETE", self._path, body)
        except ApiError as error:
            if error.status not in (404, 409):
                LOG.warning("cannot remove %s: %s", self._path, error)
                return False
        except CONNECTION_ERRORS as error:
            LOG.warning("cannot remove %s: %s", self._path, error)
            return False
        return True

    # --- what must happen now ---

    def _grace_seconds(self) -> float | None:
        """How long the containers may still take, if the pod must end; None while it may run."""
        if self._gone:
            return LEAST_GRACE_SECONDS
        grace = requested_grace(self.pod)
        if grace is None and self._seconds_left() == 0:
            text = "Pod was active on the node longer than the specified deadline"
            self._verdict = Verdict("Failed", "DeadlineExceeded", text)
            return usual_grace(self.pod)
        return grace

    def _seconds_left(self) -> float | None:
        return seconds_left(self.pod, self._start_time, time.time())

    # --- status ---

    def _changed(self) -> None:
        self._wake.set()
        self._reporter.touch()

    def _status(self) -> dict[str, Any]:
        if self._rejected and self._verdict:
            return rejected_status(self._verdict)
        inits = [item.seen for item in self._starter.inits]
        containers = [item.seen for item in self._starter.containers]
        return pod_status(self.pod, inits, containers, self._verdict, self._start_time)

    def _drifted(self) -> bool:
        """Whether the API server shows something else than what the node knows (a lost node's pods do)."""
        seen = self.pod.get("status") or {}
        status = self._status()
        if self._rejected or not self._was_admitted():
            return False
        return seen.get("phase") != status["phase"] or _summary(seen) != _summary(status)


def _summary(status: dict[str, Any]) -> tuple[Any, ...]:
    conditions = {item["type"]: item["status"] for item in status.get("conditions") or ()}
    states = [list(item.get("state") or {}) for item in status.get("containerStatuses") or ()]
    return conditions.get("Ready"), states
