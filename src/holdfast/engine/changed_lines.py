"""Which lines of functions differ from a revision, and which workloads run these lines.

Used by `holdfast sim --since REV`. Lines rather than functions: `if mode == SHARED:` is run by
every workload, what stands below it by one.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from types import CodeType, FrameType
from typing import Final, TypeAlias

from holdfast import catalogue
from holdfast.engine import swarm
from holdfast.engine.seed_search import in_memory, warm
from holdfast.harness.core.errors import EnvironmentFailed, UsageError
from holdfast.planning import prepare

WITHIN_S: Final = 60
SEEDS: Final = 3
"""Seeds of each workload that tell which functions it runs."""
SPREAD: Final = 0.2
"""Part of the seeds that are drawn as without --since: a change may show in other workloads."""


@dataclass(frozen=True, order=True, slots=True)
class Function:
    """A function of a file, some lines of which changed.

    first   line of its first decorator, else of its `def`
    lines   the changed ones, as they are numbered now; a removed line: those around it
    """

    file: Path
    first: int
    name: str
    lines: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.file.name}:{self.first} {self.name}"


Line = tuple[Function, int]
"""A function and one of its lines. Its first stands for a call."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weighted:
    """How often each workload is drawn.

    weights   workload -> its relative frequency
    runs      workload -> the changed lines that its seeds ran
    unrun     changed functions that no workload ran
    """

    weights: Mapping[str, float]
    runs: Mapping[str, Sequence[Line]] = field(default_factory=dict)
    unrun: Sequence[Function] = ()


def changed(revision: str, folder: Path) -> list[Function]:
    """Functions of the simulator's and the checkers' modules that differ from a revision of the
    repository at `folder`. UsageError if it is no repository or has no such revision.

    Contents are compared here: `git diff` starts programs that a repository may name.
    """
    root = Path(os.path.realpath(_git(folder, "rev-parse", "--show-toplevel").rstrip("\n")))
    named = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    commit = _git(root, *named, failed=f"--since: no such revision: {revision!r}").strip()
    warm()
    # A folder of the package can be a link: git names the file behind it, code the way to it.
    loaded = {
        os.path.realpath(file): Path(file)
        for module in list(sys.modules.values())
        if (file := getattr(module, "__file__", None))
    }
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    names = [name for name in listed if str(root / name) in loaded and "\n" not in name]
    found: list[Function] = []
    for name, before in zip(names, _contents(root, commit, names), strict=True):
        file = loaded[str(root / name)]
        now = file.read_text("utf-8", "replace")
        if now != before:
            found += _functions(file, now, _differing(before, now))
    return sorted(found)


def _git(folder: Path, *words: str, failed: str = "", given: str = "") -> str:
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *words],
            input=given,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=WITHIN_S,
        )
    except FileNotFoundError as error:
        raise UsageError("--since needs git, which is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailed(f"git {words[0]} took longer than {WITHIN_S} s") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        raise UsageError(failed or f"--since: {last}")
    return done.stdout


def _contents(root: Path, commit: str, names: Sequence[str]) -> Iterator[str]:
    """The text of each file in a commit, "" for one that is not in it.

    git writes `HASH blob 12`, 12 bytes and a line feed for each, or `NAME missing`.
    """
    asked = "".join(f"{commit}:{name}\n" for name in names)
    out = _git(root, "cat-file", "--batch", given=asked).encode("utf-8", "surrogateescape")
    at = 0
    for _ in names:
        end = out.index(b"\n", at)
        *_, kind, size = out[at:end].split(b" ")
        at = end + 1
        if size == b"missing":
            yield ""
            continue
        yield out[at : at + int(size)].decode("utf-8", "replace") if kind == b"blob" else ""
        at += int(size) + 1


def _differing(before: str, now: str) -> list[range]:
    """The lines that are new or edited, as they are numbered now. Where lines are missing:
    their neighbours."""
    old, new = before.splitlines(), now.splitlines()
    steps = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [
        range(first + 1, end + 1) if end > first else range(first, first + 2)
        for step, _, _, first, end in steps
        if step != "equal"
    ]


def _functions(file: Path, text: str, spans: Sequence[range]) -> list[Function]:
    """The innermost functions of a file with lines in one of the spans."""
    try:
        tree = ast.parse(text, str(file))
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"--since: {file.name} is no Python: {error}") from error
    found = list[Function]()
    for node in ast.walk(tree):
        if isinstance(node, Def):
            lines = tuple(line for line in _own(node) if any(line in span for span in spans))
            if lines:
                found.append(Function(file, _first(node), node.name, lines))
    return found


