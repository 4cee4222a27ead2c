"""How fast the clocks of the fleet run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Every waiting time that a person can set, for one run.

    :param scale: by how much all of them are shorter than the defaults of Kubernetes and of the product.
    :param renew_seconds: how often a node renews its Lease.
    :param node_monitor_grace_seconds: silence after which the cluster calls a node lost (Ready=Unknown).
    :param node_grace_seconds: silence after which the product calls a node lost.
    :param fence_timeout_seconds: how long the product waits for the proof that a lost job has ended.
    :param eviction_seconds: time that the tuned peer lets a pod stay on a lost node; Kubernetes' default of
        300 s is not scaled, because its users meet it as it is.
    :param job_poll_seconds: how often the peer's trigger asks for its Job.
    """

    name: str
    scale: float
    renew_seconds: float
    node_monitor_grace_seconds: int
    node_grace_seconds: float
    fence_timeout_seconds: float
    eviction_seconds: int
    job_poll_seconds: float

    def describe(self) -> str:
        """Say in one line what was set."""
        how = "all waiting times as by default"
        if self.scale != 1:
            how = f"all waiting times {self.scale:g} times shorter than by default"
        return (
            f"speed {self.name}: {how}. Nodes renew every {self.renew_seconds:g} s; the cluster calls a node"
            f" lost after {self.node_monitor_grace_seconds} s; the product after {self.node_grace_seconds:g}"
            f" s, and it then waits up to {self.fence_timeout_seconds:g} s for the proof that the old job has"
            f" ended; the tuned peer evicts {self.eviction_seconds} s after the cluster's verdict; the peer"
            f" asks for its Job every {self.job_poll_seconds:g} s"
        )


SPEEDS = {
    speed.name: speed
    for speed in (
        Speed(
            name="fast",
            scale=5,
            renew_seconds=2,
            node_monitor_grace_seconds=10,
            node_grace_seconds=24,
            fence_timeout_seconds=6,
            eviction_seconds=6,
            job_poll_seconds=2,
        ),
        Speed(
            name="real",
            scale=1,
            renew_seconds=10,
            node_monitor_grace_seconds=50,
            node_grace_seconds=120,
            fence_timeout_seconds=30,
            eviction_seconds=30,
            job_poll_seconds=10,
        ),
    )
}
