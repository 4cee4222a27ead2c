"""Remote jobs that end by themselves, by a person's hand, or never get their image."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.side_by_side import params
from tests.system.outcome_fleet import REFUGE, pool
from tests.system.outcome_ground import Case, Launch, ends, exits, launches, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.harness.side_by_side import Plays, Scenario
    from tests.system.outcome_ground import Stage

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

#: Exit code -> the cause by which it is remembered, and words of the error.
CODES: Mapping[int, tuple[str, str]] = {
    1: ("Error", "exited with code 1"),
    137: ("Killed", "SIGKILL"),
    139: ("Error", "SIGSEGV"),
    143: ("Terminated", "SIGTERM"),
}
CALM = pool("calm", 1.0)
HERE_OR_THERE = (CALM, REFUGE)
DENIED_HERE = (CALM, pool("dark-3", 2.0))
#: The registries of the lab answer by the first label of their name.
ABSENT, PRIVATE, FORBIDDEN = (
    "registry.invalid/none:1",
    "private.registry.invalid/train:1",
    "forbidden.registry.invalid/train:1",
)


def by_code(stage: Stage, case: Scenario[Stage]) -> None:
    """Let the program end with an exit code: the code is at fault, and no try is burnt on it."""
    code = int(case.id.rpartition(".")[2])
    cause, words = CODES[code]
    run = stage.start(case)
    run.wait_jobs(1)
    exits(run, code)
    ends(run, "failed", try_number=1)
    assert launches(run) == [Launch("calm", "application", cause)]
    error = error_of(run.log(1), "TrainingFailed")
    assert words in error, error
    assert len(run.jobs) == 1


def nul_byte(stage: Stage, case: Scenario[Stage]) -> None:
    """Let the last line of the program have a byte that the database takes in no text."""
    run = stage.start(case)
    ends(run, "failed", try_number=1)
    assert launches(run) == [Launch("calm", "application", "Error")]
    error = error_of(run.log(1), "TrainingFailed")
    assert "batch \N{REPLACEMENT CHARACTER}42 is broken" in error, error
    assert run.ground.airflow.status()["triggerer"].exit_code is None


def out_of_memory(stage: Stage, case: Scenario[Stage]) -> None:
    """Let the program run into its own memory limit."""
    run = stage.start(case)
    run.wait_jobs(1)
    (run.folder / "memory-1").touch()
    ends(run, "failed", try_number=1)
    assert launches(run) == [Launch("calm", "application", "OOMKilled")]
    assert "memory limit of 64Mi" in error_of(run.log(1), "TrainingFailed")
    assert len(run.jobs) == 1


def deleted(stage: Stage, case: Scenario[Stage]) -> None:
    """Delete the Job as a person does with kubectl."""
    run = stage.start(case)
    watched(run)
    api = stage.lab.cluster("main").api
    job = run.jobs[0].name
    api.delete(f"/apis/batch/v1/namespaces/training/jobs/{job}", {"propagationPolicy": "Background"})
    ends(run, "failed", try_number=1)
    ((where, outcome, _),) = launches(run)
    assert (where, outcome) == ("calm", "cancelled")
    assert job in error_of(run.log(1), "RemoteJobCancelled")
    assert len(run.jobs) == 1


def image_not_found(stage: Stage, case: Scenario[Stage]) -> None:
    """Ask for an image that no registry has: no other pool is tried."""
    run = stage.start(case)
    ends(run, "failed", try_number=1)
    assert launches(run) == [Launch("calm", "configuration", "ImageNotFound")]
    assert ABSENT in error_of(run.log(1), "RemoteJobMisconfigured")
    assert len(run.jobs) == 1


def denied_once(stage: Stage, case: Scenario[Stage]) -> None:
    """Ask for an image that one cluster may not pull and another has."""
    run = stage.start(case)
    watched(run, 2)
    run.finish()
    ends(run, "success", try_number=2)
    assert launches(run) == [
        Launch("calm", "configuration", "ImagePullDenied"),
        Launch("dark-3", "succeeded", "Complete"),
    ]
    assert "401 Unauthorized" in error_of(run.log(1), "RemoteJobMisconfigured")


def denied_twice(stage: Stage, case: Scenario[Stage]) -> None:
    """Ask for an image that no cluster may pull: after the second one it is given up."""
    run = stage.start(case)
    ends(run, "failed", try_number=2)
    assert launches(run) == [
        Launch("calm", "configuration", "ImagePullDenied"),
        Launch("dark-3", "configuration", "ImagePullDenied"),
    ]
    assert "missing everywhere" in run.log(2)
    assert "403 Forbidden" in error_of(run.log(2), "RemoteJobMisconfigured")


def error_of(log: str, error: str) -> str:
    """Return a task's log from its typed error on."""
    found = re.search(rf"\b{error}\b", log)
    assert found is not None, f"no {error} in the log:\n{log}"
    return log[found.start() :]


def _case(name: str, title: str, play: Any, **more: Any) -> Case:
    return Case(id=name, title=title, play=play, **{"pools": HERE_OR_THERE, **more})


CASES = [
    *(
        _case(f"OUT-EXIT.{code}", f"exit code {code}: the task fails now, in one try with one job", by_code)
        for code in CODES
    ),
    _case(
        "OUT-EXIT.MEMORY",
        "OOM at its own limit: the task fails now, and the limit is named",
        out_of_memory,
        operator={"pod_resources": {"memory": "64Mi"}},
    ),
    _case(
        "OUT-END.NUL",
        "a NUL byte in the last line of a failing training: TrainingFailed, the triggerer lives on",
        nul_byte,
        operator={"arguments": ["-c", r"echo begin; sleep 1; printf 'batch \00042 is broken\n'; exit 3"]},
    ),
    _case("OUT-DELETED", "a person deletes the Job: cancelled, the task fails now", deleted),
    _case(
        "OUT-IMAGE.NOT-FOUND",
        "no registry has the image: the task fails now, one job, no tour of the pools",
        image_not_found,
        operator={"image": ABSENT},
    ),
    _case(
        "OUT-IMAGE.DENIED-ONCE",
        "one cluster may not pull the image: success in another cluster",
        denied_once,
        operator={"image": PRIVATE},
        pools=DENIED_HERE,
    ),
    _case(
        "OUT-IMAGE.DENIED-TWICE",
        "two clusters may not pull the image: the task fails",
        denied_twice,
        operator={"image": FORBIDDEN},
        pools=DENIED_HERE,
    ),
]


@pytest.mark.parametrize("scenario", params(CASES))
@pytest.mark.usefixtures("airflow")
def test_end(
    outcome_plays: Plays[Stage], scenario: Scenario[Stage], record_property: Callable[[str, object], None]
) -> None:
    """The case's title says what must be true at its end."""
    outcome_plays.judge(scenario, record_property)
