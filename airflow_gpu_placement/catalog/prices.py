"""Price lists: a CSV file whose rows give prices to the pools that they describe."""

from __future__ import annotations

import csv
import io
import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from airflow_gpu_placement.catalog import fields as read
from airflow_gpu_placement.catalog.problems import Problems
from airflow_gpu_placement.catalog.reader import Key, Keys, Reader, fields, need, section_schema, shown
from airflow_gpu_placement.engine.gpu import identify
from airflow_gpu_placement.engine.gpu_models import complete, satisfies, wanted_model
from airflow_gpu_placement.model.nearest import nearest
from airflow_gpu_placement.model.pool import CapacityType, GpuIdentity, GpuPool
from airflow_gpu_placement.model.words import plain_word, spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

PRICE_LIST_KEYS: Keys = {
    "file": Key(read.text, "CSV file, beside the catalogue or absolute.", needed="name the CSV file"),
    "per": Key(read.choice("gpu", "node"), "What a price is for; with `node` it is divided.", "gpu"),
    "source": Key(read.text, "Where the prices come from; shown beside them.", "the file's name"),
    "ignore": Key(read.many(read.text), "Further columns that mean nothing here.", "none"),
}

COLUMNS = ("pool", "cloud", "region", "zone", "instance", "gpu", "capacity_type")
"""What a row may say of the pools that it is for; an empty cell says nothing."""

INSTANCE_LABEL = "node.kubernetes.io/instance-type"
_UNKNOWN = frozenset({"", "nan", "n/a", "na", "none", "null", "-"})
_NUMBER = re.compile(r"\d+(\.\d*)?([eE][-+]?\d+)?|\.\d+")


class PriceRow(NamedTuple):
    """One row that could be read.

    :param number: line of the file, the header being 1.
    :param says: column -> value, for the pools that it is for.
    :param usd: price for an hour; ``None``: unknown.
    """

    number: int
    says: dict[str, str]
    usd: float | None


class PriceList(NamedTuple):
    """A file that was read."""

    rows: tuple[PriceRow, ...]
    path: str
    source: str
    per_node: bool


def read_price(cell: str) -> float | None:
    """Read a price; an explicit 0 is a real price, an empty cell is none.

    :return: ``None``: unknown (empty, ``nan``, ``N/A``).
    :raises ValueError: it is no number, or negative.
    """
    text = cell.strip()
    if text.casefold() in _UNKNOWN:
        return None
    if text.startswith("-") and _NUMBER.fullmatch(text[1:]):
        raise ValueError(f"{text!r} is negative; leave the cell empty when the price is unknown")
    if _NUMBER.fullmatch(text) is None:
        raise ValueError(f"{text!r} is not a plain number such as 1234.5")
    if not math.isfinite(usd := float(text)):
        raise ValueError(f"{shown(text)} is too large for a price")
    return usd


def _lists(value: Any, path: str, problems: Problems) -> list[dict[str, Any]]:
    if not isinstance(value, list):
        problems.add(path, f"must be a list of price lists, not {shown(value)}")
        return []
    found = []
    for index, entry in enumerate(value):
        before = len(problems.found)
        given = fields(entry, f"{path}[{index}]", problems, PRICE_LIST_KEYS)
        need(entry, f"{path}[{index}]", problems, PRICE_LIST_KEYS)
        if len(problems.found) == before:
            found.append(given)
    return found


price_lists = Reader(_lists, {"type": "array", "items": section_schema(PRICE_LIST_KEYS)})


