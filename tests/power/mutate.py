"""Mutants of the checkers and of the verifier: python -m tests.power.mutate COUNT [SEED]

A mutant is one small change to one function: a comparison, a constant, a sign, `and` for `or`, a
dropped guard, `min` for `max`, a loop that ends after its first turn. Everything is imported once.
Each mutant lives in a fork of that, in which the function gets the changed code, so that whoever
imported it by name has the mutant too. The test files nearest to the changed module by imports run
first, then the others; a mutant that none of them fails has survived.
"""

from __future__ import annotations

import ast
import copy
import importlib
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

ROOT = Path(__file__).parents[2]
MUTATED = (
    "checkers/holds", "checkers/facts", "checkers/properties", "checkers/coverage",
    "harness/verification",
)  # fmt: skip
LONGEST_S = 600
"""Several times what all files take: a mutant that is not done by then runs in a loop."""
SLOW = ("test_growth.py", "test_fixtures.py", "test_kernel.py", "test_shrinking.py")
"""They say little of what is judged, and take long."""

TESTS = ("tests/checkers", "tests/harness/verification")
WITHIN = (
    "holdfast.checkers", "holdfast.harness.verification",
    "tests.checkers", "tests.harness.verification",
)  # fmt: skip
"""Imports are followed through these to tell how near a test is to a module."""

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all",
         "all": "any"}  # fmt: skip
TEXT = ("wording", "_finding", "_told", "_reason", "_excuse", "sentence")
"""Functions that only word what was found: tests of sentences see to those."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """The place of a change: module, function, the n-th node of it, and what is done there."""

    module: str
    function: str
    node: int
    what: str
    line: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}: {self.what}"


Change = tuple[str, Callable[[], None]]


def changes(node: ast.AST) -> Iterator[Change]:
    """All that can be done to one node, in place."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        yield _swap(node.ops, 0)
    if isinstance(node, ast.BoolOp | ast.BinOp | ast.AugAssign) and type(node.op) in SWAPPED:
        other = SWAPPED[type(node.op)]
        name = f"{type(node.op).__name__} -> {other.__name__}"
        yield name, lambda: setattr(node, "op", other())
    if isinstance(node, ast.Constant) and type(node.value) is int:
        value = node.value
        yield f"{value} -> {value + 1}", lambda: setattr(node, "value", value + 1)
    if isinstance(node, ast.Name) and node.id in NAMES:
        yield f"{node.id} -> {NAMES[node.id]}", lambda: setattr(node, "id", NAMES[node.id])
    if isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield f"{node.attr} -> {NAMES[node.attr]}", lambda: setattr(node, "attr", NAMES[node.attr])
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield "guard never", lambda: setattr(node, "test", _never(node.test))
        if not isinstance(node, ast.While):
            yield "guard always", lambda: setattr(node, "test", _always(node.test))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not x -> x", lambda: setattr(node, "op", ast.UAdd())
    if isinstance(node, ast.For) and not isinstance(node.body[-1], ast.Return | ast.Break):
        yield "one turn only", lambda: node.body.append(ast.Break())


def _swap(ops: list[ast.cmpop], at: int) -> Change:
    other = SWAPPED[type(ops[at])]
    name = f"{type(ops[at]).__name__} -> {other.__name__}"
    return name, lambda: ops.__setitem__(at, other())  # type: ignore[call-overload]


def _never(test: ast.expr) -> ast.expr:
    """`test and False`: names in it stay in use, so that closures keep their form."""
    return ast.BoolOp(op=ast.And(), values=[test, ast.Constant(value=False)])


def _always(test: ast.expr) -> ast.expr:
    return ast.BoolOp(op=ast.Or(), values=[test, ast.Constant(value=True)])


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods of a module by their qualified names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    yield f"{node.name}.{part.name}", part


def _places(function: ast.FunctionDef) -> list[ast.AST]:
    """The nodes of the body, without what only words something."""
    nodes: list[ast.AST] = []
    open_now: list[ast.AST] = list(function.body)
    while open_now:
        node = open_now.pop(0)
        if isinstance(node, ast.JoinedStr):
            continue
        nodes.append(node)
        open_now += ast.iter_child_nodes(node)
    return nodes


