"""Mutants of the checkers and of the verifier: python -m tests.power.mutate COUNT [SEED [WORKERS]]

or, of one place: python -m tests.power.mutate --only holdfast.checkers.facts.legal_orders:67 ...
or, all that no test can tell from the code as it is: python -m tests.power.mutate --unseen

Of other folders, by their tests: --of harness/plans,workloads --by tests/harness,tests/workloads
before these words. What `make test` alone kills: --quick before all of them. Without it tests draw
as many inputs as in `make test-long`, unless HOLDFAST_DRAWS says otherwise.

A mutant is one small change to one function: a comparison, a constant, a sign, `and` for `or`, a
dropped guard, `min` for `max`, a loop that ends after its first turn. The tests are collected once
and run once, with probes in the code, to learn which mutants each of them could tell from the code
as it is and how long it takes. Each mutant lives in a fork of that, in which the function gets the
changed code, so that modules that imported it by name have the mutant too. There the tests that
could tell it run, up to the first that fails: first those that killed most mutants so far for their
time. A mutant that none of them fails has survived; one that no test can tell is "unseen".
"""

from __future__ import annotations

import ast
import importlib
import json
import math
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
from _pytest.runner import runtestprotocol

from tests.draws import VARIABLE
from tests.power.probes import Probes, by_node, put_probes
from tests.quick import QUICK

ROOT = Path(__file__).parents[2]
MUTATED = (
    "checkers/holds", "checkers/facts", "checkers/properties", "checkers/coverage",
    "harness/verification",
)  # fmt: skip
TIMES_LONGER = 10
"""A mutant with which a test takes so many times its CPU time, and 10 s, runs in a loop."""
IN_A_LOOP = -signal.SIGXCPU
SLOW = ("test_growth.py", "test_fixtures.py", "test_shrinking.py")
"""They say little of what is judged, and take long."""
WORDS = ["-q", "-n0", "-p", "no:cacheprovider", "-m"]

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
Function = ast.FunctionDef | ast.AsyncFunctionDef


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
        if not isinstance(node, ast.While) and not _memo(node):
            yield "guard always", lambda: setattr(node, "test", _always(node.test))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not x -> x", lambda: setattr(node, "op", ast.UAdd())
    if isinstance(node, ast.For) and not isinstance(node.body[-1], ast.Return | ast.Break):
        yield "one turn only", lambda: node.body.append(ast.Break())


def _memo(node: ast.AST) -> bool:
    """Whether it is `if k not in d: ...; d[k] = ...` or `if a is None: ...; a = ...`: to make anew
    what is kept changes nothing but the time."""
    if not isinstance(node, ast.If) or node.orelse or not isinstance(node.test, ast.Compare):
        return False
    last, test = node.body[-1], node.test
    if not isinstance(last, ast.Assign | ast.AnnAssign):
        return False
    assigned = {
        ast.unparse(each)
        for each in (last.targets if isinstance(last, ast.Assign) else [last.target])
    }
    left, right = ast.unparse(test.left), ast.unparse(test.comparators[0])
    kept = f"{right}[{left}]" if isinstance(test.ops[0], ast.NotIn) else left
    return isinstance(test.ops[0], ast.NotIn | ast.Is) and kept in assigned


def _swap(ops: list[ast.cmpop], at: int) -> Change:
    other = SWAPPED[type(ops[at])]
    name = f"{type(ops[at]).__name__} -> {other.__name__}"
    return name, lambda: ops.__setitem__(at, other())  # type: ignore[call-overload]


def _never(test: ast.expr) -> ast.expr:
    """`test and False`: names in it stay in use, so that closures keep their form."""
    return ast.BoolOp(op=ast.And(), values=[test, ast.Constant(value=False)])


def _always(test: ast.expr) -> ast.expr:
    return ast.BoolOp(op=ast.Or(), values=[test, ast.Constant(value=True)])


def functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Functions and methods of a module, coroutines too, by their qualified names."""
    for node in tree.body:
        if isinstance(node, Function):
            yield node.name, node
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, Function):
                    yield f"{node.name}.{part.name}", part


def _places(function: Function) -> list[ast.AST]:
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


def mutants(folders: Sequence[str] = MUTATED) -> list[Mutant]:
    """All there are in these folders, in the order of files and lines."""
    found = []
    for part in folders:
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

    def change(function: Function) -> None:
        node = _places(function)[mutant.node]
        dict(changes(node))[mutant.what]()

    rewrite(mutant.module, {mutant.function: change}, {})


def put_probes_in(every: Sequence[Mutant]) -> Probes:
    """Gives all running functions code that notes which mutants could be told from it."""
    probes = Probes()
    by_function: dict[str, dict[str, list[int]]] = {}
    for n, mutant in enumerate(every):
        by_function.setdefault(mutant.module, {}).setdefault(mutant.function, []).append(n)
    for module, functions_of in by_function.items():
        rewrite(
            module,
            {
                name: partial(_probe, probes=probes, mutants={n: every[n] for n in numbers})
                for name, numbers in functions_of.items()
            },
            probes.names(),
        )
    return probes


def _probe(function: Function, probes: Probes, mutants: Mapping[int, Mutant]) -> None:
    places = _places(function)
    ids = by_node([(places[one.node], one.what, n) for n, one in mutants.items()])
    put_probes(function, ids, probes, SWAPPED)


def rewrite(
    module_name: str,
    edits: Mapping[str, Callable[[Function], None]],
    names: Mapping[str, object],
) -> None:
    """Gives running functions of a module changed code, and its globals some names more."""
    module = importlib.import_module(module_name)
    assert module.__file__
    tree = ast.parse(Path(module.__file__).read_text())
    for name, function in functions(tree):
        if name in edits:
            edits[name](function)
    ast.fix_missing_locations(tree)
    fresh = ModuleType(module.__name__)
    fresh.__dict__.update({"__file__": module.__file__, **names})
    # A module of its own name, so that dataclasses find it; the one in use stays in sys.modules.
    exec(compile(tree, module.__file__, "exec"), fresh.__dict__)
    module.__dict__.update(names)
    for name in edits:
        _function(module, name).__code__ = _function(fresh, name).__code__


def _function(module: ModuleType, name: str) -> FunctionType:
    found: object = module
    for part in name.split("."):
        found = found.__dict__[part]
    found = getattr(found, "fget", None) or getattr(found, "__wrapped__", None) or found
    found = getattr(found, "__func__", found)
    assert isinstance(found, FunctionType), name
    return found


def test_files(folders: Sequence[str]) -> list[Path]:
    """Those of tests/checkers and the verifier's own, or of other folders, by name."""
    found = [path for folder in folders for path in sorted((ROOT / folder).rglob("test_*.py"))]
    return [path for path in found if path.name not in SLOW]


@dataclass(slots=True)
class Test:
    """One test: how long it takes, which mutants it can tell, and how many it killed so far."""

    item: pytest.Item
    seconds: float
    tells: frozenset[int]
    kills: int = 0

    @property
    def price(self) -> float:
        """Its time per mutant that it is expected to kill."""
        return self.seconds / (self.kills + 1)


def fails(item: pytest.Item) -> bool:
    """Whether a test fails; what it sets up is torn down again."""
    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def watch(item: pytest.Item, probes: Probes) -> tuple[float, list[int]]:
    """How long a test takes, and which mutants it can tell; a negative time if it fails."""
    begun, failed = time.perf_counter(), fails(item)
    return -1 if failed else time.perf_counter() - begun, probes.taken()


class Fork:
    """A child that computes something while this process goes on."""

    def __init__(self, work: Callable[[], bytes | None]) -> None:
        self._result = os.memfd_create("result")
        self._child = os.fork()
        if self._child:
            return
        code = 3
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            data = work()
            code = 1 if data is None else 0
            with open(self._result, "wb") as result:
                result.write(data or b"")
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def ended(self) -> tuple[int, bytes]:
        """Exit code and result: 0, 1 if the result is None, 3 if it raised."""
        _, status = os.waitpid(self._child, 0)
        with open(self._result, "rb") as result:
            result.seek(0)
            return os.waitstatus_to_exitcode(status), result.read()


