"""The DAG folder of an Airflow under test."""

from __future__ import annotations

import os
import time
from textwrap import dedent
from typing import TYPE_CHECKING

from lab.airflow.records import DagImportError

if TYPE_CHECKING:
    from pathlib import Path

    from lab.airflow.client import AirflowClient
    from lab.airflow.records import ImportErrorRecord

PARSE_TIMEOUT_SECONDS = 90.0


class DagFolder:
    """Puts DAG files where the dag-processor finds them, and waits for it."""

    def __init__(self, path: Path, client: AirflowClient) -> None:
        self.path = path
        self._client = client

    def add(self, name: str, source: str, *, timeout_seconds: float = PARSE_TIMEOUT_SECONDS) -> list[str]:
        """Write ``<name>.py``, wait until it is parsed and return its dag ids.

        An existing file is replaced. Common indentation of ``source`` is removed. A file that cannot be
        imported raises ``DagImportError`` with the traceback; one without any DAG raises ``TimeoutError``.
        """
        file = self.path / f"{name}.py"
        before = {dag["dag_id"]: dag["last_parsed_time"] for dag in self._dags_of(file)}
        old_errors = {(error.id, error.timestamp) for error in self._errors_of(file)}
        partial = file.with_suffix(".partial")
        partial.write_text(dedent(source))
        # The dag-processor compares modification times: a replaced file must never look unchanged.
        if file.exists():
            newer = max(time.time(), file.stat().st_mtime + 1)
            os.utime(partial, (newer, newer))
        partial.replace(file)
        deadline = time.monotonic() + timeout_seconds
        while True:
            parsed = [
                dag["dag_id"]
                for dag in self._dags_of(file)
                if dag["last_parsed_time"] != before.get(dag["dag_id"])
            ]
            if parsed:
                return parsed
            for error in self._errors_of(file):
                if (error.id, error.timestamp) not in old_errors:
                    raise DagImportError(error)
            self._client.check()
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{file} gave no DAG within {timeout_seconds:g} s\n{self._client.explain()}"
                )
            time.sleep(0.2)

    def copy(self, source: Path, *, timeout_seconds: float = PARSE_TIMEOUT_SECONDS) -> list[str]:
        """Add a DAG file of the repository under its own name."""
        return self.add(source.stem, source.read_text(), timeout_seconds=timeout_seconds)

    def _dags_of(self, file: Path) -> list[dict[str, str]]:
        listed = self._client.get("/dags", limit=1000)["dags"]
        return [dag for dag in listed if dag["relative_fileloc"] == file.name]

    def _errors_of(self, file: Path) -> list[ImportErrorRecord]:
        return [
            error for error in self._client.import_errors() if error.filename.rpartition("/")[2] == file.name
        ]