def mutants() -> list[Mutant]:
    """All there are, in the order of files and lines."""
    found = []
    for part in MUTATED:
        for path in sorted((ROOT / part).glob("*.py")):
            module = f"holdfast.{part.replace('/', '.')}.{path.stem}"
            for name, function in functions(ast.parse(path.read_text())):
                if any(word in f"{path.stem} {name}" for word in TEXT):
                    continue
                for n, node in enumerate(_places(function)):
                    line = getattr(node, "lineno", function.lineno)
                    found += [Mutant(module, name, n, what, line) for what, _ in changes(node)]
    return found


def put_in(mutant: Mutant) -> None:
    """Gives the running function the code of the mutant."""
    module = importlib.import_module(mutant.module)
    assert module.__file__
    tree = copy.deepcopy(ast.parse(Path(module.__file__).read_text()))
    function = dict(functions(tree))[mutant.function]
    node = _places(function)[mutant.node]
    dict(changes(node))[mutant.what]()
    ast.fix_missing_locations(tree)
    fresh = ModuleType(module.__name__)
    fresh.__dict__["__file__"] = module.__file__
    # A module of its own name, so that dataclasses find it; the one in use stays in sys.modules.
    exec(compile(tree, module.__file__, "exec"), fresh.__dict__)
    old, new = (_function(one, mutant.function) for one in (module, fresh))
    old.__code__ = new.__code__


def _function(module: ModuleType, name: str) -> FunctionType:
    found: object = module
    for part in name.split("."):
        found = found.__dict__[part]
    found = getattr(found, "fget", None) or getattr(found, "__wrapped__", None) or found
    found = getattr(found, "__func__", found)
    assert isinstance(found, FunctionType), name
    return found


def distance(module: str, name: str) -> int:
    """How many imports lead from a test to a module."""
    seen, open_now, steps = {name}, [name], 0
    while open_now:
        if module in open_now:
            return steps
        further = {
            found.__module__ if not isinstance(found, ModuleType) else found.__name__
            for one in open_now
            for found in list(vars(sys.modules[one]).values())
            if hasattr(found, "__module__") or isinstance(found, ModuleType)
        }
        open_now = [one for one in further - seen if one in sys.modules and one.startswith(WITHIN)]
        seen.update(open_now)
        steps += 1
    return 99


def test_files() -> list[Path]:
    """Those of tests/checkers and the verifier's own, by name."""
    found = [path for folder in TESTS for path in sorted((ROOT / folder).rglob("test_*.py"))]
    return [path for path in found if path.name not in SLOW]


def ordered(mutant: Mutant, files: Sequence[Path]) -> list[Path]:
    """The nearest first; brute forces after the plain tests at the same distance."""

    def key(path: Path) -> tuple[bool, int, bool, str]:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        own = mutant.module.rpartition(".")[2] in path.stem
        return not own, distance(mutant.module, name), "brute" in path.parts, path.name

    return sorted(files, key=key)


def killed(mutant: Mutant, files: Sequence[Path]) -> str:
    """ "killed" (by a failed test or by running in a loop), "survived" or "error"."""
    child = os.fork()
    if not child:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        code = 3
        try:
            put_in(mutant)
            names = [str(path) for path in files]
            words = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "-m", "not power"]
            code = int(pytest.main([*words, *names]))
        finally:
            os._exit(code)
    ends = time.monotonic() + LONGEST_S
    while time.monotonic() < ends:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return {0: "survived", 1: "killed"}.get(os.waitstatus_to_exitcode(status), "error")
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "killed"


def main() -> None:
    count, seed = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "1"
    every = mutants()
    chosen = random.Random(f"mutants {seed}").sample(every, count)
    files = test_files()
    os.chdir(ROOT)
    for path in files:
        importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    out = sys.stdout
    out.write(f"{count} of {len(every)} mutants, {len(files)} files, {sys.version}\n")
    tally = {"killed": 0, "survived": 0, "error": 0}
    for mutant in chosen:
        begun = time.monotonic()
        came = killed(mutant, ordered(mutant, files))
        tally[came] += 1
        out.write(f"{came:8} {time.monotonic() - begun:4.0f} s  {mutant}\n")
        out.flush()
    out.write(f"{tally}, {time.process_time():.0f} s of CPU besides the forks\n")


if __name__ == "__main__":
    main()
