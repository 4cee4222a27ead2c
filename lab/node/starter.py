"""Starts the containers of a pod, init containers first, each when its turn and its time have come."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lab.node import env, volumes
from lab.node.api import CONNECTION_ERRORS, ApiError
from lab.node.container import Container
from lab.node.images import Images
from lab.node.objects import ConfigProblem, Objects, fetch_objects
from lab.node.rendezvous import peers
from lab.node.spec import NoCommand, make_spec
from lab.node.status import is_complete

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from lab.node.worker import NodeContext

LOG = logging.getLogger(__name__)
MISSING_SECONDS = 2.0  # how soon a missing ConfigMap or Secret is looked for again


class Starter:
    """The containers of one pod and the order in which they run.

    :param folder: the pod's folder.
    :param changed: called when something is new about a container.
    """

    def __init__(
        self, context: NodeContext, pod: Mapping[str, Any], folder: Path, changed: Callable[[], None]
    ) -> None:
        self._context = context
        self._folder = folder
        self._images = Images(context.config.images, context.config.root_dir / "images")
        metadata, spec = pod["metadata"], pod["spec"]
        self._key = (metadata["namespace"], metadata["name"])
        self._uid: str = metadata["uid"]
        policy: str = spec["restartPolicy"]
        title = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"

        def make(each: Mapping[str, Any], restart: str) -> Container:
            return Container(
                each,
                folder / "containers" / each["name"],
                changed,
                title=title,
                restart=restart,
                backoff_seconds=context.config.backoff_seconds,
                waiting="PodInitializing" if spec.get("initContainers") else "ContainerCreating",
            )

        # An init container that has done its work is never run again.
        init_restart = "Never" if policy == "Never" else "OnFailure"
        self.inits = [make(each, init_restart) for each in spec.get("initContainers") or ()]
        self.containers = [make(each, policy) for each in spec["containers"]]

    @property
    def everything(self) -> list[Container]:
        """All containers, those of the beginning first."""
        return [*self.inits, *self.containers]

    async def advance(self, pod: dict[str, Any], may_start: Callable[[], bool]) -> float | None:
        """Start what is due now.

        :param may_start: whether the pod may still run.
        :return: seconds until something else may be due; ``None``: only the end of a run can bring it.
        """
        in_turn = self._in_turn()
        due = [container for container in in_turn if container.due_in() == 0]
        if due and not await self._start(pod, due, may_start):
            return MISSING_SECONDS
        waits = [seconds for container in self._in_turn() if (seconds := container.due_in()) is not None]
        return min(waits, default=None)

    def _in_turn(self) -> list[Container]:
        for init in self.inits:
            if not is_complete(init.seen):
                return [init]
        return self.containers

    async def _start(self, pod: dict[str, Any], due: list[Container], may_start: Callable[[], bool]) -> bool:
        """Start containers; False when what all of them need is not there."""
        wanted = set(volumes.references(pod["spec"].get("volumes") or []))
        for container in due:
            wanted |= set(env.references(container.spec))
        try:
            objects = await fetch_objects(self._context.api, self._key[0], wanted)
            names = await peers(self._context.api, pod)
            places = volumes.make_volumes(pod, objects, self._folder / "volumes")
        except ConfigProblem as problem:
            LOG.info("pod %s/%s waits: %s", *self._key, problem)
            return False
        except (ApiError, *CONNECTION_ERRORS) as error:
            LOG.warning("pod %s/%s waits: %s: %s", *self._key, type(error).__name__, error)
            return False
        for container in due:
            if may_start():
                await self._start_one(pod, container, objects, places, names)
        return True

    async def _start_one(
        self,
        pod: dict[str, Any],
        container: Container,
        objects: Objects,
        places: dict[str, Path],
        names: list[str],
    ) -> None:
        problem = self._images.problem(container.spec["image"], container.spec.get("imagePullPolicy", ""))
        if problem is not None:
            container.lacks_image(problem)
            return
        run = container.upcoming()
        devices = self._context.devices.assign(self._uid, pod, self._folder)
        try:
            spec = make_spec(
                self._context.config,
                self._context.sandbox,
                pod,
                run,
                objects=objects,
                places=places,
                peers=names,
                devices=devices.get(container.name, {}),
            )
        except ConfigProblem as missing:
            container.hold("CreateContainerConfigError", str(missing), MISSING_SECONDS)
        except NoCommand as missing:
            container.hold("CreateContainerError", str(missing), MISSING_SECONDS)
        else:
            await container.start(run, spec)
