"""Values that every database can keep: PostgreSQL takes no NUL in a text, and none takes half a character."""

from __future__ import annotations

import re
from typing import Any

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_NOT_STORABLE = re.compile("[\x00\ud800-\udfff]")


def storable_text(text: str) -> str:
    """Return a text with a replacement character for each NUL and each lone surrogate."""
    return _NOT_STORABLE.sub(_REPLACEMENT, text)


def storable(value: Any) -> Any:
    """Return what JSON can say with all its texts and keys storable."""
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, dict):
        return {storable(key): storable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [storable(one) for one in value]
    return value
