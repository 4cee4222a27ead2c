"""The parts of ``benchmarks/watch.py``."""

from __future__ import annotations
