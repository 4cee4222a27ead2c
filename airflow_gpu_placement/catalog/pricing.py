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
    by_gpu, by_node, machine = (
        price.get(key) for key in ("gpu_hour_usd", "node_hour_usd", "machine_hour_usd")
    )
    if by_node is not None and per_node is not None:
        by_gpu = by_node / per_node
    if by_gpu is None:
        return None
    if machine is not None and per_node is not None:
        return float(by_gpu + machine / per_node)
    return float(by_gpu)
