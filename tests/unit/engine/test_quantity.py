"""Quantities of devices become whole numbers."""

from __future__ import annotations

import pytest

from airflow_gpu_placement.engine.quantity import is_quantity, units, whole


@pytest.mark.parametrize(
    ("quantity", "round_up", "want"),
    [
        pytest.param("8", False, 8, id="a text of digits"),
        pytest.param(8, False, 8, id="a number"),
        pytest.param("8000m", False, 8, id="thousandths"),
        pytest.param("1k", False, 1000, id="a decimal suffix"),
        pytest.param("1Ki", False, 1024, id="a binary suffix"),
        pytest.param("2e1", False, 20, id="an exponent"),
        pytest.param("1500m", False, 1, id="what is offered is rounded down"),
        pytest.param("1500m", True, 2, id="what is held is rounded up"),
        pytest.param(" 0 ", False, 0, id="blanks around it"),
    ],
)
def test_quantities_are_read_as_the_api_means_them(quantity: str | int, round_up: bool, want: int) -> None:
    """Every notation that the API allows for a count is read."""
    assert whole(quantity, round_up=round_up) == want


@pytest.mark.parametrize("quantity", ["", "eight", "8 GPUs", "1KB", "\u0668"])
def test_what_is_no_quantity_stands_for_nothing(quantity: str) -> None:
    """Nothing is guessed from a text that the API would not send, and nothing is raised either."""
    assert whole(quantity) == 0
    assert not is_quantity(quantity)


@pytest.mark.parametrize(
    ("resource", "quantity", "want"),
    [("cpu", "64500m", 64_500), ("cpu", "0.0001", 1), ("memory", "2Ki", 2048), ("nvidia.com/gpu", "8", 8)],
)
def test_each_resource_has_its_unit(resource: str, quantity: str, want: int) -> None:
    """Thousandths of a CPU, everything else in whole units."""
    assert units(resource, quantity, round_up=True) == want
