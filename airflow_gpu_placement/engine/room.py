"""How many pods of a gang fit: on what is free, on what the pool can add, inside one zone or fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_gpu_placement.engine.claims import worst_fit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_gpu_placement.engine.view import PoolView
    from airflow_gpu_placement.model.signals import NodeCapacity


class Room(NamedTuple):
    """The best room for a gang.

    :param now: pods that fit on what is free.
    :param grown: pods that fit on that and on nodes that the pool can still add.
    :param members: nodes of the zone or fabric meant; ``None``: the gang may be anywhere.
    """

    now: int
    grown: int
    members: Sequence[tuple[NodeCapacity, int]] | None = None

    @property
    def nodes(self) -> frozenset[str] | None:
        """Names of the nodes of the zone or fabric meant; ``None``: the gang may be anywhere."""
        return None if self.members is None else frozenset([node.name for node, _ in self.members])


def best_room(
    view: PoolView,
    nodes: Sequence[tuple[NodeCapacity, int]],
    new_nodes: int,
    unseen: Mapping[int, int],
    new_gpus: int | None = None,
) -> Room:
    """Find the best room on nodes with this many free GPUs each.

    A gang that must stay together is counted inside each zone or fabric, never over their sum. A node whose
    zone or fabric nothing tells is on one with itself alone. A node that the pool would add is in the pool's
    zone when the catalogue names it, and on no fabric that anybody knows.

    :param new_nodes: nodes that the pool can add.
    :param unseen: GPUs a pod -> pods of others that will land on some of these nodes.
    :param new_gpus: GPUs of each of the new nodes; ``None``: those that the job can use.
    """
    gpus_per_node = view.question.gpus_per_node
    new = [view.gpus_of_new_node if new_gpus is None else new_gpus] * new_nodes if new_nodes else []
    if not view.question.together:
        return Room(*_both([gpus for _, gpus in nodes], new, gpus_per_node, unseen))
    network = view.request.network
    same_zone, same_fabric = network.same_zone, network.same_fabric
    if not new and _all_in_one(view, nodes, same_zone, same_fabric):
        both = _both([gpus for _, gpus in nodes], new, gpus_per_node, unseen)
        return Room(*both, nodes)
    groups: dict[tuple[str | None, ...], list[tuple[NodeCapacity, int]]] = {}
    for node, gpus in nodes:
        groups.setdefault(_group(view, node, same_zone, same_fabric), []).append((node, gpus))
    pool_zone = view.pool.place.zone
    joins = None if same_fabric or pool_zone is None else (pool_zone,)
    rooms = [
        (
            key,
            members,
            _both([gpus for _, gpus in members], new if key == joins else [], gpus_per_node, unseen),
        )
        for key, members in groups.items()
    ]
    if new and joins is not None and joins not in groups:
        rooms.append((joins, [], _both([], new, gpus_per_node, unseen)))
    if not rooms:
        return Room(0, 0, ())
    if len(rooms) == 1:
        _, members, (now, grown) = rooms[0]
        return Room(now, grown, members)
    wanted = view.question.pods

    def badness(room: tuple[tuple[str | None, ...], object, tuple[int, int]]) -> tuple[Any, ...]:
        key, _, (now, grown) = room
        return now < wanted, grown < wanted, -min(now, wanted), -grown, tuple(map(str, key))

    _, members, (now, grown) = min(rooms, key=badness)
    return Room(now, grown, members)


def _all_in_one(
    view: PoolView, nodes: Sequence[tuple[NodeCapacity, int]], same_zone: bool, same_fabric: bool
) -> bool:
    """Whether all nodes are known to be in the one zone or on the one fabric, as they mostly are."""
    if not nodes:
        return False
    first = nodes[0][0]
    if same_fabric and (not first.fabric or any([node.fabric != first.fabric for node, _ in nodes])):
        return False
    default = view.pool.place.zone
    zone = first.zone or default
    return not same_zone or (bool(zone) and all([(node.zone or default) == zone for node, _ in nodes]))


def _group(view: PoolView, node: NodeCapacity, same_zone: bool, same_fabric: bool) -> tuple[str | None, ...]:
    zone = (node.zone or view.pool.place.zone) if same_zone else None
    if (same_zone and not zone) or (same_fabric and not node.fabric):
        return ("alone", node.name, "")
    if not same_fabric:
        return (zone,)
    return (zone, node.fabric) if same_zone else (node.fabric,)


def _both(
    free: list[int], new: Sequence[int], gpus_per_node: int, unseen: Mapping[int, int]
) -> tuple[int, int]:
    now = worst_fit(free, gpus_per_node, unseen)
    return now, worst_fit([*free, *new], gpus_per_node, unseen) if new else now
