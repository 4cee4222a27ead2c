"""Answers about what happened to a remote job, and what the next try does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_gpu_placement.engine.classify import classify, explained
from airflow_gpu_placement.engine.next_step import Prospects, next_step
from airflow_gpu_placement.engine.workload_evidence import QueueState, queue_state
from airflow_gpu_placement.model.outcome import NextAction, OutcomeKind
from tests.cases.adapters.answer import Answer, AnyOf
from tests.cases.adapters.causes import WORDS_OF_CAUSE
from tests.cases.adapters.reading import by_key, by_type
from tests.cases.adapters.remote_job import (
    log_of,
    logs_decide,
    loss_policy,
    observation,
)
from tests.cases.adapters.series import last_outcome

if TYPE_CHECKING:
    from airflow_gpu_placement.model.outcome import NextStep, Outcome
    from tests.cases.adapters.reading import Facts

TRIES_LEFT = 2
"""Nobody's last try: what follows is decided by what happened, not for want of tries."""

WORDS_OF_KIND: dict[OutcomeKind, AnyOf] = {
    OutcomeKind.SUCCEEDED: AnyOf(("success",)),
    OutcomeKind.RUNNING: AnyOf(("running",)),
    OutcomeKind.SUSPECTED: AnyOf(("running",)),
    OutcomeKind.INFRASTRUCTURE: AnyOf(("infra_loss",)),
    # The vocabulary has one word for both.
    OutcomeKind.QUEUE: AnyOf(("infra_loss",)),
    OutcomeKind.APPLICATION: AnyOf(("app_failure",)),
    OutcomeKind.CONFIGURATION: AnyOf(("config_error",)),
    # A deleted job proves neither a loss nor a fault; the vocabulary has no word of its own for it.
    OutcomeKind.CANCELLED: AnyOf(("cancelled", "unknown")),
    OutcomeKind.UNKNOWN: AnyOf(("unknown",)),
}

WORDS_OF_ACTION: dict[tuple[NextAction, bool], AnyOf] = {
    (NextAction.SUCCEED, False): AnyOf(("none", "done")),
    (NextAction.WAIT, False): AnyOf(("wait", "keep")),
    (NextAction.WAIT, True): AnyOf(("wait", "keep")),
    (NextAction.RETRY_ELSEWHERE, False): AnyOf(("replace",)),
    (NextAction.RETRY_ELSEWHERE, True): AnyOf(("withdraw_then_replace",)),
    (NextAction.FAIL, False): AnyOf(("fail",)),
    (NextAction.FAIL, True): AnyOf(("fail",)),
}

WORDS_OF_NEXT: dict[NextAction, AnyOf] = {
    NextAction.SUCCEED: AnyOf(("none", "done")),
    NextAction.WAIT: AnyOf(("wait",)),
    NextAction.RETRY_ELSEWHERE: AnyOf(("other_pool",)),
    NextAction.FAIL: AnyOf(("fail",)),
}

WORDS_OF_STATE: dict[QueueState, AnyOf] = {
    QueueState.QUEUED: AnyOf(("queued",)),
    QueueState.ADMITTED: AnyOf(("admitted", "stuck", "starting")),
    QueueState.RUNNING: AnyOf(("running",)),
    QueueState.EVICTED: AnyOf(("evicted", "requeued", "queued")),
    QueueState.INACTIVE: AnyOf(("inactive", "deactivated")),
    QueueState.FINISHED: AnyOf(("finished",)),
}

_NO = {True: False, False: True}


def outcome_of(facts: Facts) -> Outcome:
    """Classify what a case describes; a series is followed to its last look."""
    outcome: Outcome = by_key(
        facts,
        {"observations": lambda looks: last_outcome(facts, looks)},
        otherwise=lambda: _one_look(facts),
    )
    return outcome


def _one_look(facts: Facts) -> Outcome:
    seen, decide = observation(facts), logs_decide(facts)
    outcome = classify(seen, loss_policy(facts), logs_decide=decide)
    return explained(outcome, seen, log_of(facts, outcome.pod), logs_decide=decide)


def step_of(facts: Facts) -> NextStep:
    """Decide what follows."""
    return next_step(outcome_of(facts), tries_left=TRIES_LEFT, prospects=Prospects())


def _words_of_cause(cause: str) -> AnyOf:
    """Return the words for a cause; a reason of the cluster's own that is not known here is its own word."""
    return WORDS_OF_CAUSE.get(cause, AnyOf((cause,)))


def _final(outcome: Outcome, expected: Any) -> Any:
    """Return the kind of the end, or whether it is one."""
    return by_type(expected, {bool: lambda _: outcome.final, object: lambda _: WORDS_OF_KIND[outcome.kind]})


def _state(facts: Facts, _: Any) -> AnyOf:
    seen: Any = observation(facts)
    return WORDS_OF_STATE[queue_state(seen.workload, suspended=seen.job.spec.suspend)]


def _excluded(facts: Facts, _: Any) -> dict[str, Any]:
    step = step_of(facts)
    return {
        "arch": step.exclude_architecture,
        "pool": step.exclude_pool,
        "node": AnyOf(step.avoid_nodes),
    }


def _words(facts: Facts, _: Any) -> str:
    outcome = outcome_of(facts)
    return " ".join((outcome.cause, outcome.message, outcome.warning, outcome.hint))


def _said_quietly(facts: Facts, _: Any) -> dict[str, Any]:
    outcome = outcome_of(facts)
    return {"kind": WORDS_OF_KIND[outcome.kind], "warning": outcome.warning}


ANSWERS: dict[str, Answer] = {
    "class": lambda facts, _: WORDS_OF_KIND[outcome_of(facts).kind],
    "final": lambda facts, expected: _final(outcome_of(facts), expected),
    "cause": lambda facts, _: _words_of_cause(outcome_of(facts).cause),
    "root": lambda facts, _: outcome_of(facts).pod,
    "exit_code": lambda facts, _: outcome_of(facts).exit_code,
    "never_started": lambda facts, _: outcome_of(facts).never_started,
    "warn_possible_survivor": lambda facts, _: outcome_of(facts).may_still_run,
    "flag_ambiguous": lambda facts, _: outcome_of(facts).ambiguous,
    "warning": lambda facts, _: outcome_of(facts).warning,
    "hint_shown": lambda facts, _: outcome_of(facts).hint,
    "silent_success": _said_quietly,
    "success": lambda facts, _: {OutcomeKind.SUCCEEDED: True}.get(outcome_of(facts).kind, False),
    "hang": lambda facts, _: _NO[outcome_of(facts).final],
    "next": lambda facts, _: WORDS_OF_NEXT[step_of(facts).action],
    "action": lambda facts, _: WORDS_OF_ACTION[step_of(facts).action, step_of(facts).withdraw_first],
    "running_job_action": lambda facts, _: WORDS_OF_ACTION[
        step_of(facts).action, step_of(facts).withdraw_first
    ],
    "must_withdraw_before_replace": lambda facts, _: step_of(facts).withdraw_first,
    "exclude_next": _excluded,
    "avoid_node": lambda facts, _: AnyOf(step_of(facts).avoid_nodes),
    "auto_replace_default": lambda facts, _: step_of(facts).rerun,
    "auto_replace_without_evidence": lambda facts, _: step_of(facts).rerun,
    "rerun": lambda facts, _: step_of(facts).rerun,
    "replaced": lambda facts, _: step_of(facts).rerun,
    "state": _state,
    "reason_mentions": _words,
    "must_not_say": _words,
}
"""Key of ``expect`` -> answer about a remote job."""
