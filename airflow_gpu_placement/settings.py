"""Settings of the section ``[gpu_placement]``, read when they are needed and never at import."""

from __future__ import annotations

from pathlib import Path

import msgspec
from airflow.sdk import conf

SECTION = "gpu_placement"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the installation.

    :param catalog: path of the catalogue: a YAML file, or a folder of them that are laid over one another.
    :param catalog_overlay: another such path, laid over it; ``None``: there is none.
    :param signal_deadline_seconds: time that all clusters together get to tell their state for one decision.
    :param decide_again_seconds: pause between two decisions while nothing fits.
    :param fence_timeout_seconds: how long a try waits for the proof that an earlier remote job has ended.
    """

    catalog: Path
    catalog_overlay: Path | None = None
    signal_deadline_seconds: float = 10.0
    decide_again_seconds: float = 15.0
    fence_timeout_seconds: float = 30.0


def default_catalog_path() -> Path:
    """Name the place of the catalogue when the configuration does not: beside the DAG folder."""
    return Path(conf.get("core", "dags_folder")).parent / "gpu_placement.yaml"


def load_settings() -> Settings:
    """Read the section; every option has a default."""
    return Settings(
        catalog=_path("catalog") or default_catalog_path(),
        catalog_overlay=_path("catalog_overlay"),
        signal_deadline_seconds=conf.getfloat(SECTION, "signal_deadline_seconds", fallback=10.0),
        decide_again_seconds=conf.getfloat(SECTION, "decide_again_seconds", fallback=15.0),
        fence_timeout_seconds=conf.getfloat(SECTION, "fence_timeout_seconds", fallback=30.0),
    )


def _path(option: str) -> Path | None:
    configured = conf.get(SECTION, option, fallback="") or ""
    return Path(configured).expanduser() if configured else None
