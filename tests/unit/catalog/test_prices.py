"""Price lists: which cells are prices, and which rows are for which pool."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from airflow_gpu_placement.catalog import load
from airflow_gpu_placement.catalog.prices import read_price
from airflow_gpu_placement.exceptions import CatalogError
from tests.unit.catalog.catalogues import problems, read

if TYPE_CHECKING:
    from pathlib import Path

POOLS = """
version: 1
prices:
  - {file: list.csv, source: price list of May}
pools:
  - {name: a, kubernetes_conn_id: c, cloud: aws, region: eu-west-1, zone: eu-west-1a, capacity_type: spot,
     gpu: {model: H100, memory_gb: 80, form_factor: SXM, per_node: 8},
     node_selector: {node.kubernetes.io/instance-type: p5.48xlarge}}
  - {name: b, kubernetes_conn_id: c, node_selector: {nvidia.com/gpu.product: NVIDIA-L4}}
  - {name: own, kubernetes_conn_id: c, cloud: aws, price: {gpu_hour_usd: 7}}
"""


@pytest.mark.parametrize(
    ("cell", "want"),
    [
        pytest.param("", None, id="an empty cell is unknown"),
        pytest.param("  ", None, id="blanks are unknown"),
        pytest.param("nan", None, id="nan is unknown"),
        pytest.param("NaN", None, id="NaN is unknown"),
        pytest.param("N/A", None, id="N/A is unknown"),
        pytest.param("12.5", 12.5, id="a number is a price"),
        pytest.param("0", 0.0, id="0 is a real price"),
        pytest.param("1e-2", 0.01, id="an exponent is a number"),
    ],
)
def test_a_cell_is_a_price_or_unknown(cell: str, want: float | None) -> None:
    """Nothing that is not said becomes 0, and no comparison ever meets a nan."""
    assert read_price(cell) == want


@pytest.mark.parametrize(
    ("cell", "want"),
    [
        pytest.param("-1", "'-1' is negative; leave the cell empty when the price is unknown", id="negative"),
        pytest.param("1,234.5", "'1,234.5' is not a plain number such as 1234.5", id="thousands"),
        pytest.param("$3", "'$3' is not a plain number such as 1234.5", id="a currency"),
        pytest.param("1e999", "'1e999' is too large for a price", id="more than a number can be"),
        pytest.param("inf", "'inf' is not a plain number such as 1234.5", id="no end"),
        pytest.param("3 USD", "'3 USD' is not a plain number such as 1234.5", id="a unit"),
    ],
)
def test_a_cell_that_is_no_price_is_rejected(cell: str, want: str) -> None:
    """It is not guessed what was meant."""
    with pytest.raises(ValueError, match=f"^{re.escape(want)}$"):
        read_price(cell)


def prices_of(folder: Path, rows: str, text: str = POOLS) -> dict[str, tuple[float | None, str | None]]:
    """Write a price list and return each pool's price and source."""
    (folder / "list.csv").write_text(rows, encoding="utf-8-sig")
    return {pool.name: (pool.price.gpu_hour_usd, pool.price.source) for pool in read(folder, text).pools}


MAY = "price list of May, row"


