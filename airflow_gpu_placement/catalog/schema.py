"""The format of the catalogue as JSON schema, so that an editor completes and checks it.

``python -m airflow_gpu_placement.catalog.schema > catalog.schema.json`` writes it.
"""

from __future__ import annotations

import json
import sys

from airflow_gpu_placement.catalog.reader import Schema, section_schema
from airflow_gpu_placement.catalog.sections import KEYS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> Schema:
    """Return the schema of a catalogue file.

    It is made of the same tables as the reader. What compares two values (such as a name given twice, or a
    pool that only together with the defaults is complete) JSON schema cannot say, and the reader tells.
    """
    return {"$schema": DIALECT, "title": "Catalogue of GPU pools", **section_schema(KEYS)}


def as_text() -> str:
    """Return the schema as indented JSON."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(as_text())
