"""Settings of the section ``[gpu_placement]``, read when they are needed and never at import."""

from __future__ import annotations

import math
import re
from pathlib import Path

import msgspec
from airflow.sdk import conf

from airflow_gpu_placement.exceptions import GpuPlacementError

SECTION = "gpu_placement"
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the installation.

    :param catalog: path of the catalogue: a YAML file, or a folder of them that are laid over one another.
    :param catalog_overlay: another such path, laid over it; ``None``: there is none.
    :param signal_deadline_seconds: time that all clusters together get to tell their state for one decision.
    :param decide_again_seconds: pause between two decisions while nothing fits.
    :param fence_timeout_seconds: how long a try waits for the proof that an earlier remote job has ended.
    :param installation: name of this Airflow among those that share clusters, put as a label on every remote
        job; ``None``: it has none.
    """

    catalog: Path
    catalog_overlay: Path | None = None
    signal_deadline_seconds: float = 10.0
    decide_again_seconds: float = 15.0
    fence_timeout_seconds: float = 30.0
    installation: str | None = None


def default_catalog_path() -> Path:
    """Name the place of the catalogue when the configuration does not: beside the DAG folder."""
    return Path(conf.get("core", "dags_folder")).parent / "gpu_placement.yaml"


def load_settings() -> Settings:
    """Read the section; every option has a default.

    :raises GpuPlacementError: an option has an impossible value; the text says what to write.
    """
    return Settings(
        catalog=_path("catalog") or default_catalog_path(),
        catalog_overlay=_path("catalog_overlay"),
        signal_deadline_seconds=_seconds("signal_deadline_seconds", 10.0),
        decide_again_seconds=_seconds("decide_again_seconds", 15.0),
        fence_timeout_seconds=_seconds("fence_timeout_seconds", 30.0, may_be_zero=True),
        installation=_installation(),
    )


def _path(option: str) -> Path | None:
    configured = conf.get(SECTION, option, fallback="") or ""
    try:
        return Path(configured).expanduser() if configured else None
    except RuntimeError as error:
        raise GpuPlacementError(
            f"option {option!r} of section [{SECTION}] is {configured!r}: there is no home folder of that "
            "name; write the path without '~'"
        ) from error


def _installation() -> str | None:
    configured: str = conf.get(SECTION, "installation", fallback="") or ""
    if configured and not _LABEL_VALUE.fullmatch(configured):
        raise GpuPlacementError(
            f"option 'installation' of section [{SECTION}] is {configured!r}; write at most 63 letters, "
            "digits, '-', '_' and '.', beginning and ending with a letter or digit, such as prod-eu"
        )
    return configured or None


def _seconds(option: str, usual: float, *, may_be_zero: bool = False) -> float:
    configured = conf.get(SECTION, option, fallback=str(usual))
    try:
        seconds = float(configured)
    except ValueError:
        seconds = math.nan
    if math.isfinite(seconds) and (seconds > 0 or (may_be_zero and seconds == 0)):
        return seconds
    least = "0 or more" if may_be_zero else "more than 0"
    variable = f"AIRFLOW__{SECTION.upper()}__{option.upper()}"
    raise GpuPlacementError(
        f"option {option!r} of section [{SECTION}] is {configured!r}; write a number of seconds, {least}, "
        f"such as {usual:g}, in airflow.cfg or as {variable} in the environment"
    )
