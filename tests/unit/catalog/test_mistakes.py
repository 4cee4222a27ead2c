"""Every mistake in a pool is told with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.catalog.catalogues import one, problems

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        pytest.param(
            {"prise": "{}"}, "pools[0].prise: is not a known key; did you mean 'price'?", id="a slip"
        ),
        pytest.param(
            {"gpu": "{models: H100}"},
            "pools[0].gpu.models: is not a known key; did you mean 'model'?",
            id="a slip inside",
        ),
        pytest.param(
            {"gpu": "{model: H1000}"},
            "pools[0].gpu.model: 'H1000' is not a known GPU model; did you mean 'H100'? For a model "
            "newer than "
            "this release leave the key out: the nodes' own labels then name it; or describe it below "
            "gpu_models",
            id="an unknown model",
        ),
        pytest.param(
            {"gpu": "{model: A100-40GB, memory_gb: 80}"},
            "pools[0].gpu.memory_gb: is 80, but the model says 40; keep one",
            id="two memories",
        ),
        pytest.param(
            {"gpu": '{memory_gb: "80"}'},
            "pools[0].gpu.memory_gb: must be a number, not '80'",
            id="a text for a number",
        ),
        pytest.param(
            {"gpu": "{memory_gb: .nan}"}, "pools[0].gpu.memory_gb: must be a number, not nan", id="no number"
        ),
        pytest.param(
            {"gpu": "{per_node: 0}"}, "pools[0].gpu.per_node: must be at least 1, not 0", id="too small"
        ),
        pytest.param(
            {"gpu": "{per_node: 8}", "max_nodes": "1000000000"},
            "pools[0].max_nodes: must be at most 100000, not 1000000000",
            id="more nodes than any cluster has",
        ),
        pytest.param(
            {"price": f"{{gpu_hour_usd: 1{'0' * 400}}}"},
            f"pools[0].price.gpu_hour_usd: must be a number, not 1{'0' * 56}...",
            id="more than a number can be",
        ),
        pytest.param(
            {"gpu": "{per_node: 7.5}"},
            "pools[0].gpu.per_node: must be a whole number, not 7.5",
            id="a part of a GPU",
        ),
        pytest.param(
            {"gpu": "{per_node: yes}"},
            "pools[0].gpu.per_node: must be a whole number, not True",
            id="yes is no number",
        ),
        pytest.param(
            {"gpu": "{form_factor: HGX9}"},
            "pools[0].gpu.form_factor: 'HGX9' is not a known form factor; one of: APU, NVL, OAM, PCIe, SXM",
            id="an unknown form factor",
        ),
        pytest.param(
            {"gpu": "[H100]"}, "pools[0].gpu: must be a mapping of keys to values, not a list", id="a list"
        ),
        pytest.param(
            {"capacity_type": "on-demand"},
            "pools[0].capacity_type: 'on-demand' is not possible here; did you mean 'on_demand'? "
            "(one of: reserved, on_demand, spot)",
            id="an unknown word",
        ),
        pytest.param(
            {"price": "{gpu_hour_usd: -1}"},
            "pools[0].price.gpu_hour_usd: must be at least 0, not -1",
            id="a negative price",
        ),
        pytest.param(
            {"price": '{gpu_hour_usd: "1,234.5"}'},
            "pools[0].price.gpu_hour_usd: must be a number, not '1,234.5'",
            id="a price that is no number",
        ),
        pytest.param(
            {"price": "{gpu_hour_usd: 1, node_hour_usd: 8}", "gpu": "{per_node: 8}"},
            "pools[0].price: gives both gpu_hour_usd and node_hour_usd; keep one",
            id="two prices",
        ),
        pytest.param(
            {"price": "{node_hour_usd: 8}"},
            "pools[0].gpu.per_node: is missing; price.node_hour_usd cannot be split without it",
            id="a price of an unknown number of GPUs",
        ),
        pytest.param(
            {"max_nodes": "4"},
            "pools[0].gpu.per_node: is missing; a pool with max_nodes can be empty, and then nothing "
            "else tells how "
            "large a node is",
            id="a pool that can be empty",
        ),
        pytest.param(
            {"node_selector": "{gpu: true}"},
            "pools[0].node_selector.gpu: must be text, not True; put it in quotes",
            id="no text",
        ),
        pytest.param(
            {"node_selector": '{"a b": c}'},
            "pools[0].node_selector.a b: is not a label key such as 'nvidia.com/gpu.product'",
            id="no label key",
        ),
        pytest.param(
            {"node_selector": '{a: "b c"}'},
            "pools[0].node_selector.a: 'b c' is not a label value: up to 63 letters, digits, '-', '_', '.'",
            id="no label value",
        ),
        pytest.param(
            {"region": "<REGION>"}, "pools[0].region: <REGION> is still to be filled in", id="a place"
        ),
        pytest.param(
            {"namespace": "Train"},
            "pools[0].namespace: 'Train' is not a namespace: up to 63 lower-case letters, digits and '-'",
            id="no namespace",
        ),
        pytest.param({"namespace": '""'}, "pools[0].namespace: must not be empty", id="nothing"),
        pytest.param(
            {"region": "7"},
            "pools[0].region: must be text, not 7; put it in quotes",
            id="a number for a text",
        ),
        pytest.param(
            {"tolerations": "{}"},
            "pools[0].tolerations: must be a list of tolerations, not a mapping",
            id="no list",
        ),
        pytest.param(
            {"tolerations": "[{key: a, operator: exists}]"},
            "pools[0].tolerations[0].operator: 'exists' is not possible here; did you mean 'Exists'? "
            "(one of: Exists, Equal)",
            id="an unknown operator",
        ),
        pytest.param(
            {"tolerations": "[{key: a, operator: Exists, value: b}]"},
            "pools[0].tolerations[0]: operator Exists takes no value",
            id="a value too many",
        ),
        pytest.param(
            {"tolerations": "[{value: b}]"},
            "pools[0].tolerations[0]: needs a key, or operator: Exists to tolerate everything",
            id="no key",
        ),
        pytest.param(
            {"node_deletion_is_proof": "1"},
            "pools[0].node_deletion_is_proof: must be true or false, not 1",
            id="no flag",
        ),
        pytest.param(
            {"node_grace_seconds": "0"},
            "pools[0].node_grace_seconds: must be more than 0, not 0",
            id="no time",
        ),
        *(
            pytest.param(
                {key: "hush"},
                f"pools[0].{key}: secrets do not belong here; put it in the Airflow connection",
                id=f"a secret: {key}",
            )
            for key in ("token", "password", "kube_config", "kubeconfig", "client_key", "api_key")
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, fields: dict[str, str], want: str) -> None:
    """File, path and pool, what is wrong, and what to write where that is known."""
    assert problems(tmp_path, one(**fields)) == [f"{want} (pool 'a')"]


def test_a_number_of_more_digits_than_python_writes_is_told(tmp_path: Path) -> None:
    """Its digits cannot be shown, its place can."""
    for key, want in (("max_nodes: ", "at most 100000"), ("max_nodes: -", "at least 1")):
        text = f"{one(gpu='{per_node: 8}')}    {key}0x{'f' * 9000}\n"
        assert problems(tmp_path, text) == [
            f"pools[0].max_nodes: must be {want}, not a number of more than 4300 digits (pool 'a')"
        ]