Def = ast.FunctionDef | ast.AsyncFunctionDef


def _first(node: Def) -> int:
    return min([node.lineno, *(one.lineno for one in node.decorator_list)])


def _lines_of(node: Def) -> range:
    return range(_first(node), (node.end_lineno or node.lineno) + 1)


def _own(node: Def) -> Iterator[int]:
    """The lines of a function without those of the functions in it."""
    inner = [_lines_of(one) for one in ast.walk(node) if isinstance(one, Def) and one is not node]
    return (line for line in _lines_of(node) if not any(line in other for other in inner))


def weighted(functions: Sequence[Function], system: str, given: Mapping[str, str]) -> Weighted:
    """How often to draw each workload of a system so that changed lines run often.

    Each changed line that is run gives the same weight, shared by the workloads that run it: a
    line that one workload runs gives it as much as one that all run gives to all of them. The
    usual weights if no changed line is run.
    """
    usual = swarm.weights(system)
    runs = {workload: _runs(functions, system, given, workload) for workload in usual}
    calls = {one for ran in runs.values() for one, line in ran}
    unrun = tuple(one for one in functions if one not in calls)
    # A call says less than a changed line: it counts only if no changed line of its function runs.
    inner = {one for ran in runs.values() for one, line in ran if line != one.first}
    told = {
        workload: [(one, line) for one, line in ran if one not in inner or line != one.first]
        for workload, ran in runs.items()
    }
    shared: dict[Line, float] = {}
    for workload, ran in told.items():
        for line in ran:
            shared[line] = shared.get(line, 0) + usual[workload]
    if not shared:
        return Weighted(weights=usual, unrun=unrun)
    whole = sum(usual.values())
    weights = {
        workload: usual[workload]
        * (SPREAD / whole + (1 - SPREAD) * sum(1 / shared[line] for line in ran) / len(shared))
        for workload, ran in told.items()
    }
    return Weighted(weights=weights, runs=told, unrun=unrun)


def _runs(
    functions: Sequence[Function], system: str, given: Mapping[str, str], workload: str
) -> list[Line]:
    """The calls and changed lines of these functions that some seed of a workload runs."""
    nodes = catalogue.SYSTEMS[system].nodes
    ran: dict[Line, None] = {}
    with _told(functions, ran):
        for seed in range(SEEDS):
            plan = swarm.draw(seed, system, nodes, given, workload)
            in_memory(prepare.manifest(prepare.prepared(plan), f"sim-{seed}", ""))
    return list(ran)


@contextmanager
def _told(functions: Sequence[Function], ran: dict[Line, None]) -> Iterator[None]:
    """Meanwhile, `ran` gets each call of the functions and each changed line that runs."""
    wanted = {(str(one.file), one.first): one for one in functions}
    known: dict[CodeType, Tracer | None] = {}

    def told(frame: FrameType, event: str, _: object) -> Tracer | None:
        code = frame.f_code
        if code not in known:
            one = wanted.get((code.co_filename, code.co_firstlineno))
            known[code] = _lines_into(ran, one) if one else None
        tracer = known[code]
        return tracer and tracer(frame, event, None)

    before = sys.gettrace()
    sys.settrace(told)
    try:
        yield
    finally:
        sys.settrace(before)


Tracer: TypeAlias = "Callable[[FrameType, str, object], Tracer | None]"


def _lines_into(ran: dict[Line, None], one: Function) -> Tracer:
    """A trace function of the interpreter for the calls of one function."""
    lines = frozenset(one.lines)

    def tracer(frame: FrameType, event: str, _: object) -> Tracer:
        if event == "call":
            ran[one, one.first] = None
        elif frame.f_lineno in lines:
            ran[one, frame.f_lineno] = None
        return tracer

    return tracer
