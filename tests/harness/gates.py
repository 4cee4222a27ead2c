"""Gates: where a task of a DAG file can be held at one exact step, from outside.

A DAG file of a test calls ``install(folder)``. From then on the task's process looks, at each step of
``STEPS``, for a file ``<folder>/<run_id>/<step>.hold``. Where there is one, it writes its own pid and its
supervisor's to ``<step>.reached`` and waits until the hold is removed. A gate holds the first process that
comes to it and no later one. The product knows nothing of this: its functions are wrapped in the process of
that one task.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_gpu_placement.hooks.memory import TaskStateMemory
    from airflow_gpu_placement.model.attempt import TaskRecord

BEFORE_INTENT = "before-intent"
AFTER_INTENT = "after-intent"
AFTER_CREATE = "after-create"
BEFORE_DEFER = "before-defer"
AFTER_DEFER = "after-defer"
AFTER_EVENT = "after-event"
STEPS = (BEFORE_INTENT, AFTER_INTENT, AFTER_CREATE, BEFORE_DEFER, AFTER_DEFER, AFTER_EVENT)
#: Name of the file with the pids of the process that runs the task and of its supervisor.
PIDS = "pids"
#: A held process ends by itself in the end, should the test that holds it have died.
LONGEST_HOLD_SECONDS = 300.0
POLL_SECONDS = 0.05


def install(folder: str) -> None:
    """Put a gate at each step of the task that this process runs."""
    # The tests import this module for the names of the steps, and have no Airflow home.
    from airflow.sdk.execution_time import task_runner

    from airflow_gpu_placement.hooks.memory import TaskStateMemory
    from airflow_gpu_placement.launch import job
    from airflow_gpu_placement.operators.gpu_training import GpuTrainingJobOperator

    gates = _Gates(Path(folder))
    wrap(TaskStateMemory, "write", gates.around_write)
    wrap(job, "create", gates.around_create)
    wrap(GpuTrainingJobOperator, "execute", gates.around_execute)
    wrap(GpuTrainingJobOperator, "defer", gates.before(BEFORE_DEFER))
    wrap(GpuTrainingJobOperator, "execute_complete", gates.before(AFTER_EVENT))
    wrap(task_runner, "finalize", gates.around_finalize)


def wrap(owner: Any, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace a function of a class or a module by one around it."""
    setattr(owner, name, wrapper(getattr(owner, name)))


class _Gates:
    def __init__(self, root: Path) -> None:
        self._root = root

    def _folder(self) -> Path:
        return self._root / os.environ.get("AIRFLOW_CTX_DAG_RUN_ID", "")

    def hold(self, step: str) -> None:
        """Wait here while this run is to be held at this step."""
        folder = self._folder()
        gate, reached = folder / f"{step}.hold", folder / f"{step}.reached"
        if not gate.exists() or reached.exists():
            return
        _write_pids(reached)
        deadline = time.monotonic() + LONGEST_HOLD_SECONDS
        while gate.exists() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def before(self, step: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return what holds before a function."""

        def wrapper(function: Callable[..., Any]) -> Callable[..., Any]:
            def gated(*args: Any, **kwargs: Any) -> Any:
                self.hold(step)
                return function(*args, **kwargs)

            return gated

        return wrapper

    def around_execute(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Write down which process runs the task."""

        def gated(*args: Any, **kwargs: Any) -> Any:
            _write_pids(self._folder() / PIDS)
            return function(*args, **kwargs)

        return gated

    def around_write(self, function: Callable[..., None]) -> Callable[..., None]:
        """Hold on both sides of the write of an intent."""

        def gated(memory: TaskStateMemory, record: TaskRecord) -> None:
            is_intent = any(known.phase == "intent" for known in record.attempts)
            if is_intent:
                self.hold(BEFORE_INTENT)
            function(memory, record)
            if is_intent:
                self.hold(AFTER_INTENT)

        return gated

    def around_create(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Hold once a remote job is created."""

        async def gated(*args: Any, **kwargs: Any) -> Any:
            created = await function(*args, **kwargs)
            self.hold(AFTER_CREATE)
            return created

        return gated

    def around_finalize(self, function: Callable[..., None]) -> Callable[..., None]:
        """Hold once Airflow knows of the deferral, while the task's process is not over yet."""

        def gated(ti: Any, state: Any, *args: Any, **kwargs: Any) -> None:
            if state == "deferred":
                self.hold(AFTER_DEFER)
            function(ti, state, *args, **kwargs)

        return gated


def _write_pids(path: Path) -> None:
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(f"{os.getpid()} {os.getppid()}")
    partial.rename(path)
