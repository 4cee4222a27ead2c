"""Files that are no catalogue are told what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.catalog.catalogues import problems

if TYPE_CHECKING:
    from pathlib import Path

NO_CONN_ID = (
    "must be the id of an Airflow connection, such as 'onprem', not {}; connections are kept in Airflow, "
    "with their secrets (airflow connections add ID ...), and only named here"
)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("", ["is empty; it needs at least 'version: 1' and 'pools:'"], id="empty"),
        pytest.param("- a", ["must be a mapping of keys to values, not a list"], id="a list"),
        pytest.param(
            "pools: [",
            ["line 1, column 9: is not valid YAML: expected the node content, but found '<stream end>'"],
            id="broken",
        ),
        pytest.param(
            "a: 1\n---\nb: 1",
            ["line 2, column 1: is not valid YAML: but found another document"],
            id="two documents",
        ),
        pytest.param(
            "a: !!python/object:os.system x",
            [
                "line 1, column 4: is not valid YAML: could not determine a constructor for the tag "
                "'tag:yaml.org,2002:python/object:os.system'"
            ],
            id="a tag that would run code",
        ),
        pytest.param(
            "version: 1\nregion: \x1b[31mred",
            [
                "line 2, column 9: holds the character U+001B, which YAML does not allow; remove it (what is "
                "copied from a terminal may hold such, for its colours)"
            ],
            id="a colour of a terminal",
        ),
        pytest.param(
            'version: 1\na: [1, "\\ud800"]',
            ["a[1]: holds half of a character (line 2); write the character itself"],
            id="half of a character",
        ),
        pytest.param(
            "version: 1\na: {b: 2026-13-45, c: 1" + "0" * 5000 + ", d: !!int '', e: !!float '', f: !!bool g}",
            [
                "a.b: '2026-13-45' is not a date (line 2)",
                f"a.c: '1{'0' * 55}... is not a whole number (line 2)",
                "a.d: '' is not a whole number (line 2)",
                "a.e: '' is not a number (line 2)",
                "a.f: 'g' is not true or false (line 2)",
            ],
            id="values that are none",
        ),
        pytest.param(
            "a: " + "[" * 5000 + "]" * 5000,
            ["is nested too deeply; a few levels are enough"],
            id="without bottom",
        ),
        pytest.param("version: 1", ["pools: is missing; list at least one pool"], id="no pools"),
        pytest.param(
            "version: 1\npools: []",
            ["pools: must be a list of at least one pool, not an empty list"],
            id="an empty list of pools",
        ),
        pytest.param(
            "pools: [{name: a, kubernetes_conn_id: c}]",
            ["version: is missing; write 'version: 1'"],
            id="no version",
        ),
        pytest.param(
            "version: 2\npools: [{name: a, kubernetes_conn_id: c}]",
            ["version: must be 1, not 2: this release reads version 1"],
            id="another version",
        ),
        pytest.param(
            "version: 1\npools: [{name: a}]",
            [
                "pools[0].kubernetes_conn_id: is missing; name the Airflow connection of the pool's "
                "cluster (pool 'a')"
            ],
            id="no connection",
        ),
        pytest.param(
            "version: 1\npools: [{name: a, kubernetes_conn_id: 'kubernetes://jo:s3cr3t@10.0.0.1/?token=t0k3n'}]",
            [f"pools[0].kubernetes_conn_id: {NO_CONN_ID.format('a URL')} (pool 'a')"],
            id="a connection for its id",
        ),
        pytest.param(
            """version: 1\ndefaults: {kubernetes_conn_id: '{"token": "s3cr3t"}'}\npools: [{name: a}]""",
            [
                f"defaults.kubernetes_conn_id: {NO_CONN_ID.format('this text')}",
                "pools[0].kubernetes_conn_id: is missing; name the Airflow connection of the pool's cluster "
                "(pool 'a')",
            ],
            id="a connection as JSON for its id",
        ),
        pytest.param(
            "version: 1\npools: [{kubernetes_conn_id: c}]",
            ["pools[0].name: is missing; a pool needs a name"],
            id="no name",
        ),
        pytest.param(
            "version: 1\npools:\n  - name: a\n    kubernetes_conn_id: c\n  - name: a\n    "
            "kubernetes_conn_id: c",
            ["pools[1].name: 'a' is the name of pools[0] already"],
            id="a name twice",
        ),
        pytest.param(
            "version: 1\npools:\n  - name: a\n    name: b\n    kubernetes_conn_id: c\nversion: 1",
            [
                "pools[0].name: is given twice (lines 3 and 4); keep one",
                "version: is given twice (lines 1 and 6); keep one",
            ],
            id="keys twice",
        ),
        pytest.param(
            "version: 1\ndefaults: {name: a}\npools: [{name: a, kubernetes_conn_id: c}]",
            [
                "defaults.name: is not a known key; did you mean 'namespace'?",
            ],
            id="a default that makes no sense",
        ),
        pytest.param(
            "version: 1\ndefaults: {gpu: {per_node: x}}\npools: [{name: a, kubernetes_conn_id: c}]",
            ["defaults.gpu.per_node: must be a whole number, not 'x'"],
            id="a wrong default is told once",
        ),
    ],
)
def test_a_document_that_is_no_catalogue_is_told(tmp_path: Path, text: str, want: list[str]) -> None:
    """Nothing is accepted that means nothing."""
    assert sorted(problems(tmp_path, text)) == sorted(want)
