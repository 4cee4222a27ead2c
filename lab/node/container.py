"""One container of a pod: the runs of its command, one after the other, and the waits before them."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any

from lab.node.backoff import Backoff
from lab.node.run import Run
from lab.node.status import Seen, State, Terminated, Waiting, lost_before_start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lab.node.images import Problem


class Container:
    """A container of a pod on this node.

    Its n-th restart has the folder ``<name>.<n>`` beside that of the first run; the last two runs are kept.

    :param title: the pod as ``name_namespace(uid)``, for messages.
    :param restart: ``Never``, ``OnFailure`` or ``Always``.
    :param backoff_seconds: first delay after a failed pull or a crash.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        folder: Path,
        changed: Callable[[], None],
        *,
        title: str = "",
        restart: str = "Never",
        backoff_seconds: float = 10.0,
        waiting: str = "ContainerCreating",
    ) -> None:
        self.name: str = spec["name"]
        self.spec = spec
        self.restarts = 0
        self._first_folder = folder
        self._changed = changed
        self._title = title
        self._restart = restart
        self._base_seconds = backoff_seconds
        self._crashes = Backoff(backoff_seconds, first_free=True)
        self._pulls = Backoff(backoff_seconds)
        self._run = self._make_run(0)
        self._before: Terminated | None = None
        self._waiting: Waiting | None = Waiting(waiting)
        self._due = 0.0  # when the next run may be tried
        self._back_off_at: float | None = None  # when a failed pull is shown as a wait for the next one
        self._end_seen = False

    # --- what is known ---

    @property
    def state(self) -> State:
        """What the container does now."""
        return self._waiting or self._run.state

    @property
    def seen(self) -> Seen:
        """All that a pod's status says of the container."""
        ended = self._run.state if self._waiting and isinstance(self._run.state, Terminated) else None
        return Seen(self.spec, self.state, self.restarts, ended or self._before)

    @property
    def alive(self) -> bool:
        """Whether a command of the container runs."""
        return self._run.alive

    @property
    def log_path(self) -> Path:
        """Where the output of the present run is, or of the last one."""
        return self._run.log_path

    @property
    def previous_log_path(self) -> Path | None:
        """Where the output of the run before is; while the container waits for a restart, of the last one."""
        if self._waiting is not None and isinstance(self._run.state, Terminated):
            return self._run.log_path
        return self._folder(self.restarts - 1) / "log" if self._before is not None else None

    @property
    def can_show_log(self) -> bool:
        """Whether there is any output to read."""
        return not isinstance(self.state, Waiting) or isinstance(self._run.state, Terminated)

    # --- what is to be done ---

    def due_in(self) -> float | None:
        """Seconds until the next run may be tried; ``None``: there will be none, or one is under way."""
        if isinstance(self._run.state, Terminated) and not self._end_seen:
            self._note_end()
        if self._waiting is None and (self.alive or not self._wants_restart()):
            return None
        clock = time.monotonic()
        if self._waiting is not None and self._back_off_at is not None:
            if clock < self._back_off_at:
                return self._back_off_at - clock
            self._back_off_at = None
            text = f'Back-off pulling image "{self.spec["image"]}": ErrImagePull: {self._waiting.message}'
            self._wait(Waiting("ImagePullBackOff", text))
        return max(0.0, self._due - clock)

    def hold(self, reason: str, message: str, seconds: float) -> None:
        """Say why the next run could not be started now, and when it is tried again."""
        self._due = time.monotonic() + seconds
        self._wait(Waiting(reason, message))

    def lacks_image(self, problem: Problem) -> None:
        """Say that the image is not there; a registry is asked again after a growing delay."""
        if not problem.pull:
            self.hold(problem.reason, problem.message, self._base_seconds)
            return
        delay = self._pulls.next()
        self._back_off_at = time.monotonic() + min(delay / 2, self._base_seconds)
        self.hold(problem.reason, problem.message, delay)

    def upcoming(self) -> Run:
        """Return the run that is to be started next."""
        return self._make_run(self.restarts + 1) if isinstance(self._run.state, Terminated) else self._run

    async def start(self, run: Run, spec: dict[str, Any]) -> None:
        """Start the run that came up."""
        await run.start(spec)
        if run is not self._run:
            self._before = self._run.result()
            await self._run.close()
            if self.restarts:
                shutil.rmtree(self._folder(self.restarts - 1), ignore_errors=True)
            self._run, self.restarts = run, self.restarts + 1
        self._end_seen = False
        self._waiting = None
        self._changed()

    async def adopt(self) -> bool:
        """Take over what an earlier agent has started; False when it had not started this container."""
        number = max(self._numbers(), default=0)
        run = self._make_run(number)
        if not await run.adopt():
            return False
        if number:
            self._before = self._make_run(number - 1).result()
        self._run, self.restarts, self._waiting = run, number, None
        self._changed()
        return True

    def lose(self) -> None:
        """Say that a container which has been seen running is not on this machine any more."""
        self._waiting = None
        self._run.lose()

    def give_up(self) -> None:
        """Stop waiting: the pod must end, and there will be no other run."""
        if self._waiting is not None:
            self._waiting = None
            if not isinstance(self._run.state, Terminated):
                self._run.set_state(lost_before_start())
            self._changed()

    def terminate(self) -> None:
        """Ask the container's first process to end."""
        self._run.terminate()

    async def kill(self) -> None:
        """Kill everything in the container; the second call does without the shim's help."""
        await self._run.kill()

    async def close(self) -> None:
        """Stop watching the container, which lives on."""
        await self._run.close()

    def _wants_restart(self) -> bool:
        state = self._run.state
        if not isinstance(state, Terminated):
            return False
        return self._restart == "Always" or (self._restart == "OnFailure" and state.exit_code != 0)

    def _note_end(self) -> None:
        """Decide when a container that has ended runs again: at once for the first time, then ever later."""
        self._end_seen = True
        if not self._wants_restart():
            return
        delay = self._crashes.next()
        if delay:
            text = f"back-off {_go_duration(delay)} restarting failed container={self.name} pod={self._title}"
            self.hold("CrashLoopBackOff", text, delay)

    def _wait(self, waiting: Waiting) -> None:
        if waiting != self._waiting:
            self._waiting = waiting
            self._changed()

    def _make_run(self, number: int) -> Run:
        return Run(self.spec, self._folder(number), self._changed)

    def _folder(self, number: int) -> Path:
        return self._first_folder.with_name(f"{self.name}.{number}") if number > 0 else self._first_folder

    def _numbers(self) -> list[int]:
        """Numbers of the restarts that have been begun on this machine."""
        found = self._first_folder.parent.glob(f"{self.name}.*/shim.pid")
        return [int(path.parent.suffix[1:]) for path in found]


def _go_duration(seconds: float) -> str:
    """Write a duration as Go does: 10s, 1m20s, 500ms."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{minutes:.0f}m{rest:g}s" if minutes else f"{rest:g}s"
