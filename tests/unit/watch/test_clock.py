"""Time asleep is not time of silence."""

from __future__ import annotations

from airflow_gpu_placement.watch.clock import AwakeClock


class Source:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.at


def test_it_counts_like_any_clock_while_it_is_ticked() -> None:
    """Ticks do not distort it."""
    source = Source()
    clock = AwakeClock(longest_step_seconds=2, source=source)
    for _ in range(10):
        source.at += 0.5
        clock.tick()
    source.at += 0.25
    assert clock.now() == 5.25


def test_a_stopped_process_gains_one_step_at_most() -> None:
    """A minute of SIGSTOP counts as two seconds, before and after the next tick."""
    source = Source()
    clock = AwakeClock(longest_step_seconds=2, source=source)
    source.at += 60
    assert clock.now() == 2
    clock.tick()
    assert clock.now() == 2
    source.at += 1
    assert clock.now() == 3
    assert clock.asleep_seconds() == 58
    source.at += 60
    assert clock.asleep_seconds() == 117
