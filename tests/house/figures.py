"""Figures of the sources, to compare two commits: `python -m tests.house.figures`.

Counts, no verdicts: modules per folder, imports between folders, cycles, `Any`, `getattr`,
fault kinds named outside `nemesis/`, comments, docstrings, lengths, lines of test per line.
"""

from __future__ import annotations

import ast
import io
import statistics
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.catalogue.surface import SURFACE
from tests.house import wall
from tests.house.imports import ROOT, cycles, folder, loaded, modules, nodes

ROOMS = ("harness", "checkers", "clusters", "nemesis", "workloads", "reports")
FAULT_KINDS = {"partition", "pause", "kill", "clock", "freeze", "freeze-write", "slow-links"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def room_of(module: str) -> str:
    """The room of a module, "front door" for what lies in src/holdfast."""
    first = module.partition(".")[0]
    return first if first in ROOMS else "front door"


def parsed() -> Mapping[str, Sequence[ast.AST]]:
    """Module -> the nodes of its syntax tree."""
    return {module: nodes(path) for module, path in modules().items()}


def code_lines(path: Path) -> int:
    """Lines that are neither blank nor comments."""
    lines = (line.strip() for line in path.read_text().splitlines())
    return sum(bool(line) and not line.startswith("#") for line in lines)


def comments(path: Path) -> int:
    """Comments of a file, those behind code too."""
    text = io.StringIO(path.read_text())
    return sum(token.type == tokenize.COMMENT for token in tokenize.generate_tokens(text.readline))


def functions(inside: Iterable[ast.AST]) -> Iterator[Function]:
    """Every function and method among these nodes."""
    return (node for node in inside if isinstance(node, Function))


def arrows(room: str) -> set[tuple[str, str]]:
    """Pairs of folders of a room of which the first imports the second."""
    known = modules().keys()
    return {
        (folder(module), folder(target))
        for module in known
        for target in loaded(module) & known
        if room_of(module) == room_of(target) == room and folder(module) != folder(target)
    }


def names(inside: Iterable[ast.AST], name: str) -> int:
    """How often a name is read in these nodes."""
    return sum(isinstance(node, ast.Name) and node.id == name for node in inside)


def fault_kinds(inside: Iterable[ast.AST]) -> int:
    """Strings among these nodes that are the name of a fault kind."""
    return sum(isinstance(node, ast.Constant) and node.value in FAULT_KINDS for node in inside)


def _beside(module: str) -> bool:
    return wall.package_of(module) not in ("core", "door")


def assigned(name: str) -> int:
    """How often a variable of this name is assigned in the sources."""
    return sum(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for inside in parsed().values()
        for node in inside
    )


def shared_class_names() -> set[str]:
    """Names of which several modules have a class each."""
    count = Counter(
        node.name
        for inside in parsed().values()
        for node in inside
        if isinstance(node, ast.ClassDef)
    )
    return {name for name, times in count.items() if times > 1}


def figures() -> Iterator[tuple[str, object]]:
    """(what, how many) of the whole source tree, in the order in which they are printed."""
    of, files = parsed(), list(modules().values())
    inside: dict[str, int] = {}
    for module, path in modules().items():
        if path.name != "__init__.py":
            inside[folder(module)] = inside.get(folder(module), 0) + 1
    yield "source files", len(files)
    yield "source lines", sum(len(path.read_text().splitlines()) for path in files)
    yield "folders with modules", len(inside)
    yield "most modules in a folder", max(inside.items(), key=lambda one: one[1])
    for room in (*ROOMS, "front door"):
        yield f"imports between folders of {room}", len(arrows(room))
    yield "import cycles", len(cycles())
    yield "import cycles, with imports inside functions", len(cycles(wall.imported))
    core = [module for module in modules() if wall.package_of(module) == "core"]
    yield "modules of the core", len(core)
    yield "lines of code of the core", sum(code_lines(modules()[module]) for module in core)
    yield "imports from the core into packages", len(wall.arrows())
    yield "imports inside functions, without doors", sum(wall.lazy_imports().values())
    yield "most imports of a module of the core", wall.widest()
    surface = {t for m in modules() if _beside(m) for t in wall.imported(m) if not _beside(t)}
    surface = {module for module in surface if wall.package_of(module) == "core"}
    yield "modules of the core that packages import", len(surface)
    yield "of them public", len(surface & set(SURFACE))
    for name in ("found", "told", "said"):
        yield f"assignments of {name}", assigned(name)
    yield "class names with two meanings", len(shared_class_names())
    yield "uses of Any", sum(names(inside, "Any") for inside in of.values())
    yield "uses of getattr", sum(names(inside, "getattr") for inside in of.values())
    elsewhere = [inside for m, inside in of.items() if room_of(m) != "nemesis"]
    yield "fault kinds named outside nemesis", sum(map(fault_kinds, elsewhere))
    share = sum(map(comments, files)) / sum(map(code_lines, files))
    yield "comments per 100 lines of code", f"{100 * share:.2f}"
    public = [f for inside in of.values() for f in functions(inside) if f.name[0] != "_"]
    told = sum(ast.get_docstring(one) is not None for one in public)
    yield "public functions with a docstring", f"{100 * told / len(public):.0f} %"
    sizes = sorted(
        (f.end_lineno or f.lineno) - f.lineno + 1
        for inside in of.values()
        for f in functions(inside)
    )
    median, p90 = statistics.median(sizes), sizes[len(sizes) * 9 // 10]
    yield "lines of a function", f"median {median:g}, p90 {p90}, max {sizes[-1]}"
    for room in ROOMS:
        own = sum(code_lines(path) for m, path in modules().items() if room_of(m) == room)
        tests = sum(code_lines(path) for path in (ROOT / "tests" / room).rglob("*.py"))
        yield f"lines of test per line of {room}", f"{tests / own:.2f}"


def main() -> None:
    """Prints the figures, one a line."""
    for what, value in figures():
        print(f"{what:<45}  {value}")  # noqa: T201


if __name__ == "__main__":
    main()
