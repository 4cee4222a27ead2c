"""Why not here, and what would have to be different: all failing requirements of a refused pool, cleared.

Computed on demand from a decision record. Applying the whole list makes the pool fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from airflow_gpu_placement.engine.change_words import ChangeWords
from airflow_gpu_placement.engine.claims import claims_on
from airflow_gpu_placement.engine.clearing import edits
from airflow_gpu_placement.engine.history import excluded_nodes
from airflow_gpu_placement.engine.place import judge, place, views_of
from airflow_gpu_placement.engine.pointers import pointer, segments
from airflow_gpu_placement.engine.question import Question
from airflow_gpu_placement.model.counterfactual import Change, Requirement
from airflow_gpu_placement.model.decision import Decision, History, Setting
from airflow_gpu_placement.model.pool import GpuPool
from airflow_gpu_placement.model.request import GpuRequest
from airflow_gpu_placement.model.signals import Claim, PoolSignals, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from airflow_gpu_placement.engine.view import PoolView
    from airflow_gpu_placement.model.reasons import Reason

_MOST_CHANGES = 100


class _World(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the verdict on one pool depends on."""

    request: dict[str, Any]
    pool: GpuPool
    signals: PoolSignals | None
    history: History
    setting: Setting
    claims: tuple[Claim, ...]

    def snapshot(self, taken_at: datetime) -> Snapshot:
        """Return the signals of this pool alone."""
        seen = {} if self.signals is None else {self.pool.name: self.signals}
        return Snapshot(taken_at=taken_at, pools=seen, claims=self.claims)

    def view(self, now: datetime) -> PoolView:
        """Look at the pool through the request."""
        question = Question(GpuRequest.model_validate(self.request), self.setting, self.history, now)
        (view,) = views_of(question, (self.pool,), self.snapshot(now))
        return view


def counterfactual(decision: Decision, pool_name: str) -> tuple[Requirement, ...]:
    """List every requirement that a pool fails, each with the changes that clear it.

    :return: nothing for a pool that fits.
    """
    world = _world(decision, pool_name)
    now = decision.decided_at
    (verdict,) = [one for one in decision.verdicts if one.pool == pool_name]
    found: list[Requirement] = []
    for reason in verdict.reasons:
        changes, world = _clear(reason, world, now)
        found.append(_requirement(reason, changes, follows=False))
    for _ in range(_MOST_CHANGES):
        left = judge(world.view(now)).reasons
        if not left:
            return tuple(found)
        changes, world = _clear(left[0], world, now)
        found.append(_requirement(left[0], changes, follows=True))
    raise RuntimeError(f"pool {pool_name} does not fit after {_MOST_CHANGES} changes: {found[-1]}")


def apply_all(decision: Decision, pool_name: str, requirements: Iterable[Requirement]) -> Decision:
    """Decide again about one pool alone, with all changes made."""
    changes = [change for requirement in requirements for change in requirement.changes]
    world = _changed(_world(decision, pool_name), [(segments(one.path), one.after) for one in changes])
    return place(
        GpuRequest.model_validate(world.request),
        (world.pool,),
        world.snapshot(decision.decided_at),
        world.history,
        world.setting,
        now=decision.decided_at,
        subject=decision.subject,
        catalog_hash=decision.catalog_hash,
    )


def why_not(decision: Decision, pool_name: str) -> str:
    """Tell the counterfactual of a pool as text."""
    requirements = counterfactual(decision, pool_name)
    if not requirements:
        return f"{pool_name} fits {decision.subject}"
    words = ChangeWords(decision.snapshot.pools.get(pool_name))
    rows = [f"{pool_name} would fit {decision.subject} with all of these:"]
    for one in requirements:
        also = " (then)" if one.follows else ""
        rows.append(f"  {one.code}{also}: needed {one.needed}, observed {one.observed}")
        rows += [f"    {row}" for row in words.rows(one.changes)]
        if not one.changes:
            rows.append("    cleared by the changes above")
    return "\n".join(rows)


def _requirement(reason: Reason, changes: tuple[Change, ...], *, follows: bool) -> Requirement:
    return Requirement(
        code=reason.code,
        needed=reason.needed,
        observed=reason.observed,
        changes=changes,
        follows=follows,
    )


def _clear(reason: Reason, world: _World, now: datetime) -> tuple[tuple[Change, ...], _World]:
    """Change the world until it no longer has this reason."""
    changes: list[Change] = []
    for _ in range(_MOST_CHANGES):
        view = world.view(now)
        if all(one.code is not reason.code for one in judge(view).reasons):
            return tuple(changes), world
        before = _document(world)
        made = edits(reason.code, view)
        changes += [
            Change(path=pointer(path), before=_value(before, path), after=value)
            for path, value in made
            if _value(before, path) != value
        ]
        world = _changed(world, made)
    raise RuntimeError(f"{reason.code} of pool {world.pool.name} stays after {_MOST_CHANGES} changes")


def _world(decision: Decision, pool_name: str) -> _World:
    (pool,) = [one for one in decision.pools if one.name == pool_name]
    lost = excluded_nodes(decision.pools, decision.history, decision.snapshot)[pool_name]
    history = msgspec.structs.replace(
        decision.history,
        lost_nodes={pool_name: tuple(sorted(lost))} if lost else {},
        lost_boots={},
        lost_in={},
    )
    return _World(
        request=decision.request,
        pool=pool,
        signals=decision.snapshot.pools.get(pool_name),
        history=history,
        setting=decision.setting,
        claims=claims_on(pool, decision.pools, decision.snapshot),
    )


def _document(world: _World) -> dict[str, Any]:
    document: dict[str, Any] = _lists(msgspec.to_builtins(world))
    return document


def _lists(value: Any) -> Any:
    """Make every tuple a list, so that values can be written into them."""
    if isinstance(value, dict):
        return {key: _lists(inner) for key, inner in value.items()}
    return [_lists(inner) for inner in value] if isinstance(value, list | tuple) else value


def _changed(world: _World, made: Iterable[tuple[tuple[str | int, ...], Any]]) -> _World:
    document = _document(world)
    for path, value in made:
        inside: Any = document
        for segment in path[:-1]:
            inside = inside[int(segment)] if isinstance(inside, list) else inside.setdefault(segment, {})
        inside[path[-1]] = value
    return msgspec.convert(document, _World)


def _value(document: dict[str, Any], path: tuple[str | int, ...]) -> Any:
    value: Any = document
    for segment in path:
        if isinstance(value, list):
            value = value[int(segment)]
        elif value is not None:
            value = value.get(segment)
    return value
