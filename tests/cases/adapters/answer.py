"""What an adapter hands to the judge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.cases.adapters.reading import Facts

Answer = Callable[[Facts, Any], Any]
"""Takes the facts of a case and the expectation (for its shape alone), returns the product's answer."""


class AnyOf(NamedTuple):
    """Words that the product's one word stands for; an expectation must be one of them."""

    words: tuple[Any, ...]
