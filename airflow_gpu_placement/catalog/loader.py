"""From a catalogue file to frozen pools."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from airflow_gpu_placement.catalog.document import parse
from airflow_gpu_placement.catalog.example import EXAMPLE
from airflow_gpu_placement.catalog.pools import read_pools
from airflow_gpu_placement.catalog.problems import Problems
from airflow_gpu_placement.model.pool import GpuPool

if TYPE_CHECKING:
    from collections.abc import Iterable


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the catalogue says.

    :param pools: in the order of the file.
    :param hash: of the content: the same for the same pools, however the file is laid out or ordered.
    :param path: where it was read from.
    """

    pools: tuple[GpuPool, ...]
    hash: str
    path: str


def load(path: Path | str) -> Catalog:
    """Read and check a catalogue file.

    :param path: the YAML file.
    :raises CatalogError: with every problem, each ``file:path.to.field: problem``.
    """
    problems = Problems(str(path))
    text = _read(Path(path), problems)
    document = parse(text, problems)
    pools = read_pools(document, problems) if document is not None else ()
    problems.raise_any()
    return Catalog(pools=pools, hash=content_hash(pools), path=str(path))


def content_hash(pools: Iterable[GpuPool]) -> str:
    """Return the SHA-256 of the pools' content, in hexadecimal digits; their order does not matter."""
    canonical = msgspec.json.encode(sorted(pools, key=lambda pool: pool.name), order="sorted")
    return hashlib.sha256(canonical).hexdigest()


def _read(path: Path, problems: Problems) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        problems.fail(
            "there is no catalogue of GPU pools here. Write this file, or name another as option 'catalog' "
            "of section [gpu_placement] in airflow.cfg (environment: AIRFLOW__GPU_PLACEMENT__CATALOG). "
            f"A catalogue to start from:\n\n{EXAMPLE}"
        )
    except UnicodeDecodeError as error:
        problems.fail(f"is not UTF-8 text (byte {error.start}); save it as UTF-8")
    except OSError as error:
        problems.fail(f"cannot be read: {error.strerror or error}")