def learned(items: Sequence[pytest.Item], every: Sequence[Mutant], workers: int) -> list[Test]:
    """The tests that pass with probes in the code, with the mutants that they can tell."""

    def work(worker: int) -> bytes:
        probes = put_probes_in(every)
        return json.dumps([watch(item, probes) for item in items[worker::workers]]).encode()

    tests = []
    for worker, fork in enumerate([Fork(partial(work, worker)) for worker in range(workers)]):
        code, data = fork.ended()
        assert code == 0, "the tests could not be run"
        tests += [
            Test(item, seconds, frozenset(told))
            for item, (seconds, told) in zip(items[worker::workers], json.loads(data), strict=True)
            if seconds >= 0
        ]
    return tests


def killed(mutant: Mutant, tests: Sequence[Test]) -> str:
    """ "killed" (by a failed test or by running in a loop), "survived" or "error"."""
    mine = sorted(tests, key=lambda test: test.price)

    def work() -> bytes | None:
        put_in(mutant)
        for n, test in enumerate(mine):
            bound_cpu(TIMES_LONGER * test.seconds + 10)
            if fails(test.item):
                return str(n).encode()
        return None

    code, by = Fork(work).ended()
    if code == 0:
        mine[int(by)].kills += 1
    return {0: "killed", 1: "survived", IN_A_LOOP: "killed"}.get(code, "error")


def bound_cpu(seconds: float) -> None:
    """Ends this process if it takes so much CPU time from now: a clock would end it too early on a
    busy machine."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    last = math.ceil(spent.ru_utime + spent.ru_stime + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (last, resource.RLIM_INFINITY))


class Mutation:
    """Takes the place of pytest's own loop over the tests."""

    def __init__(
        self, every: Sequence[Mutant], chosen: Sequence[int], workers: int, unseen: bool
    ) -> None:
        self.every, self.chosen, self.workers, self.unseen = every, chosen, workers, unseen
        # Pytest captures what is printed while tests run.
        self.out = os.fdopen(os.dup(1), "w", buffering=1)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Every chosen mutant against the tests that can tell it."""
        total = f"{len(self.chosen)} of {len(self.every)} mutants, {len(session.items)} tests"
        self.out.write(f"{total}, {sys.version}\n")
        tests = learned(session.items, self.every, self.workers)
        passed = {test.item for test in tests}
        for item in session.items:
            if item not in passed:
                self.out.write(f"left out, because it fails with probes: {item.nodeid}\n")
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
        for n in self.chosen[worker :: self.workers]:
            mine = [test for test in tests if n in test.tells]
            if self.unseen and mine:
                continue
            begun = time.monotonic()
            came = killed(self.every[n], mine) if mine else "unseen"
            counts[came] += 1
            self.out.write(f"{came:8} {time.monotonic() - begun:4.0f} s  {self.every[n]}\n")
        spent = os.times()
        self.out.write(f"{dict(counts)}, {sum(spent[:4]):.0f} s of CPU\n")


def main() -> None:
    os.chdir(ROOT)
    words = sys.argv[1:]
    quick = words[0] == "--quick"
    words = words[quick:]
    os.environ.setdefault(VARIABLE, "few" if quick else "some")
    folders: Sequence[str] = MUTATED
    tests: Sequence[str] = TESTS
    if words[0] == "--of":
        assert words[2] == "--by", "--of FOLDERS --by FOLDERS"
        folders, tests, words = tuple(words[1].split(",")), tuple(words[3].split(",")), words[4:]
    every = mutants(folders)
    workers = int(words[2]) if len(words) > 2 and words[0].isdecimal() else 1
    plugin = Mutation(every, chosen(words, every), workers, unseen=words[0] == "--unseen")
    marks = QUICK if quick else "not power"
    pytest.main([*WORDS, marks, *map(str, test_files(tests))], plugins=[plugin])


def chosen(words: Sequence[str], every: Sequence[Mutant]) -> list[int]:
    """What the command line asks for: so many at random, all at some places, or all."""
    if words[0] == "--unseen":
        return list(range(len(every)))
    if words[0] == "--only":
        return [n for n, one in enumerate(every) if any(word in str(one) for word in words[1:])]
    seed = words[1] if len(words) > 1 else "1"
    return random.Random(f"mutants {seed}").sample(range(len(every)), int(words[0]))


if __name__ == "__main__":
    main()
