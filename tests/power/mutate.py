"""Mutants of the checkers and of the verifier: python -m tests.power.mutate COUNT [SEED [WORKERS]]

or, of one place: python -m tests.power.mutate --only holdfast.checkers.facts.legal_orders:67 ...

A mutant is one small change to one function: a comparison, a constant, a sign, `and` for `or`, a
dropped guard, `min` for `max`, a loop that ends after its first turn. The tests are collected once
and run once, to learn which of them execute which lines and how long each takes. Each mutant lives
in a fork of that, in which the function gets the changed code, so that modules that imported it by
name have the mutant too. There the tests that execute the changed statement run, up to the first
that fails: first those that killed most mutants so far for their time. A mutant that none of them
fails has survived.
"""

from __future__ import annotations

import ast
import copy
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).parents[2]
MUTATED = (
    "checkers/holds", "checkers/facts", "checkers/properties", "checkers/coverage",
    "harness/verification",
)  # fmt: skip
LONGEST_S = 900
"""Several times what all tests take: a mutant that is not done by then runs in a loop."""
SLOW = ("test_growth.py", "test_fixtures.py", "test_kernel.py", "test_shrinking.py")
"""They say little of what is judged, and take long."""
MOST_CALLS = 300
"""Calls of one function in one test of which the lines are noted one by one."""
Trace = Callable[[FrameType, str, Any], Any]
WORDS = ["-q", "-n0", "-p", "no:cacheprovider", "-m", "not power"]

TESTS = ("tests/checkers", "tests/harness/verification")
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
    """The place of a change: module, function, the n-th node of it, and what is done there.

    lines   of the innermost statement around it, without the statements within that
    """

    module: str
    function: str
    node: int
    what: str
    line: int
    lines: range

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
        open_now += _children(node)
    return nodes


def _children(node: ast.AST) -> list[ast.AST]:
    """Its parts, without annotations, which are never evaluated."""
    return [
        child
        for name, part in ast.iter_fields(node)
        if name != "annotation"
        for child in (part if isinstance(part, list) else [part])
        if isinstance(child, ast.AST)
    ]


def _lines(function: ast.FunctionDef) -> list[range]:
    """Of each of `_places` the lines of its statement: one of them is executed if it is."""
    lines: list[range] = []
    open_now = [(node, _own_lines(node)) for node in function.body]
    while open_now:
        node, own = open_now.pop(0)
        if isinstance(node, ast.JoinedStr):
            continue
        lines.append(own)
        for child in _children(node):
            begins = isinstance(child, ast.stmt | ast.ExceptHandler)
            open_now.append((child, _own_lines(child) if begins else own))  # type: ignore[arg-type]
    return lines


def _own_lines(node: ast.stmt | ast.ExceptHandler) -> range:
    body = getattr(node, "body", None)
    over = body[0].lineno if body else (node.end_lineno or node.lineno) + 1
    return range(node.lineno, max(over, node.lineno + 1))


def mutants() -> list[Mutant]:
    """All there are, in the order of files and lines."""
    found = []
    for part in MUTATED:
        for path in sorted((ROOT / part).glob("*.py")):
            module = f"holdfast.{part.replace('/', '.')}.{path.stem}"
            for name, function in functions(ast.parse(path.read_text())):
                if any(word in f"{path.stem} {name}" for word in TEXT):
                    continue
                nodes = zip(_places(function), _lines(function), strict=True)
                for n, (node, lines) in enumerate(nodes):
                    line = getattr(node, "lineno", function.lineno)
                    found += [
                        Mutant(module, name, n, what, line, lines) for what, _ in changes(node)
                    ]
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


def test_files() -> list[Path]:
    """Those of tests/checkers and the verifier's own, by name."""
    found = [path for folder in TESTS for path in sorted((ROOT / folder).rglob("test_*.py"))]
    return [path for path in found if path.name not in SLOW]


Lines = dict[str, list[int]]
"""Per file of the code that is changed the lines that a test executes."""


@dataclass(slots=True)
class Test:
    """One test: how long it takes, what it executes, and how many mutants it killed so far."""

    item: pytest.Item
    seconds: float
    lines: Mapping[str, frozenset[int]]
    kills: int = 0

    def executes(self, file: str, lines: range) -> bool:
        return not self.lines.get(file, frozenset()).isdisjoint(lines)

    @property
    def price(self) -> float:
        """Its time per mutant that it is expected to kill."""
        return self.seconds / (self.kills + 1)


