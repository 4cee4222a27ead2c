"""The parts of ``benchmarks/peer_node_loss.py``."""

from __future__ import annotations
