"""What a training returns to Airflow: JSON where Airflow can keep it, else the text as it is."""

from __future__ import annotations

import json
import logging
import math
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_gpu_placement.model.storable import storable, storable_text

if TYPE_CHECKING:
    from airflow_gpu_placement.model.outcome import Outcome

log = logging.getLogger(__name__)

_KUBELET_BYTES = 4096
"""A node keeps so much of a result, and cuts off the rest without a word."""

_DEEPEST = 100
"""Airflow's server reads JSON that is nested about twice as deep, and refuses what is deeper."""

_SMALLEST_INTEGER, _LARGEST_INTEGER = -(2**63), 2**64 - 1
"""What Airflow's worker can send to its supervisor."""

_RESERVED = frozenset({"__classname__", "__id__"})
"""Keys by which Airflow stores objects of its own; it refuses them in any other."""


class _NotForAirflow(ValueError):
    """JSON, or nearly, that Airflow does not store."""


def result_of(outcome: Outcome) -> Any:
    """Return the termination message as JSON when it is JSON, else as text; ``None`` when there is none.

    The training is done: a result that Airflow cannot store must not fail it, in this try and all the next.
    """
    text = outcome.result
    if not text:
        return None
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_real, parse_int=_integer)
        _check(value)
    except _NotForAirflow as error:
        log.warning("The result is returned as a text: Airflow cannot store %s", error)
    except RecursionError:
        log.warning("The result is returned as a text: it is nested too deeply")
    except ValueError as error:
        _warn_of_broken(text, error)
    else:
        return storable(value)
    return storable_text(text)


def _refuse(word: str) -> NoReturn:
    raise _NotForAirflow(f"{word}, which is no JSON; write null or a text instead")


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _NotForAirflow(f"the number {text}, which is too large")
    return value


def _integer(text: str) -> int:
    value = int(text)
    if not _SMALLEST_INTEGER <= value <= _LARGEST_INTEGER:
        raise _NotForAirflow(f"the number {text[:30]}, which has more than 64 bits; write it as a text")
    return value


def _check(value: Any, depth: int = 0) -> None:
    """Look for what is JSON and still nothing that Airflow stores."""
    if depth > _DEEPEST:
        raise _NotForAirflow(f"what is nested deeper than {_DEEPEST} levels")
    if isinstance(value, dict):
        if _RESERVED & value.keys():
            raise _NotForAirflow(f"the key {min(_RESERVED & value.keys())}, which it uses itself")
        value = value.values()
    elif not isinstance(value, list):
        return
    for one in value:
        _check(one, depth + 1)


def _warn_of_broken(text: str, error: ValueError) -> None:
    """Tell of a text that was probably meant to be JSON; any other is a result as good."""
    if len(text.encode("utf-8", "surrogatepass")) >= _KUBELET_BYTES:
        log.warning(
            "The result is returned as a text and is probably cut off: a node keeps %d bytes of it",
            _KUBELET_BYTES,
        )
    elif text.lstrip()[:1] in {"{", "["}:
        log.warning("The result is returned as a text: it looks like JSON and is not (%s)", error)
