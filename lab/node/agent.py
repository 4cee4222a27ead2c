"""The agent's life: come up, register, look after pods, and end with the lab."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from typing import TYPE_CHECKING

from lab.node.api import Api
from lab.node.devices import Devices
from lab.node.faults import kill_tree
from lab.node.heartbeat import Heartbeat
from lab.node.link import Link
from lab.node.logserver import LogServer
from lab.node.podloop import PodLoop
from lab.node.processes import shims
from lab.node.procfs import start_time
from lab.node.sandbox import choose_sandbox
from lab.node.shim import write_atomically
from lab.node.worker import NodeContext

if TYPE_CHECKING:
    from lab.node.config import NodeConfig

LOG = logging.getLogger(__name__)


def watch_lifeline(path: str, gone: asyncio.Event) -> int:
    """Notice the end of the lab: nobody holds the other end of its FIFO any more."""
    lifeline = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    loop = asyncio.get_running_loop()

    def look() -> None:
        with contextlib.suppress(BlockingIOError):
            if os.read(lifeline, 1) == b"":
                loop.remove_reader(lifeline)
                gone.set()

    loop.add_reader(lifeline, look)
    look()  # a FIFO that never had a writer does not become readable
    return lifeline


async def run(config: NodeConfig) -> None:
    """Be a node until the lab ends or somebody stops the agent."""
    loop = asyncio.get_running_loop()
    link = Link(config.root_dir)
    # Before the pid is written: who reads that may send the signal.
    loop.add_signal_handler(signal.SIGUSR1, link.look)
    write_atomically(str(config.root_dir / "agent.pid"), f"{os.getpid()} {start_time(os.getpid())}")
    link.look()
    config.pods_dir.mkdir(parents=True, exist_ok=True)
    lab_gone, stopped = asyncio.Event(), asyncio.Event()
    watch_lifeline(config.lifeline, lab_gone)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    node = asyncio.create_task(_node(config, link))
    ends = [asyncio.create_task(event.wait()) for event in (lab_gone, stopped)]
    await asyncio.wait([node, *ends], return_when=asyncio.FIRST_COMPLETED)
    if lab_gone.is_set():
        LOG.info("the lab has gone: everything on this node is ended")
        for shim in shims(config.root_dir):
            await asyncio.to_thread(kill_tree, shim)
    for task in ends:
        task.cancel()
    if node.done():
        node.result()
    node.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await node


async def _node(config: NodeConfig, link: Link) -> None:
    api = Api(config.server, config.ca_file, config.token, link)
    sandbox = await choose_sandbox(config.sandbox, config.root_dir / "probe", config.lifeline)
    LOG.info("containers run %s", f"in namespaces {sandbox}" if sandbox else "in plain mode")
    devices = Devices(config.capacity)
    pods = PodLoop(NodeContext(config, api, devices, sandbox))
    server = LogServer(config, pods, link)
    try:
        heartbeat = Heartbeat(config, api, await server.start())
        await heartbeat.register()
        async with asyncio.TaskGroup() as group:
            group.create_task(heartbeat.run())
            group.create_task(pods.run())
    finally:
        await pods.close()
        await server.close()
        await api.close()
