"""Cases that no pure function can answer: who answers them instead, or what they wait for."""

from __future__ import annotations

import tomllib
from pathlib import Path

FILE = Path(__file__).with_name("lifecycle.toml")

_READ = tomllib.loads(FILE.read_text(encoding="utf-8"))

TESTED: dict[str, str] = _READ["tested"]
"""Id of a case -> node id of the ordinary test that is about it."""

WAITING: dict[str, str] = _READ["waiting"]
"""Id of a case -> the capability that it waits for."""

LIFE_CYCLE: dict[str, str] = {
    **{key: f"see {test}" for key, test in TESTED.items()},
    **{key: f"waits for {what}" for key, what in WAITING.items()},
}
