"""Adapters: a case's facts, renamed and converted, are put to the product's public pure functions.

They neither compute nor compare, and know no case: ``test_adapters.py`` reads their syntax trees. What tells
notations apart is in ``reading``, what converts units in ``units``.
"""

from __future__ import annotations
