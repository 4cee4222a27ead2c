"""Which remote jobs the reaper takes: every row of the rule."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_gpu_placement.engine.reaping import Finding, Remains, Rules, TaskNow, Verdict, judge

OLD, NEW, FOREIGN = "attempt-1", "attempt-2", "attempt-of-another-airflow"
RUNNING = TaskNow(run_exists=True, exists=True, attempt_id=OLD, attempts=frozenset({OLD}), state="deferred")
ENDED = TaskNow(
    run_exists=True, exists=True, attempt_id=OLD, attempts=frozenset({OLD}), over=True, state="failed"
)
NEXT_TRY = TaskNow(
    run_exists=True, exists=True, attempt_id=NEW, attempts=frozenset({OLD, NEW}), state="running"
)
DELETED = TaskNow(run_exists=True, attempts=frozenset({OLD}))
RUN_DELETED = TaskNow(run_exists=False)
SEEN_BY_A_TASK = TaskNow(run_exists=True, exists=True, attempts=frozenset({OLD}), over=True, state="failed")
ALIVE_BY_A_TASK = TaskNow(run_exists=True, exists=True, attempts=frozenset({NEW}), state="deferred")
RULES = Rules(min_age_seconds=600.0)
NAMED = Rules(min_age_seconds=600.0, installation="prod")


def remains(attempt_id: str | None = OLD, **changes: Any) -> Remains:
    """Return a job of an hour ago that still runs."""
    return Remains(**{"attempt_id": attempt_id, "age_seconds": 3600.0, **changes})


@pytest.mark.parametrize(
    ("found", "now", "rules", "want"),
    [
        pytest.param(remains(), RUNNING, RULES, ("keep", "alive"), id="its task waits for it"),
        pytest.param(remains(), ENDED, RULES, ("reap", "task ended"), id="its task has ended in this try"),
        pytest.param(remains(), NEXT_TRY, RULES, ("reap", "superseded"), id="its task is in another try"),
        pytest.param(remains(NEW), NEXT_TRY, RULES, ("keep", "alive"), id="the job of that other try"),
        pytest.param(
            remains(moved=True), RUNNING, RULES, ("reap", "superseded"), id="given up within its try"
        ),
        pytest.param(
            remains(moved=True),
            ALIVE_BY_A_TASK,
            RULES,
            ("unknown here", "superseded"),
            id="not known as ours",
        ),
        pytest.param(remains(), DELETED, RULES, ("reap", "task gone"), id="deleted, with its history left"),
        pytest.param(
            remains(FOREIGN), DELETED, RULES, ("unknown here", "task gone"), id="deleted, and id not known"
        ),
        pytest.param(remains(), RUN_DELETED, RULES, ("unknown here", "run gone"), id="no such run here"),
        pytest.param(
            remains(FOREIGN),
            ENDED,
            RULES,
            ("unknown here", "superseded"),
            id="a run of the same name has ended here, but the job is another Airflow's",
        ),
        pytest.param(
            remains(FOREIGN), RUNNING, RULES, ("unknown here", "superseded"), id="the same while ours runs"
        ),
        pytest.param(remains(age_seconds=599.0), ENDED, RULES, ("keep", "young"), id="just launched"),
        pytest.param(remains(age_seconds=600.0), ENDED, RULES, ("reap", "task ended"), id="old enough"),
        pytest.param(remains(ended=True), ENDED, RULES, ("keep", "ended"), id="a job that has ended"),
        pytest.param(remains(leaving=True), ENDED, RULES, ("keep", "leaving"), id="deleted already"),
        pytest.param(
            remains(leaving=True), RUNNING, RULES, ("keep", "alive"), id="deleted, and its task waits still"
        ),
        pytest.param(remains(None), RUN_DELETED, RULES, ("keep", "no identity"), id="no identity"),
        pytest.param(
            remains(installation="prod"), RUN_DELETED, NAMED, ("reap", "run gone"), id="of our name, run gone"
        ),
        pytest.param(
            remains(FOREIGN, installation="prod"), ENDED, NAMED, ("reap", "superseded"), id="of our name"
        ),
        pytest.param(
            remains(installation="prod"), RUNNING, NAMED, ("keep", "alive"), id="of our name and waited for"
        ),
        pytest.param(
            remains(installation="staging"),
            RUN_DELETED,
            NAMED,
            ("keep", "other installation"),
            id="of another name",
        ),
        pytest.param(
            remains(installation="staging"),
            ENDED,
            RULES,
            ("keep", "other installation"),
            id="of another name, while ours has none",
        ),
        pytest.param(
            remains(),
            RUN_DELETED,
            NAMED,
            ("unknown here", "run gone"),
            id="without a name, while ours has one",
        ),
        pytest.param(remains(), SEEN_BY_A_TASK, RULES, ("reap", "task ended"), id="seen by a task: ended"),
        pytest.param(
            remains(), ALIVE_BY_A_TASK, RULES, ("keep", "alive"), id="seen by a task: some try is alive"
        ),
    ],
)
def test_each_row_of_the_rule(found: Remains, now: TaskNow, rules: Rules, want: tuple[str, str]) -> None:
    """One job, what Airflow says of its task, and what follows."""
    assert judge(found, now, rules) == (Verdict(want[0]), Finding(want[1]))


@pytest.mark.parametrize("now", [RUN_DELETED, DELETED, ENDED, RUNNING], ids=lambda now: now.state or "gone")
def test_a_person_may_say_that_nobody_else_uses_the_clusters(now: TaskNow) -> None:
    """Then what is unknown here is taken, and never what another name or a live try speaks for."""
    rules = Rules(min_age_seconds=600.0, unknown_runs=True)
    assert judge(remains(FOREIGN), now, rules)[0] is Verdict.REAP
    assert judge(remains(FOREIGN, installation="staging"), now, rules)[0] is Verdict.KEEP
    assert judge(remains(FOREIGN, age_seconds=1.0), now, rules)[0] is Verdict.KEEP
    assert judge(remains(), RUNNING, rules) == (Verdict.KEEP, Finding.ALIVE)
