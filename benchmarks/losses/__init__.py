"""The parts of ``benchmarks/node_loss.py``."""

from __future__ import annotations
