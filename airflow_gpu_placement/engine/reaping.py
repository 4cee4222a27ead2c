"""Whether a remote job that is found on a cluster is still wanted: one rule, pure.

Everything that is not certain keeps the job. Several Airflow installations may share a cluster and even run
the same DAG at the same hours, so that a run of the same name proves nothing: a job is ours when it has the
label of this installation, or when its attempt is known here by its id.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Verdict(StrEnum):
    """What is to become of a remote job."""

    REAP = "reap"
    KEEP = "keep"
    UNKNOWN = "unknown here"


class Finding(StrEnum):
    """Why."""

    TASK_ENDED = "task ended"
    SUPERSEDED = "superseded"
    TASK_GONE = "task gone"
    RUN_GONE = "run gone"
    ALIVE = "alive"
    YOUNG = "young"
    ENDED = "ended"
    LEAVING = "leaving"
    NO_IDENTITY = "no identity"
    OTHER_INSTALLATION = "other installation"


class Remains(msgspec.Struct, frozen=True, kw_only=True):
    """A remote job as it is on its cluster.

    :param attempt_id: of the identity that it carries; ``None``: there is none that can be read.
    :param installation: label of the Airflow that launched it; ``None``: it has none.
    :param ended: the job has succeeded or failed and no pod of it may run.
    :param leaving: its deletion was asked for already.
    :param moved: the same attempt has launched another job since, which it does only when it gives one up.
    """

    attempt_id: str | None
    installation: str | None = None
    age_seconds: float
    ended: bool = False
    leaving: bool = False
    moved: bool = False


class TaskNow(msgspec.Struct, frozen=True, kw_only=True):
    """What Airflow knows now of the task that the job names.

    :param run_exists: there is a DAG run of that name; it may still be another installation's.
    :param exists: so does the task instance.
    :param attempt_id: the task instance's own id now; ``None``: whoever asks cannot see it.
    :param attempts: ids of all its attempts that are known.
    :param over: the task instance is in a state that it will not leave by itself.
    :param state: for people.
    """

    run_exists: bool
    exists: bool = False
    attempt_id: str | None = None
    attempts: frozenset[str] = frozenset()
    over: bool = False
    state: str | None = None


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """How far the reaper may go.

    :param min_age_seconds: younger jobs are left alone: their launch may not be written down yet.
    :param installation: label of this installation; ``None``: it has no name.
    :param unknown_runs: also reap what nothing here proves to be ours.
    """

    min_age_seconds: float
    installation: str | None = None
    unknown_runs: bool = False


def judge(found: Remains, now: TaskNow, rules: Rules) -> tuple[Verdict, Finding]:
    """Decide on one remote job."""
    kept = _kept(found, now, rules)
    if kept is not None:
        return Verdict.KEEP, kept
    if not now.run_exists:
        why = Finding.RUN_GONE
    elif not now.exists:
        why = Finding.TASK_GONE
    else:
        why = Finding.TASK_ENDED if _is_current(found, now) else Finding.SUPERSEDED
    named = rules.installation is not None and found.installation == rules.installation
    ours = named or found.attempt_id in now.attempts
    return Verdict.REAP if ours or rules.unknown_runs else Verdict.UNKNOWN, why


def _kept(found: Remains, now: TaskNow, rules: Rules) -> Finding | None:
    """Name what speaks for the job, whosoever it is; ``None``: nothing does."""
    foreign = found.installation is not None and found.installation != rules.installation
    alive = now.exists and not now.over and _is_current(found, now)
    grounds = (
        (found.attempt_id is None, Finding.NO_IDENTITY),
        (foreign, Finding.OTHER_INSTALLATION),
        (found.ended, Finding.ENDED),
        (alive, Finding.ALIVE),
        (found.leaving, Finding.LEAVING),
        (found.age_seconds < rules.min_age_seconds, Finding.YOUNG),
    )
    return next((why for holds, why in grounds if holds), None)


def _is_current(found: Remains, now: TaskNow) -> bool:
    return not found.moved and (now.attempt_id is None or now.attempt_id == found.attempt_id)
