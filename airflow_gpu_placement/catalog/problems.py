"""Collecting what is wrong, so that all of it is told at once."""

from __future__ import annotations

from typing import NoReturn

from airflow_gpu_placement.exceptions import CatalogError


class Problems:
    """What was found wrong in one file so far.

    :param file: its name, for the messages.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.found: list[str] = []

    def add(self, path: str, problem: str) -> None:
        """Note a problem.

        :param path: such as ``pools[2].gpu.memory_gb``; empty: the file as a whole.
        """
        self.found.append(f"{self.file}:{path}: {problem}" if path else f"{self.file}: {problem}")

    def name_the_pool(self, since: int, name: str) -> None:
        """Say to which pool the problems noted since then belong; an index alone is hard to find."""
        self.found[since:] = [f"{problem} (pool {name!r})" for problem in self.found[since:]]

    def raise_any(self) -> None:
        """Raise when there is any problem."""
        if self.found:
            raise CatalogError(self.found)

    def fail(self, problem: str) -> NoReturn:
        """Give the file up as a whole."""
        self.add("", problem)
        raise CatalogError(self.found)
