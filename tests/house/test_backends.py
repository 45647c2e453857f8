"""What differs between backends is declared on their rows and Protocols, not by their names."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from holdfast import catalogue
from tests.house.imports import modules, nodes

NAMES = {*catalogue.BACKENDS}
CLASSES = {
    row.entry.partition(":")[2] for row in catalogue.BACKENDS.values() if not row.virtual_time
} | {"SimBackend", "NodeLoop"}


def literals(node: ast.expr) -> Iterator[str]:
    """The strings of a literal, alone or in a literal collection."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        for each in node.elts:
            yield from literals(each)


def named(inside: Iterable[ast.AST]) -> list[str]:
    """Comparisons with the name of a backend, and with its class, as they stand."""
    found: list[ast.AST] = []
    for node in inside:
        if isinstance(node, ast.Compare):
            sides = (node.left, *node.comparators)
            if any(word in NAMES for side in sides for word in literals(side)):
                found.append(node)
        elif isinstance(node, ast.MatchValue):
            if any(word in NAMES for word in literals(node.value)):
                found.append(node)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            kinds = {
                ast.unparse(each).rpartition(".")[2]
                for each in ast.walk(node.args[1])
                if isinstance(each, ast.Name | ast.Attribute)
            }
            if kinds & CLASSES:
                found.append(node)
    return [ast.unparse(node) for node in found]


def test_no_backend_is_asked_by_its_name_or_class() -> None:
    wrong = [
        f"{module}: {text}" for module, path in modules().items() for text in named(nodes(path))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "source",
    [
        'plan.backend == "sim"',
        '"local" != name',
        'backend not in ("docker", "ssh")',
        '(key, row[key]) != ("backend", "sim")',
        "isinstance(backend, SimBackend)",
        "isinstance(backend, (Hosting, docker.DockerBackend))",
        'match backend:\n    case "ssh": pass',
    ],
)
def test_such_a_question_is_seen(source: str) -> None:
    assert named(ast.walk(ast.parse(source))) != []


def test_every_trait_differs_between_backends() -> None:
    rows = catalogue.BACKENDS.values()
    for trait in (
        "virtual_time",
        "hosts_file",
        "container_engine",
        "programs_here",
        "clients_here",
        "client_networks",
    ):
        assert {getattr(row, trait) for row in rows} == {True, False}, trait