def fails(item: pytest.Item) -> bool:
    """Whether a test fails; what it sets up is torn down again."""
    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def watch(item: pytest.Item, files: Collection[str]) -> tuple[float, Lines]:
    """How long a test takes, and which lines of these files it executes."""
    seen: defaultdict[str, set[int]] = defaultdict(set)
    calls = Counter[CodeType]()

    def enter(frame: FrameType, event: str, _: object) -> Trace | None:
        code = frame.f_code
        if code.co_filename not in files:
            return None
        calls[code] += 1
        if calls[code] < MOST_CALLS:
            return note
        if calls[code] == MOST_CALLS:  # it may execute any of its lines: that loses no kill
            seen[code.co_filename] |= {line for _, _, line in code.co_lines() if line}
        return None

    def note(frame: FrameType, event: str, _: object) -> Trace:
        seen[frame.f_code.co_filename].add(frame.f_lineno)
        return note

    begun = time.perf_counter()
    sys.settrace(enter)
    try:
        failed = fails(item)
    finally:
        sys.settrace(None)
    if failed:
        raise AssertionError(f"{item.nodeid} fails without any change")
    return time.perf_counter() - begun, {file: sorted(lines) for file, lines in seen.items()}


def in_a_fork(work: Callable[[], bytes | None], longest_s: float) -> tuple[int, bytes]:
    """Exit code and result of a child: 0, 1 if the result is None, 3 if it raised, -1 if late."""
    with tempfile.TemporaryFile() as result:
        child = os.fork()
        if not child:
            code = 3
            try:
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, 1)
                data = work()
                code = 1 if data is None else 0
                result.write(data or b"")
                result.flush()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        ends = time.monotonic() + longest_s
        while time.monotonic() < ends:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                result.seek(0)
                return os.waitstatus_to_exitcode(status), result.read()
            time.sleep(0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return -1, b""


def learned(items: Sequence[pytest.Item], every: Sequence[Mutant]) -> list[Test]:
    """All tests, with what they execute."""
    files = {file_of(name) for name in {mutant.module for mutant in every}}
    code, data = in_a_fork(
        lambda: json.dumps([watch(item, files) for item in items]).encode(), 10 * LONGEST_S
    )
    assert code == 0, "the tests do not pass without a change"
    return [
        Test(item, seconds, {file: frozenset(lines) for file, lines in told.items()})
        for item, (seconds, told) in zip(items, json.loads(data), strict=True)
    ]


def file_of(module: str) -> str:
    """Where the code of a module comes from, as its code objects name it."""
    file = importlib.import_module(module).__file__
    assert file
    return file


def killed(mutant: Mutant, tests: Sequence[Test]) -> str:
    """ "killed" (by a failed test or by running in a loop), "survived" or "error"."""
    file = file_of(mutant.module)
    mine = [test for test in tests if test.executes(file, mutant.lines)]
    mine.sort(key=lambda test: test.price)

    def work() -> bytes | None:
        put_in(mutant)
        return next((str(n).encode() for n, test in enumerate(mine) if fails(test.item)), None)

    code, by = in_a_fork(work, LONGEST_S)
    if code == 0:
        mine[int(by)].kills += 1
    return {0: "killed", 1: "survived", -1: "killed"}.get(code, "error")


class Mutation:
    """Takes the place of pytest's own loop over the tests."""

    def __init__(self, every: Sequence[Mutant], chosen: Sequence[Mutant], workers: int = 1) -> None:
        self.every, self.chosen, self.workers = every, chosen, workers
        # Pytest captures what is printed while tests run.
        self.out = os.fdopen(os.dup(1), "w", buffering=1)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Every chosen mutant against the tests that call it."""
        total = f"{len(self.chosen)} of {len(self.every)} mutants, {len(session.items)} tests"
        self.out.write(f"{total}, {sys.version}\n")
        tests = learned(session.items, self.every)
        others = []
        for worker in range(1, self.workers):
            child = os.fork()
            if not child:
                self._judge(tests, worker)
                os._exit(0)
            others.append(child)
        self._judge(tests, 0)
        for child in others:
            os.waitpid(child, 0)
        return True

    def _judge(self, tests: Sequence[Test], worker: int) -> None:
        """The mutants of one worker, and what they came to."""
        counts = Counter[str]()
        for mutant in self.chosen[worker :: self.workers]:
            begun = time.monotonic()
            came = killed(mutant, tests)
            counts[came] += 1
            self.out.write(f"{came:8} {time.monotonic() - begun:4.0f} s  {mutant}\n")
        spent = os.times()
        self.out.write(f"{dict(counts)}, {sum(spent[:4]):.0f} s of CPU\n")


def chosen(words: Sequence[str], every: Sequence[Mutant]) -> list[Mutant]:
    """What the command line asks for: so many at random, or all at some places."""
    if words[0] == "--only":
        return [one for one in every if any(word in str(one) for word in words[1:])]
    seed = words[1] if len(words) > 1 else "1"
    return random.Random(f"mutants {seed}").sample(every, int(words[0]))


def main() -> None:
    os.chdir(ROOT)
    every = mutants()
    words = sys.argv[1:]
    workers = int(words[2]) if len(words) > 2 and words[0] != "--only" else 1
    plugin = Mutation(every, chosen(words, every), workers)
    pytest.main([*WORDS, *map(str, test_files())], plugins=[plugin])


if __name__ == "__main__":
    main()