def read_list(path: Path, given: dict[str, Any], problems: Problems) -> PriceList | None:
    """Read one file; its problems are named as ``file:row 7.price: problem``."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        problems.found.append(f"{path}: the price list cannot be read: {error}")
        return None
    table = csv.DictReader(io.StringIO(text), skipinitialspace=True)
    told = Problems(str(path))
    rows: tuple[PriceRow, ...] = ()
    try:
        if _check_header(table.fieldnames or (), given.get("ignore", ()), told):
            rows = tuple(row for cells in table if (row := _row(table.line_num, cells, told)) is not None)
    except csv.Error as error:
        told.add(f"row {table.line_num}", f"cannot be read: {error}")
    problems.found += told.found
    if told.found:
        return None
    return PriceList(rows, str(path), given.get("source", path.name), given.get("per") == "node")


def _check_header(header: Sequence[str], ignored: Sequence[str], problems: Problems) -> bool:
    known = (*COLUMNS, "price")
    if "price" not in header:
        problems.add("row 1", f"has no column 'price'; the columns are: {', '.join(known)}")
    for column in header:
        if column not in known and column not in ignored:
            problems.add(
                "row 1", f"column {column!r} is not known; {nearest(column, known)} Or name it in 'ignore'"
            )
    return not problems.found


def _row(number: int, cells: dict[str, Any], problems: Problems) -> PriceRow | None:
    before = len(problems.found)
    says = {column: value.strip() for column in COLUMNS if (value := cells.get(column)) and value.strip()}
    if None in cells:
        problems.add(f"row {number}", "has more cells than the header; put a text with commas in quotes")
    if not says:
        problems.add(f"row {number}", f"says of no pool that it is meant; fill one of {', '.join(COLUMNS)}")
    if "capacity_type" in says:
        kinds = tuple(kind.value for kind in CapacityType)
        try:
            says["capacity_type"] = spelled(says["capacity_type"], kinds, "capacity type")
        except ValueError as error:
            problems.add(f"row {number}.capacity_type", str(error))
    usd = None
    try:
        usd = read_price(cells.get("price") or "")
    except ValueError as error:
        problems.add(f"row {number}.price", str(error))
    return PriceRow(number, says, usd) if len(problems.found) == before else None


def priced(
    pools: Sequence[GpuPool],
    machine_usd: Mapping[str, float],
    lists: Sequence[PriceList],
    problems: Problems,
) -> tuple[GpuPool, ...]:
    """Give a price to each pool that has none of its own.

    A row that names the pool is for it before any other, then the row that says more; two that say as much
    and differ in the price are a problem. A list that says that it does not know the price leaves it to the
    next one, and a pool whose price none knows keeps an unknown one.

    :param machine_usd: pool name -> what the machine adds to the price of a GPU hour.
    """
    return tuple(
        pool
        if pool.price.gpu_hour_usd is not None
        else _with_price(pool, machine_usd.get(pool.name, 0.0), lists, problems)
        for pool in pools
    )


def _with_price(pool: GpuPool, machine_usd: float, lists: Sequence[PriceList], problems: Problems) -> GpuPool:
    said: str | None = None
    for prices in lists:
        row = _row_for(pool, prices, problems)
        if row is None:
            continue
        source = f"{prices.source}, row {row.number}"
        if row.usd is None:
            said = said or source
            continue
        usd = row.usd
        if prices.per_node:
            if pool.gpu.per_node is None:
                problems.found.append(
                    f"{prices.path}:row {row.number}: is a price of a node, but pool {pool.name!r} does not "
                    "say its gpu.per_node"
                )
                return pool
            usd /= pool.gpu.per_node
        return _at_price(pool, usd + machine_usd, source)
    return pool if said is None else _at_price(pool, None, said)


def _at_price(pool: GpuPool, usd: float | None, source: str) -> GpuPool:
    price = msgspec.structs.replace(pool.price, gpu_hour_usd=usd, source=pool.price.source or source)
    return msgspec.structs.replace(pool, price=price)


def _row_for(pool: GpuPool, prices: PriceList, problems: Problems) -> PriceRow | None:
    rows = sorted((row for row in prices.rows if _is_for(row, pool)), key=_says_more, reverse=True)
    best = [row for row in rows if _says_more(row) == _says_more(rows[0])]
    if len({row.usd for row in best}) > 1:
        numbers = " and ".join(str(row.number) for row in best)
        problems.found.append(
            f"{prices.path}: rows {numbers} give different prices to pool {pool.name!r}; say more in one, "
            "such as its zone or the pool's name"
        )
    return best[0] if best else None


def _says_more(row: PriceRow) -> tuple[bool, int]:
    return "pool" in row.says, len(row.says)


def _is_for(row: PriceRow, pool: GpuPool) -> bool:
    return all(_agrees(column, value, pool) for column, value in row.says.items())


def _agrees(column: str, value: str, pool: GpuPool) -> bool:
    if column == "gpu":
        gpu = _gpu_of(pool)
        return gpu is not None and satisfies(gpu, wanted_model(value))
    has = {
        "pool": pool.name,
        "cloud": pool.place.cloud,
        "region": pool.place.region,
        "zone": pool.place.zone,
        "instance": pool.node_selector.get(INSTANCE_LABEL),
        "capacity_type": pool.capacity_type.value,
    }[column]
    return has is not None and plain_word(has) == plain_word(value)


def _gpu_of(pool: GpuPool) -> GpuIdentity | None:
    """Tell a pool's GPU without its nodes: as it is declared, else as its node selector says."""
    if pool.gpu.model is None:
        return identify(pool.node_selector)
    return complete(
        GpuIdentity(model=pool.gpu.model, memory_gb=pool.gpu.memory_gb, form_factor=pool.gpu.form_factor)
    )


def files_of(lists: Iterable[dict[str, Any]], folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Pair each price list with the path of its file."""
    return [(folder / given["file"], given) for given in lists]
