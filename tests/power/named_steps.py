"""Whether the step that `explain` names lies in the code of the planted bug, bug by bug.

`python -m tests.power.named_steps [--bound S] [MUTANT ...]`: for each bug the first swarm seed that
shows it is explained. A row says whether a function of the bug's own code ran in the named step,
or else in another step of the chain. A coroutine runs in the steps in which it goes on itself, not
in those in which only what it awaits does. Without names: all bugs.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import iscoroutine
from types import CoroutineType, FunctionType, coroutine
from typing import Any

from holdfast import catalogue
from holdfast.catalogue.mutants import MUTANTS
from holdfast.clusters.backends.sim.observed.scheduler import ObservedEngine
from holdfast.clusters.backends.sim.observed.steps import NONE
from holdfast.clusters.systems.majority.mutants import CLIENTS as MAJORITY
from holdfast.clusters.systems.reference.mutants.client import CLIENTS
from holdfast.clusters.systems.reference.mutants.node import NODES
from holdfast.engine import seed_search, swarm
from holdfast.planning import prepare
from holdfast.rewind.execution import Execution, execute
from holdfast.rewind.explanation import ExplainedFinding, explained, findings
from holdfast.workloads.resource.mutants import STORES

BOUND_S = 150.0
"""CPU time to find a bug; the rarest, released-twice, took 78 s when it was set."""
PARTS = ("locks_type", "consensus_type", "ages_type")


@dataclass(frozen=True, kw_only=True)
class Named:
    """One planted bug, explained. seed -1: no seed within the bound showed it.

    inside   a function of the bug ran in the named step; beside: in another step of the chain
    by       "departure", or the property
    cpu_s    of the explanation alone, without the search
    """

    name: str
    seed: int
    step: int = NONE
    inside: bool = False
    beside: bool = False
    by: str = ""
    cpu_s: float = 0.0
    steps: int = 0

    def row(self) -> str:
        """A row of a table."""
        where = "named step" if self.inside else "chain" if self.beside else "no"
        return (
            f"| {self.name} | {self.seed} | {self.step} | {self.by} | {where} | {self.cpu_s:.2f} |"
        )


def bug_code(name: str) -> list[type[Any]]:
    """The classes that a planted bug consists of."""
    roots: list[type[Any]] = [
        found[name] for found in (NODES, CLIENTS, MAJORITY, STORES) if name in found
    ]
    wanted: dict[type[Any], None] = {}
    while roots:
        kind = roots.pop()
        for one in kind.__mro__:
            if ".mutants" not in one.__module__ or one in wanted:
                continue
            wanted[one] = None
            roots += [getattr(one, part) for part in PARTS if part in vars(one)]
            for function in functions(one).values():
                named = (function.__globals__.get(word) for word in function.__code__.co_names)
                roots += [each for each in named if isinstance(each, type)]
        # A node that only carries another lock or consensus is made by a function of no module.
        roots += [vars(kind)[part] for part in PARTS if part in vars(kind)]
    return list(wanted)


def functions(kind: type[Any]) -> dict[str, FunctionType]:
    """The functions that a class defines itself, those of class methods too."""
    found = {}
    for name, value in vars(kind).items():
        inner = getattr(value, "__func__", value)
        if isinstance(inner, FunctionType):
            found[name] = inner
    return found


@coroutine
def _resumed(
    made: CoroutineType[Any, Any, Any], runs: Callable[[], None]
) -> Generator[Any, Any, Any]:
    """A coroutine, with a note of each step in which it went on itself: not only what it awaits."""
    sent: Any = None
    failed: BaseException | None = None
    while True:
        frame: Any = made.cr_frame  # None only once the coroutine has ended
        at = frame.f_lasti
        try:
            awaited = made.send(sent) if failed is None else made.throw(failed)
        except StopIteration as done:
            runs()
            return done.value
        if frame is not None and frame.f_lasti != at:
            runs()
        sent, failed = None, None
        try:
            sent = yield awaited
        except BaseException as error:
            failed = error


@contextmanager
def watched(kinds: list[type[Any]]) -> Iterator[dict[int, None]]:
    """Notes the steps in which a function of these classes runs."""
    ran: dict[int, None] = {}
    engines: list[ObservedEngine] = []
    made = ObservedEngine.__init__

    def init(engine: ObservedEngine, *args: Any, **given: Any) -> None:
        made(engine, *args, **given)
        engines[:] = [engine]

    def runs() -> None:
        if engines and engines[0].current != NONE:
            ran[engines[0].current] = None

    def noting(function: FunctionType) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: Any, **given: Any) -> Any:
            runs()
            made = function(*args, **given)
            return _resumed(made, runs) if iscoroutine(made) else made

        return called

    before = [(kind, name, vars(kind)[name]) for kind in kinds for name in functions(kind)]
    try:
        setattr(ObservedEngine, "__init__", init)  # noqa: B010
        for kind, name, value in before:
            inner = noting(getattr(value, "__func__", value))
            setattr(kind, name, classmethod(inner) if isinstance(value, classmethod) else inner)
        yield ran
    finally:
        setattr(ObservedEngine, "__init__", made)  # noqa: B010
        for kind, name, value in before:
            setattr(kind, name, value)


def wanted(name: str, done: Execution) -> ExplainedFinding | None:
    """What is to be explained: the violation that the bug breaks, else the first finding."""
    found = findings(done)
    breaks = MUTANTS[name].breaks
    return next((one for one in found if one.prop == breaks), next(iter(found), None))


def first_seed(name: str, bound_s: float, first: int = 1) -> int:
    """The first swarm seed that shows a bug, -1 if there is none within so much CPU time."""
    system, until_s = MUTANTS[name].system, time.process_time() + bound_s
    seed = first
    while time.process_time() < until_s:
        if seed_search.one_seed(seed, system, {"mutant": name}, validated=True).found:
            return seed
        seed += 1
    return -1


def named(name: str, bound_s: float) -> Named:
    """Search for a planted bug, and explain what shows it."""
    seed = first_seed(name, bound_s)
    if seed < 0:
        return Named(name=name, seed=seed)
    system = MUTANTS[name].system
    nodes = catalogue.SYSTEMS[system].nodes
    plan = prepare.complete(swarm.draw(seed, system, nodes, {"mutant": name}, ""))
    kinds = bug_code(name)
    assert any(functions(kind) for kind in kinds), f"{name}: no code of its own"
    begun_s = time.process_time()
    with watched(kinds) as ran:
        done = execute(plan)
    chosen = wanted(name, done)
    if chosen is None:
        return Named(name=name, seed=seed, by="an assertion")
    told = explained(done, chosen)
    return Named(
        name=name,
        seed=seed,
        step=told.named,
        inside=told.named in ran,
        beside=any(link.step in ran for link in (*told.links, *told.departing)),
        by="departure" if done.departure is not None else chosen.prop,
        cpu_s=time.process_time() - begun_s,
        steps=len(done.steps),
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(argv: list[str]) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(description="named steps of planted bugs")
    parser.add_argument("names", nargs="*", metavar="MUTANT")
    parser.add_argument("--bound", type=float, default=BOUND_S, metavar="S")
    given = parser.parse_args(argv)
    seed_search.warm()
    _say("| bug | seed | step | named by | the bug's code ran in | CPU s |")
    _say("| --- | --- | --- | --- | --- | --- |")
    rows = []
    for name in given.names or MUTANTS:
        rows.append(named(name, given.bound))
        _say(rows[-1].row())
    found = [row for row in rows if row.seed >= 0]
    inside = sum(row.inside for row in found)
    beside = sum(row.beside or row.inside for row in found)
    _say(f"{len(rows)} bugs, {len(found)} found; named step: {inside}; chain: {beside}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
