"""One price of a GPU hour, from the parts that clouds bill."""

from __future__ import annotations

from typing import Any


def gpu_hour_usd(price: dict[str, Any], per_node: int | None) -> float | None:
    """Return what one GPU costs for an hour, the machine around it included.

    :param price: ``gpu_hour_usd`` or ``node_hour_usd``, and ``machine_hour_usd``; all of one place, since the
        cheapest machine of one region and the cheapest GPU of another are nothing that anybody sells.
    :param per_node: GPUs of a node; needed for the last two.
    :return: ``None``: unknown.
    """
    by_gpu, by_node = price.get("gpu_hour_usd"), price.get("node_hour_usd")
    if by_node is not None and per_node is not None:
        by_gpu = by_node / per_node
    return None if by_gpu is None else float(by_gpu) + machine_gpu_hour_usd(price, per_node)


def machine_gpu_hour_usd(price: dict[str, Any], per_node: int | None) -> float:
    """Return the part of one GPU in what the machine costs beside its GPUs, in USD for an hour."""
    machine = price.get("machine_hour_usd")
    return 0.0 if machine is None or per_node is None else float(machine / per_node)
