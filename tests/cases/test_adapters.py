"""Adapters rename and convert units: their syntax trees show that they do nothing else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ADAPTERS = Path(__file__).with_name("adapters")

MAY_COMPUTE = frozenset({"units.py"})
"""Converts units, and nothing else."""

MAY_COMPARE = frozenset({"reading.py"})
"""Tells notations apart by keys and types, and nothing else."""

CASE_ID = re.compile(r"\b[A-Z]{2,4}-\d{2}\b")

FORBIDDEN = (
    ast.BinOp,
    ast.BoolOp,
    ast.Compare,
    ast.UnaryOp,
    ast.AugAssign,
    ast.If,
    ast.IfExp,
    ast.While,
    ast.Match,
    ast.Try,
)

COMPUTING_CALLS = frozenset(
    {"sum", "min", "max", "abs", "round", "pow", "divmod", "sorted", "any", "all", "eval", "exec", "filter"}
)

MODULES = sorted(path.name for path in ADAPTERS.glob("*.py"))


def tree_of(name: str) -> ast.Module:
    """Parse an adapter without its annotations, where ``|`` is no arithmetic."""
    tree = ast.parse((ADAPTERS / name).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
            for arg in (*node.args.args, *node.args.kwonlyargs, *node.args.posonlyargs):
                arg.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Name(id="Any", ctx=ast.Load())
    return tree


def is_type_checking(node: ast.AST) -> bool:
    """Recognise the block of imports for type checkers."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def computing(name: str) -> list[str]:
    """Return what an adapter computes or compares, by line."""
    found = []
    for node in ast.walk(tree_of(name)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, FORBIDDEN) and not is_type_checking(node):
            found.append(f"{name}:{line}: {type(node).__name__}")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in COMPUTING_CALLS:
            found.append(f"{name}:{line}: {node.func.id}()")
    return found


@pytest.mark.parametrize("name", [name for name in MODULES if name not in MAY_COMPUTE | MAY_COMPARE])
def test_an_adapter_neither_computes_nor_compares(name: str) -> None:
    """What is decided is decided by the product."""
    assert computing(name) == []


@pytest.mark.parametrize("name", sorted(MAY_COMPARE))
def test_what_tells_notations_apart_computes_nothing(name: str) -> None:
    """It looks at keys and types; a number never passes through an operator there."""
    kinds = (ast.BinOp, ast.AugAssign)
    found = [node for node in ast.walk(tree_of(name)) if isinstance(node, kinds)]
    assert [ast.unparse(node) for node in found] == ["RAW_KEYS & value.keys()"]


@pytest.mark.parametrize("name", MODULES)
def test_no_adapter_knows_a_case(name: str) -> None:
    """No text in it, names and comments included, looks like the id of a case."""
    assert CASE_ID.findall((ADAPTERS / name).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source", ["x = a + b", "x = a > b", "x = a or b", "x = not a", "x = b if a else c", "x = sum(a)"]
)
def test_the_check_itself_sees_what_is_forbidden(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that never strikes proves nothing."""
    (tmp_path / "bad.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr("tests.cases.test_adapters.ADAPTERS", tmp_path)
    assert computing("bad.py")
