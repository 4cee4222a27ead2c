"""Help with names that do not exist."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Say what to write instead of an unknown name: the nearest known one, else all of them.

    :return: such as ``did you mean 'gpus_per_node'?`` or ``one of: a, b``.
    """
    names = list(known)
    by_folded = {candidate.casefold(): candidate for candidate in names}
    for folded, candidate in by_folded.items():
        if len(name) > 2 and folded.startswith(name.casefold()):
            return f"did you mean {candidate!r}?"
    close = difflib.get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    if close:
        return f"did you mean {by_folded[close[0]]!r}?"
    return f"one of: {', '.join(sorted(names))}" if names else "there is none"
