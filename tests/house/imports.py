"""The import graph of the project, from its sources: module -> modules that it loads at once."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("harness", "workloads", "nemesis", "checkers", "clusters", "reports", "src/holdfast")


@functools.cache
def modules() -> dict[str, Path]:
    """Dotted name below `holdfast` -> file. "" is the package itself."""
    found = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts[2:] if parts[0] == "src" else parts
            linked = any(parent.is_symlink() for parent in path.parents)
            if not linked:
                found[".".join(part for part in parts if part != "__init__")] = path
    return found


@functools.cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file; tests read it and change nothing in it."""
    return ast.parse(path.read_text())


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file's syntax tree."""
    return tuple(ast.walk(tree(path)))


def folder(module: str) -> str:
    """The folder that a module lies in, dotted; a package lies in itself."""
    return module if modules()[module].name == "__init__.py" else module.rpartition(".")[0]


@functools.cache
def loaded(module: str) -> frozenset[str]:
    """The modules that a module imports when it is loaded: not inside functions, not for types."""
    found = _at_once(tree(modules()[module]))
    return frozenset(name for node in found for name in targets(node) if name != module)


def _at_once(node: ast.AST) -> Iterator[ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _at_once(child)


def targets(node: ast.ImportFrom) -> Iterator[str]:
    package, _, base = (node.module or "").partition(".")
    if package == "holdfast":
        for alias in node.names:
            whole = f"{base}.{alias.name}" if base else alias.name
            yield whole if whole in modules() else base


def cycles(imports: Callable[[str], frozenset[str]] = loaded) -> list[list[str]]:
    """Sets of modules that load each other in a cycle; empty where there is none (Tarjan, 1972).

    imports   the modules that a module imports
    """
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(module: str) -> None:
        number[module] = low[module] = len(number)
        stack.append(module)
        for target in sorted(imports(module) & modules().keys()):
            if target not in number:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], number[target])
        if low[module] == number[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(stack[at:])
            del stack[at:]

    for module in modules():
        if module not in number:
            visit(module)
    return found