@pytest.mark.parametrize(
    ("rows", "want"),
    [
        pytest.param("pool,price\na,3\n", {"a": (3.0, f"{MAY} 2")}, id="by the pool's name"),
        pytest.param(
            "cloud,region,capacity_type,price\naws,eu-west-1,on-demand,9\nAWS,eu-west-1,Spot,4\n",
            {"a": (4.0, f"{MAY} 3")},
            id="by cloud, region and kind of capacity in any spelling",
        ),
        pytest.param("instance,price\np5.48xlarge,5\n", {"a": (5.0, f"{MAY} 2")}, id="by machine type"),
        pytest.param(
            "gpu,price\nnvidia-h100-80gb,6\nL4,0.4\nA100,9\n",
            {"a": (6.0, f"{MAY} 2"), "b": (0.4, f"{MAY} 3")},
            id="by GPU, declared or in the node selector",
        ),
        pytest.param(
            "region,zone,price\neu-west-1,,6\neu-west-1,eu-west-1a,5\neu-west-1,eu-west-1b,4\n",
            {"a": (5.0, f"{MAY} 3")},
            id="the row that says more",
        ),
        pytest.param(
            "pool,region,zone,price\na,,,8\n,eu-west-1,eu-west-1a,5\n",
            {"a": (8.0, f"{MAY} 2")},
            id="the row with the name before any other",
        ),
        pytest.param("pool,price\na,\n", {"a": (None, f"{MAY} 2")}, id="a row without a price"),
        pytest.param("cloud,price\naws,1\n", {"a": (1.0, f"{MAY} 2")}, id="not over a price of its own"),
        pytest.param("cloud,price\ngcp,1\n", {}, id="no row at all"),
    ],
)
def test_a_row_is_for_the_pools_that_it_describes(
    tmp_path: Path, rows: str, want: dict[str, tuple[float | None, str | None]]
) -> None:
    """A pool that no row describes keeps an unknown price and stays in use."""
    unknown = {"a": (None, None), "b": (None, None), "own": (7.0, None)}
    assert prices_of(tmp_path, rows) == {**unknown, **want}


def test_a_price_of_a_node_is_divided(tmp_path: Path) -> None:
    """Per node in the list, per GPU in the decision."""
    text = POOLS.replace("source: price list of May", "per: node")
    assert prices_of(tmp_path, "pool,price\na,80\n", text)["a"] == (10.0, "list.csv, row 2")


def test_the_first_list_that_knows_the_pool_counts(tmp_path: Path) -> None:
    """Negotiated prices go before list prices."""
    (tmp_path / "ours.csv").write_text("pool,price\nb,0.1\n")
    text = POOLS.replace("prices:\n", "prices:\n  - {file: ours.csv}\n")
    found = prices_of(tmp_path, "pool,price\na,3\nb,9\n", text)
    assert (found["a"][0], found["b"]) == (3.0, (0.1, "ours.csv, row 2"))


def test_a_list_that_does_not_know_the_price_leaves_it_to_the_next(tmp_path: Path) -> None:
    """The pool has a row in the first; only when no list knows more is that the source."""
    (tmp_path / "ours.csv").write_text("pool,price\na,N/A\nb,N/A\n")
    text = POOLS.replace("prices:\n", "prices:\n  - {file: ours.csv}\n")
    found = prices_of(tmp_path, "pool,price\na,3\n", text)
    assert (found["a"], found["b"]) == ((3.0, f"{MAY} 2"), (None, "ours.csv, row 3"))


def test_the_machine_comes_on_top_of_a_listed_price(tmp_path: Path) -> None:
    """As on top of a price in the catalogue; a price of a node is divided first."""
    text = POOLS.replace("per_node: 8},", "per_node: 8}, price: {machine_hour_usd: 8},")
    assert prices_of(tmp_path, "pool,price\na,2\n", text)["a"][0] == 3.0
    per_node = text.replace("source: price list of May", "per: node")
    assert prices_of(tmp_path, "pool,price\na,80\n", per_node)["a"][0] == 11.0
    assert prices_of(tmp_path, "pool,price\na,\n", text)["a"][0] is None


