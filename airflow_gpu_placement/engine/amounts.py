"""Two numbers in one sentence, written so that a reader sees which is the larger."""

from __future__ import annotations

_MOST_DIGITS = 17
"""As many tell any two numbers apart."""


def apart(one: float, other: float, digits: int = 2, kind: str = "f") -> tuple[str, str]:
    """Write two numbers with as many digits as it takes to tell them apart.

    :param digits: at least this many.
    :param kind: ``f``: digits behind the point; ``g``: all digits, without zeros at the end.
    """
    while digits < _MOST_DIGITS and f"{one:.{digits}{kind}}" == f"{other:.{digits}{kind}}":
        digits += 1
    return f"{one:.{digits}{kind}}", f"{other:.{digits}{kind}}"


def deadline_words(left: str) -> str:
    """Say when a deadline is.

    :param left: hours until then, as they are written; negative: it has passed.
    """
    return f"passed {left[1:]} h ago" if left.startswith("-") else f"is in {left} h"
