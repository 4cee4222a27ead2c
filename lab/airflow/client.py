"""A small client of Airflow's public REST API, for tests."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, TypeVar

import httpx

from lab.airflow.records import (
    TERMINAL_RUN_STATES,
    TERMINAL_TASK_STATES,
    DagImportError,
    ImportErrorRecord,
    TaskInstance,
    WaitTimeout,
    log_text,
)
from lab.airflow.rest import ApiError, RestSession

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

T = TypeVar("T")
POLL_SECONDS = 0.5
LOG_TAIL_LINES = 60
#: Task instances in these states hold, or will soon hold, something on a cluster.
UNFINISHED_STATES = (
    "scheduled",
    "queued",
    "running",
    "deferred",
    "restarting",
    "up_for_retry",
    "up_for_reschedule",
)


class AirflowClient(RestSession):
    """The REST API as one user, with typed answers and with waiting.

    Waiting methods print nothing. When they fail, the exception has the last state, the end of the task's log
    and what ``explain`` returns. ``check`` is called at each poll and raises when waiting is pointless.
    """

    def __init__(
        self,
        base_url: str,
        username: str,
        password: str,
        *,
        check: Callable[[], None] = lambda: None,
        explain: Callable[[], str] = lambda: "",
    ) -> None:
        self.check = check
        self.explain = explain
        super().__init__(base_url, username, password)

    # --- DAGs and runs -------------------------------------------------------------------------------------

    def import_errors(self) -> list[ImportErrorRecord]:
        """Return the DAG files that could not be imported."""
        found = self.get("/importErrors", limit=1000)["import_errors"]
        return [
            ImportErrorRecord(
                id=error["import_error_id"],
                timestamp=error["timestamp"],
                filename=error["filename"],
                stack_trace=error["stack_trace"],
            )
            for error in found
        ]

    def wait_dag_parsed(
        self, dag_id: str, *, file_name: str | None = None, timeout_seconds: float = 90
    ) -> None:
        """Wait until a DAG is known. An import error of ``file_name`` (or ``<dag_id>.py``) fails at once."""
        file_name = file_name or f"{dag_id}.py"

        def parsed() -> bool:
            for error in self.import_errors():
                if error.filename.endswith(file_name):
                    raise DagImportError(error)
            return any(dag["dag_id"] == dag_id for dag in self.get("/dags", dag_id_pattern=dag_id)["dags"])

        self._wait(parsed, bool, timeout_seconds, f"DAG {dag_id} to be parsed", tail=str)

    def trigger(
        self, dag_id: str, conf: Mapping[str, Any] | None = None, *, run_id: str | None = None
    ) -> str:
        """Start a run of a DAG; return its run id."""
        body = {"logical_date": None, "conf": dict(conf or {}), **({"dag_run_id": run_id} if run_id else {})}
        created: str = self.call("POST", f"/dags/{dag_id}/dagRuns", json=body)["dag_run_id"]
        return created

    def run_state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a DAG run."""
        state: str = self.get(f"/dags/{dag_id}/dagRuns/{run_id}")["state"]
        return state

    def wait_run_state(
        self, dag_id: str, run_id: str, states: Collection[str] | str, timeout_seconds: float = 120
    ) -> str:
        """Wait until a DAG run is in one of ``states``; another final state fails at once."""
        wanted = _as_set(states)

        def done(state: str) -> bool:
            return state in wanted or state in TERMINAL_RUN_STATES

        what = f"run {run_id} of {dag_id} to become {' or '.join(sorted(wanted))}"
        state = self._wait(
            lambda: self.run_state(dag_id, run_id),
            done,
            timeout_seconds,
            what,
            lambda _: self._run_tail(dag_id, run_id),
        )
        if state not in wanted:
            raise self._failure(f"{what}, but it ended as {state}", self._run_tail(dag_id, run_id))
        return state

    # --- task instances ------------------------------------------------------------------------------------

    def task_instance(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> TaskInstance:
        """Return one task instance in its current try."""
        return TaskInstance.from_json(self.get(_task_path(dag_id, run_id, task_id, map_index)))

    def task_instances(self, dag_id: str, run_id: str) -> list[TaskInstance]:
        """Return all task instances of a run, mapped ones included."""
        return self._listed(f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances", limit=1000)

    def unfinished_task_instances(self, dag_ids: Iterable[str] | None = None) -> list[TaskInstance]:
        """Return the task instances, of all runs, that are running, deferred or about to run."""
        found = self._listed("/dags/~/dagRuns/~/taskInstances", state=list(UNFINISHED_STATES), limit=1000)
        wanted = None if dag_ids is None else set(dag_ids)
        return [instance for instance in found if wanted is None or instance.dag_id in wanted]

    def tries(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> list[TaskInstance]:
        """Return every try of a task instance, the first one first."""
        path = _task_path(dag_id, run_id, task_id, map_index)
        return sorted(self._listed(f"{path}/tries"), key=lambda instance: instance.try_number)

    def _listed(self, path: str, **params: Any) -> list[TaskInstance]:
        return [TaskInstance.from_json(entry) for entry in self.get(path, **params)["task_instances"]]

    def wait_task_state(
        self,
        dag_id: str,
        run_id: str,
        task_id: str,
        states: Collection[str] | str,
        timeout_seconds: float = 120,
        *,
        map_index: int = -1,
        try_number: int | None = None,
    ) -> TaskInstance:
        """Wait until a task instance is in one of ``states``, in try ``try_number`` when that is given.

        Another final state fails at once when the DAG run has ended too, so that nothing can change it.
        """
        wanted = _as_set(states)

        def reached(instance: TaskInstance) -> bool:
            return instance.state in wanted and try_number in (None, instance.try_number)

        def done(instance: TaskInstance) -> bool:
            return reached(instance) or (
                instance.state in TERMINAL_TASK_STATES
                and self.run_state(dag_id, run_id) in TERMINAL_RUN_STATES
            )

        in_try = "" if try_number is None else f" in try {try_number}"
        what = (
            f"task {dag_id}.{task_id} (map index {map_index}) to become {' or '.join(sorted(wanted))}{in_try}"
        )
        instance = self._wait(
            lambda: self.task_instance(dag_id, run_id, task_id, map_index),
            done,
            timeout_seconds,
            what,
            self._task_tail,
        )
        if not reached(instance):
            ended = f"{instance.state} in try {instance.try_number}"
            raise self._failure(f"{what}, but it ended as {ended}", self._task_tail(instance))
        return instance

    def task_log(self, dag_id: str, run_id: str, task_id: str, try_number: int, map_index: int = -1) -> str:
        """Return the whole log of one try: worker and trigger, as it is so far."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}"
        answer = self.call(
            "GET",
            path,
            params={"map_index": map_index, "full_content": True},
            headers={"Accept": "application/json"},
        )
        return log_text(answer["content"])

    def xcom(
        self, dag_id: str, run_id: str, task_id: str, key: str = "return_value", map_index: int = -1
    ) -> Any:
        """Return the value of an XCom; ``ApiError`` with status 404 where there is none."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        return self.get(path, map_index=map_index, deserialize=True)["value"]

    def task_store(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> dict[str, Any]:
        """Return all entries of a task instance's state store."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/state-store"
        entries = self.get(path, map_index=map_index, limit=1000)["task_state_store"]
        return {entry["key"]: entry["value"] for entry in entries}

    def set_task_state(self, dag_id: str, run_id: str, task_id: str, state: str, map_index: int = -1) -> None:
        """Mark a task instance as ``success``, ``failed`` or ``skipped``, as a person does in the UI."""
        self.call("PATCH", _task_path(dag_id, run_id, task_id, map_index), json={"new_state": state})

    def clear(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> None:
        """Clear a task instance in whatever state it is, so that it runs again."""
        target = task_id if map_index < 0 else [task_id, map_index]
        body = {"dry_run": False, "only_failed": False, "dag_run_id": run_id, "task_ids": [target]}
        self.call("POST", f"/dags/{dag_id}/clearTaskInstances", json=body)

    def delete_task(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Delete a task instance; a run that goes on makes a new one, which begins with its first try."""
        self.call("DELETE", _task_path(dag_id, run_id, task_id, -1))

    def set_run_state(self, dag_id: str, run_id: str, state: str) -> None:
        """Mark a whole run as ``success`` or ``failed``, its unfinished tasks too."""
        self.call("PATCH", f"/dags/{dag_id}/dagRuns/{run_id}", json={"state": state})

    def delete_run(self, dag_id: str, run_id: str) -> None:
        """Delete a run, which must have ended, with all its task instances."""
        self.call("DELETE", f"/dags/{dag_id}/dagRuns/{run_id}")

    # --- waiting -------------------------------------------------------------------------------------------

    def _wait(
        self,
        read: Callable[[], T],
        done: Callable[[T], bool],
        timeout_seconds: float,
        what: str,
        tail: Callable[[T], str],
    ) -> T:
        deadline = time.monotonic() + timeout_seconds
        last: T | None = None
        problem = ""
        while True:
            try:
                last, problem = read(), ""
                if done(last):
                    return last
            except httpx.TransportError as error:  # a server on its way down or up
                problem = f"; last request failed: {type(error).__name__} {error}"
            self.check()
            if time.monotonic() > deadline:
                text = "" if last is None else tail(last)
                raise self._failure(f"{what} within {timeout_seconds:g} s; last seen: {last}{problem}", text)
            time.sleep(POLL_SECONDS)

    def _failure(self, what: str, tail: str) -> WaitTimeout:
        return WaitTimeout(f"waited for {what}\n{tail}\n{self.explain()}")

    def _task_tail(self, instance: TaskInstance) -> str:
        try:
            text = self.task_log(
                instance.dag_id, instance.run_id, instance.task_id, instance.try_number, instance.map_index
            )
        except (ApiError, httpx.TransportError) as error:
            text = f"(the log cannot be read: {error})"
        lines = "\n".join(text.splitlines()[-LOG_TAIL_LINES:])
        return f"--- end of the log of {instance.label}, try {instance.try_number}, {instance.state}\n{lines}"

    def _run_tail(self, dag_id: str, run_id: str) -> str:
        try:
            instances = self.task_instances(dag_id, run_id)
        except (ApiError, httpx.TransportError) as error:
            return f"(the task instances cannot be read: {error})"
        states = json.dumps({instance.label: instance.state for instance in instances})
        tails = [self._task_tail(instance) for instance in instances if instance.state != "success"]
        return "\n".join([f"--- task instances: {states}", *tails])


def _task_path(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
    return path if map_index < 0 else f"{path}/{map_index}"


def _as_set(states: Collection[str] | str) -> frozenset[str]:
    return frozenset([states]) if isinstance(states, str) else frozenset(states)
