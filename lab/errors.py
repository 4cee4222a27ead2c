"""The errors of the lab.

LabError                the lab cannot do what was asked; the text says why and what to do instead
+- LabSpecError         a spec (or its YAML file) is wrong; lists every problem as ``where: what``
+- LabApiError          an API server answered with an error status
+- LabTimeoutError      a condition did not become true in time
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class LabError(Exception):
    """The lab cannot do what was asked; the message says why and what to do instead."""


class LabSpecError(LabError):
    """A spec is wrong.

    :param problems: one line for each problem, each ``where: what``.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class LabApiError(LabError):
    """An API server answered with an error.

    :param status: HTTP status code.
    :param reason: the machine-readable reason of the Status object, empty if there was none.
    :param message: the text of the Status object, or the start of the body.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class LabTimeoutError(LabError):
    """A condition did not become true in time."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that a name is not known, which names are, and which of them was probably meant."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listing = ", ".join(names) if names else "none"
    return f"no {kind} {name!r}.{hint} Known: {listing}."
