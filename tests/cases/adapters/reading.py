"""How an adapter tells the notations of the vocabulary apart: by keys and by types, never by values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Facts = Mapping[str, Any]
"""The ``input`` of a case, or of one variant of it."""

NOT_FOUND = 404
"""What the vocabulary writes for an object that the API does not know."""

RAW_KEYS = frozenset({"metadata", "spec", "status"})


class UnreadableError(Exception):
    """A key or a notation that no adapter knows."""


def by_key(
    facts: Facts,
    readers: Mapping[str, Callable[[Any], Any]],
    default: Any = UnreadableError,
    *,
    otherwise: Callable[[], Any] | None = None,
) -> Any:
    """Read the first of these keys that is there.

    :param default: what counts when none is.
    :param otherwise: the same, worked out only then.
    """
    for key, reader in readers.items():
        if key in facts:
            return reader(facts[key])
    if otherwise is not None:
        return otherwise()
    if default is UnreadableError:
        raise UnreadableError(f"none of the keys {', '.join(readers)} is in {', '.join(facts)}")
    return default


def by_type(value: Any, readers: Mapping[type, Callable[[Any], Any]]) -> Any:
    """Read a value by its type."""
    for type_, reader in readers.items():
        if isinstance(value, type_) and not (type_ is int and isinstance(value, bool)):
            return reader(value)
    names = ", ".join(type_.__name__ for type_ in readers)
    raise UnreadableError(f"{value!r} is none of: {names}")


def raw_or(value: Mapping[str, Any], short: Callable[[Mapping[str, Any]], Any]) -> Any:
    """Return a raw object as it is; read a short form with ``short``."""
    return value if RAW_KEYS & value.keys() else short(value)


def known_keys(value: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Refuse a short form with a key that nobody reads."""
    unknown = sorted(key for key in value if key not in names)
    if unknown:
        raise UnreadableError(f"nothing reads {', '.join(unknown)} of {value!r}")
    return value


def lifted(value: Mapping[str, Any], homes: Mapping[str, tuple[str, ...]]) -> dict[str, dict[str, Any]]:
    """Put the parts of an object that a case gives without their parent back where the API has them.

    :param homes: ``metadata``, ``spec`` or ``status`` -> names of fields that belong there.
    """
    known_keys(value, *RAW_KEYS, "apiVersion", "kind", *(name for names in homes.values() for name in names))
    return {
        home: {**{name: value[name] for name in names if name in value}, **value.get(home, {})}
        for home, names in homes.items()
    }


def without_nulls(value: Any) -> Any:
    """Drop keys whose value is null, at any depth: the API never sends them, some reports show them."""
    if isinstance(value, Mapping):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    return value


def found(value: Any) -> bool:
    """Whether the API knows an object."""
    return value is not None and value != NOT_FOUND


def read_if_found(value: Any, reader: Callable[[Any], Any], default: Any) -> Any:
    """Read an object that the API knows."""
    return reader(value) if found(value) else default


def shaped(
    expected: Any, pools: Iterable[str], requests: Mapping[str, Any], ask: Callable[[str, str], Any]
) -> Any:
    """Answer in the shape of the expectation: by pool, by request, by both in either order, or one value.

    :param requests: text of each request -> the request; a list of answers is in this order.
    :param ask: takes the names of a pool and of a request.
    """
    return _shaped(expected, tuple(pools), tuple(requests), ask)


def _shaped(
    expected: Any, pools: tuple[str, ...], requests: tuple[str, ...], ask: Callable[[str, str], Any]
) -> Any:
    if isinstance(expected, Mapping):
        if set(expected) <= set(pools):
            return {name: _shaped(expected[name], (name,), requests, ask) for name in expected}
        if set(expected) <= set(requests):
            return {name: _shaped(expected[name], pools, (name,), ask) for name in expected}
        raise UnreadableError(f"{', '.join(expected)}: neither pools nor requests of the case")
    if isinstance(expected, list) and len(expected) == len(requests):
        return [_shaped(one, pools, (name,), ask) for one, name in zip(expected, requests, strict=True)]
    if len(pools) == 1 and len(requests) == 1:
        return ask(pools[0], requests[0])
    raise UnreadableError(f"{expected!r} for {len(pools)} pools and {len(requests)} requests")


def for_requests(expected: Any, requests: Iterable[str], ask: Callable[[str], Any]) -> Any:
    """Answer for each request, or for the only one where an expectation does not name it."""
    texts = tuple(requests)
    named = isinstance(expected, Mapping) and set(expected) <= set(texts)
    return ask(texts[0]) if len(texts) == 1 and not named else {text: ask(text) for text in texts}


def for_nodes(
    expected: Any, nodes: Iterable[str], ask: Callable[[str], Any], otherwise: Callable[[], Any]
) -> Any:
    """Answer for each node that an expectation names, or for all of them together."""
    if isinstance(expected, Mapping) and expected and set(expected) <= set(nodes):
        return {name: ask(name) for name in expected}
    return otherwise()


def first_final(outcomes: list[Any]) -> Any:
    """Return the first outcome that is final, else the last: what a follower of the job would report."""
    return next((one for one in outcomes if one.final), outcomes[-1])


def with_keys(mapping: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return the entries that are objects with one of these keys."""
    return {
        name: value
        for name, value in mapping.items()
        if isinstance(value, Mapping) and any(key in value for key in keys)
    }


def without_keys(mapping: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return the other entries."""
    return {name: value for name, value in mapping.items() if name not in with_keys(mapping, *keys)}


def requests_of(facts: Facts, expected: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the requests of a case by their text.

    A case without a list of them names them in the keys of its expectation.

    :param names: names of pools, which are no requests.
    """
    given = facts.get("requests", facts.get("request"))
    if given is None:
        keys = [key for key in _keys(expected) if key not in set(names)]
        return {key: int(key) if key.isdecimal() else key for key in keys}
    many = given if isinstance(given, list) else [given]
    texts = [_text(one) for one in many]
    if len(set(texts)) < len(texts):
        texts = [f"#{number}" for number in range(len(texts))]
    return dict(zip(texts, many, strict=True))


def _keys(expected: Any) -> list[str]:
    if not isinstance(expected, Mapping):
        return []
    return [*expected, *(key for value in expected.values() for key in _keys(value))]


def _text(request: Any) -> str:
    if isinstance(request, Mapping):
        return f"{request.get('pods', 1)}x{request.get('gpus_per_pod', 1)}"
    return str(request)


def without(mapping: Mapping[str, Any], word: Any) -> dict[str, Any]:
    """Return the entries whose value is not a certain word, such as the one for "nothing given"."""
    return {key: value for key, value in mapping.items() if value is not word and value != word}


def named_after(key: str, prefix: str) -> str:
    """Return the name that a key ends with."""
    return key.removeprefix(prefix)
