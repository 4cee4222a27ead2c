"""Collecting what is wrong, so that all of it is told at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from airflow_gpu_placement.exceptions import CatalogError

if TYPE_CHECKING:
    from collections.abc import Callable


class Problems:
    """What was found wrong so far.

    :param file: name of the file, for the messages.
    :param locate: turns a path of merged files into the file that said it and the path there; ``None``: there
        is one file.
    """

    def __init__(self, file: str, locate: Callable[[str], tuple[str, str]] | None = None) -> None:
        self.file = file
        self.found: list[str] = []
        self._locate = locate

    def add(self, path: str, problem: str) -> None:
        """Note a problem.

        :param path: such as ``pools[2].gpu.memory_gb``; empty: the file as a whole.
        """
        self.found.append(f"{self.where(path)}: {problem}")

    def where(self, path: str) -> str:
        """Name a place as ``file:path``."""
        file, inside = self._found_in(path)
        return f"{file}:{inside}" if inside else file

    def folder_of(self, path: str) -> Path:
        """Return the folder of the file that said something, where the files that it names are."""
        return Path(self._found_in(path)[0]).parent

    def _found_in(self, path: str) -> tuple[str, str]:
        return (self.file, path) if self._locate is None else self._locate(path)

    def name_it(self, since: int, what: str, name: str) -> None:
        """Say to which entry the problems noted since then belong; an index alone is hard to find."""
        self.found[since:] = [f"{problem} ({what} {name!r})" for problem in self.found[since:]]

    def raise_any(self) -> None:
        """Raise when there is any problem."""
        if self.found:
            raise CatalogError(self.found)

    def fail(self, problem: str) -> NoReturn:
        """Give the file up as a whole."""
        self.add("", problem)
        raise CatalogError(self.found)
