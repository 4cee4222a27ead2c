"""The fleet that the benchmark of decisions decides over."""

from __future__ import annotations

import time

from benchmarks.decide import SIZES, check, once
from benchmarks.scene import SPOILERS, scene


def test_every_reason_occurs_in_the_largest_fleet() -> None:
    """A reason code without a pool that fails for it would not be measured."""
    decision, _ = once(scene(SIZES[-1]), time.process_time)
    check(decision, SIZES[-1])
    assert len(decision.verdicts) == SIZES[-1] > 2 * len(SPOILERS)