@pytest.mark.parametrize(
    ("rows", "want"),
    [
        pytest.param(
            'pool,price\na,-1\nb,"1,234.5"\n',
            [
                "row 2.price: '-1' is negative; leave the cell empty when the price is unknown",
                "row 3.price: '1,234.5' is not a plain number such as 1234.5",
            ],
            id="cells that are no prices",
        ),
        pytest.param(
            "pool,price\na,1,234.5\n",
            ["row 2: has more cells than the header; put a text with commas in quotes"],
            id="a comma too many",
        ),
        pytest.param(
            "pool,regoin,price\na,x,1\n",
            ["row 1: column 'regoin' is not known; did you mean 'region'? Or name it in 'ignore'"],
            id="a slip in the header",
        ),
        pytest.param(
            "pool,usd\na,1\n",
            [
                "row 1: has no column 'price'; the columns are: pool, cloud, region, zone, instance, gpu, "
                "capacity_type, price",
                "row 1: column 'usd' is not known; one of: capacity_type, cloud, gpu, instance, pool, price, "
                "region, zone Or name it in 'ignore'",
            ],
            id="no prices",
        ),
        pytest.param(
            "pool,price\n,1\n",
            [
                "row 2: says of no pool that it is meant; fill one of pool, cloud, region, zone, instance, "
                "gpu, capacity_type"
            ],
            id="a price of nothing",
        ),
        pytest.param(
            "pool,capacity_type,price\na,preemptable,1\n",
            [
                "row 2.capacity_type: 'preemptable' is not a known capacity type; one of: on_demand, "
                "reserved, spot"
            ],
            id="an unknown kind of capacity",
        ),
    ],
)
def test_a_row_that_cannot_be_read_is_rejected_with_its_number(
    tmp_path: Path, rows: str, want: list[str]
) -> None:
    """All rejected rows are told at once, as ``file:row.column: problem``."""
    (tmp_path / "list.csv").write_text(rows)
    assert list_problems(tmp_path) == want


def list_problems(folder: Path) -> list[str]:
    """Load a catalogue whose price list is wrong and return the problems of the list."""
    with pytest.raises(CatalogError) as caught:
        read(folder, POOLS)
    file = f"{folder / 'list.csv'}:"
    assert all(problem.startswith(file) for problem in caught.value.problems)
    return [problem.removeprefix(file).strip() for problem in caught.value.problems]


def test_a_file_that_is_no_table_is_told(tmp_path: Path) -> None:
    """What the reader of such files itself cannot read."""
    (tmp_path / "list.csv").write_text(f"pool,price\na,{'2' * 200_000}\n")
    assert list_problems(tmp_path) == ["row 1: cannot be read: field larger than field limit (131072)"]


def test_two_rows_for_one_pool_are_told(tmp_path: Path) -> None:
    """Neither the first nor the cheaper is silently taken."""
    (tmp_path / "list.csv").write_text("region,cloud,price\neu-west-1,,1\n,aws,2\n")
    assert list_problems(tmp_path) == [
        "rows 2 and 3 give different prices to pool 'a'; say more in one, such as its zone or the pool's name"
    ]


def test_a_price_list_that_is_not_there_is_told(tmp_path: Path) -> None:
    """The file that was looked for is named."""
    (problem,) = list_problems(tmp_path)
    assert problem.startswith("the price list cannot be read: [Errno 2] No such file")


def test_a_price_of_a_node_needs_its_size(tmp_path: Path) -> None:
    """A node price is not taken for the price of a GPU."""
    (tmp_path / "list.csv").write_text("pool,price\nb,8\n")
    (tmp_path / "gpu.yaml").write_text(POOLS.replace("source: price list of May", "per: node"))
    with pytest.raises(CatalogError, match="row 2: is a price of a node, but pool 'b' does not say its gpu"):
        load(tmp_path / "gpu.yaml")


@pytest.mark.parametrize(
    ("section", "want"),
    [
        pytest.param("[{}]", ["prices[0].file: is missing; name the CSV file"], id="no file"),
        pytest.param("a.csv", ["prices: must be a list of price lists, not 'a.csv'"], id="a text"),
        pytest.param(
            "[{file: a.csv, per: hour}]",
            ["prices[0].per: 'hour' is not possible here; one of: gpu, node"],
            id="an unknown unit",
        ),
    ],
)
def test_a_wrong_section_is_told(tmp_path: Path, section: str, want: list[str]) -> None:
    """The section is as strict as the others."""
    text = f"version: 1\nprices: {section}\npools: [{{name: a, kubernetes_conn_id: c}}]\n"
    assert problems(tmp_path, text) == want
