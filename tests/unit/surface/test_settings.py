"""Settings are checked when they are read, and a wrong one says what to write."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.exceptions import GpuPlacementError
from airflow_gpu_placement.settings import load_settings

SECONDS = ("signal_deadline_seconds", "decide_again_seconds", "fence_timeout_seconds")


def write(monkeypatch: pytest.MonkeyPatch, option: str, value: str) -> str:
    """Set an option, and return the variable that holds it."""
    variable = f"AIRFLOW__GPU_PLACEMENT__{option.upper()}"
    monkeypatch.setenv(variable, value)
    return variable


def test_every_number_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of the configuration become seconds; without them the defaults hold."""
    read = load_settings()
    assert [getattr(read, option) for option in SECONDS] == [10.0, 15.0, 30.0]
    for number, option in enumerate(SECONDS, start=1):
        write(monkeypatch, option, f" {number}.5 ")
    read = load_settings()
    assert [getattr(read, option) for option in SECONDS] == [1.5, 2.5, 3.5]


@pytest.mark.parametrize("option", SECONDS)
@pytest.mark.parametrize("value", ["abc", "-1", "nan", "inf", "", "10s"])
def test_an_impossible_number_is_refused(monkeypatch: pytest.MonkeyPatch, option: str, value: str) -> None:
    """The message names the option and its value, and says what to write and where."""
    variable = write(monkeypatch, option, value)
    with pytest.raises(GpuPlacementError) as caught:
        load_settings()
    told = str(caught.value)
    assert told.startswith(
        f"option {option!r} of section [gpu_placement] is {value!r}; write a number of seconds, "
    )
    assert told.endswith(f"in airflow.cfg or as {variable} in the environment")


def test_only_a_wait_may_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not waiting for a proof is a choice; giving clusters no time to answer is a mistake."""
    write(monkeypatch, "fence_timeout_seconds", "0")
    assert load_settings().fence_timeout_seconds == 0
    write(monkeypatch, "signal_deadline_seconds", "0")
    with pytest.raises(
        GpuPlacementError, match="is '0'; write a number of seconds, more than 0, such as 10,"
    ):
        load_settings()


def test_an_installation_has_a_name_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It becomes a label as it is written, so it has to be one."""
    assert load_settings().installation is None
    write(monkeypatch, "installation", "prod-eu.1")
    assert load_settings().installation == "prod-eu.1"
    for wrong in ("prod eu", "-prod", "x" * 64):
        write(monkeypatch, "installation", wrong)
        with pytest.raises(GpuPlacementError, match=r"option 'installation' of section \[gpu_placement\]"):
            load_settings()
