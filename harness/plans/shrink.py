"""Shrinks a failing plan to the smallest one found that fails the same way.

Delta debugging (Zeller and Hildebrandt, 2002) over the faults, and smaller moves around it: the
time after the finding is cut off, durations are halved, clients, locks and options removed, and
simulator-only faults are replaced if others suffice.
An `Attempt` decides whether a plan fails; it knows simulators, clusters and findings; this module
knows only plans. Each smaller failing plan is yielded as soon as it is found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.ports import Fault
from holdfast.harness.plans.plan import Plan

LEAST, FEW, MANY = 2, 4, 16
"""Tries per candidate: for cosmetic changes, for large removals, for a single fault."""
SHORT_NS = 20 * MILLISECOND
ROUNDS = 2
ROLE_OF = {"clients": "c", "nodes": "n"}
"""Number of a plan -> the first letter of the nodes that it counts."""
NETWORK = "sim_network"
"""The option with the seed of the simulated network: randomness, not part of the plan's size."""
KEPT = ("mutant", "library", NETWORK)
"""Options that are kept: the planted bug, the library under test (without it the plan is one of the
servers' own client, whose options are others), and the seed of the network."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Failing:
    """A plan that failed.

    after_ns   time of the finding, after the start of the run
    sentence   of the finding
    """

    plan: Plan
    after_ns: int
    sentence: str


Attempt = Callable[[Plan, int], Failing | None]
"""Runs a candidate up to this number of times: how it failed like the first plan, or None.

The returned plan may differ in its randomness, such as the seed of the network."""
Pass = Callable[[Failing, Attempt], Iterator[Failing]]


def shrink(
    first: Failing, attempt: Attempt, stand_ins: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Failing]:
    """Yields smaller and smaller failing plans; ends when no pass finds a smaller one.

    stand_ins   simulator-only kinds of fault -> the most similar kind of every backend

    Another round is useful only while there is more than one fault. A candidate that did
    not fail is not tried again.
    """
    best, known, passes = first, _Remembering(attempt), _passes(stand_ins)
    for _ in range(ROUNDS):
        before = best
        for each in passes:
            for smaller in each(best, known):
                yield (best := smaller)
        if best is before or len(best.plan.faults) < 2:
            return


class _Remembering:
    """An attempt that remembers how often a candidate did not fail."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._vain: dict[str, int] = {}

    def __call__(self, plan: Plan, tries: int) -> Failing | None:
        options = {name: text for name, text in plan.options.items() if name != NETWORK}
        name = repr(replace(plan, options=options))
        if self._vain.get(name, 0) >= tries:
            return None
        failing = self._attempt(plan, tries)
        if failing is None:
            self._vain[name] = tries
        return failing


# The passes


def cut_time(best: Failing, attempt: Attempt) -> Iterator[Failing]:
    """End the run soon after the finding, without the faults that come later."""
    while True:
        plan, after_ns = best.plan, best.after_ns
        ends = (after_ns + 50 * MILLISECOND, after_ns + plan.lease_ns, plan.time_ns // 2)
        for end_ns in (_rounded(end, 100 * MILLISECOND) for end in ends):
            if end_ns <= plan.time_ns * 9 // 10:
                faults = tuple(fault for fault in plan.faults if fault.at_ns < end_ns)
                shorter = attempt(replace(plan, time_ns=end_ns, faults=faults), FEW)
                if shorter is not None:
                    break
        else:
            return
        yield (best := shorter)


def drop_faults(best: Failing, attempt: Attempt) -> Iterator[Failing]:
    """Delta debugging: all at once, parts and their complements, then one by one."""
    faults = list(best.plan.faults)
    pieces = 1
    while faults:
        tries = MANY if pieces >= len(faults) else FEW
        for rest in _rests(faults, pieces):
            smaller = attempt(replace(best.plan, faults=tuple(rest)), tries)
            if smaller is not None:
                yield (best := smaller)
                for best in cut_time(smaller, attempt):
                    yield best
                faults = list(best.plan.faults)
                pieces = max(1, min(pieces - 1, len(faults)))
                break
        else:
            if pieces >= len(faults):
                return
            pieces = min(len(faults), 2 * pieces)


def _rests(faults: Sequence[Fault], pieces: int) -> Iterator[list[Fault]]:
    """The faults without each part, then each part alone; late parts first, because a finding is
    usually caused by what happened just before it."""
    edges = [n * len(faults) // pieces for n in range(pieces + 1)]
    parts = list(pairwise(edges))
    for begin, end in parts:
        yield [*faults[:begin], *faults[end:]]
    if pieces > 2:
        for begin, end in reversed(parts):
            yield list(faults[begin:end])


def earlier(best: Failing, attempt: Attempt) -> Iterator[Failing]:
    """Move all faults towards the beginning, and shorten the run by the same amount."""
    while best.plan.faults:
        plan = best.plan
        by_ns = plan.faults[0].at_ns // 2 // MILLISECOND * MILLISECOND
        if by_ns < 100 * MILLISECOND:
            return
        faults = tuple(replace(fault, at_ns=fault.at_ns - by_ns) for fault in plan.faults)
        time_ns = max(SHORT_NS, plan.time_ns - by_ns)
        sooner = attempt(replace(plan, faults=faults, time_ns=time_ns), FEW)
        if sooner is None:
            return
        yield (best := sooner)


def fewer_parties(best: Failing, attempt: Attempt) -> Iterator[Failing]:
    """As few locks, clients and servers as possible."""
    for name in ("locks", "clients", "nodes"):
        now, least = getattr(best.plan, name), _named(best.plan, name)
        for number in sorted({1, 2, 3, max(1, now - 1)}):
            if number < least:
                continue
            if number >= now:
                break
            smaller = attempt(_with(best.plan, name, number), FEW)
            if smaller is not None:
                yield (best := smaller)
                break


def shorter_faults(best: Failing, attempt: Attempt) -> Iterator[Failing]:
    """Halve the length of each fault, as often as possible."""
    for n in range(len(best.plan.faults)):
        while best.plan.faults[n].for_ns >= 2 * SHORT_NS:
            fault = best.plan.faults[n]
            half = replace(fault, for_ns=_rounded(fault.for_ns // 2, MILLISECOND))
            smaller = attempt(_with_fault(best.plan, n, half), FEW)
            if smaller is None:
                break
            yield (best := smaller)


def common_faults(
    stand_ins: Mapping[str, str], best: Failing, attempt: Attempt
) -> Iterator[Failing]:
    """Replace simulator-only faults, so that the plan runs on containers too."""
    for n, fault in enumerate(best.plan.faults):
        if fault.do in stand_ins:
            # It keeps its id, from which its target is sampled.
            common = replace(fault, do=stand_ins[fault.do], params={})
            same = attempt(_with_fault(best.plan, n, common), FEW)
            if same is not None:
                yield (best := same)


def round_times(best: Failing, attempt: Attempt) -> Iterator[Failing]:
    """Round times for readability."""
    for step_ns in (100 * MILLISECOND, 10 * MILLISECOND, MILLISECOND):
        faults = tuple(
            replace(
                fault,
                at_ns=_rounded(fault.at_ns, step_ns),
                for_ns=_rounded(fault.for_ns, step_ns),
            )
            for fault in best.plan.faults
        )
        rounded = replace(best.plan, faults=faults, time_ns=_rounded(best.plan.time_ns, step_ns))
        if rounded == best.plan:
            return
        plain = attempt(rounded, LEAST)
        if plain is not None:
            yield plain
            return


def fewer_options(best: Failing, attempt: Attempt) -> Iterator[Failing]:
    """Reset options to their defaults: all of them, those of the simulator, one by one."""
    names = [name for name in best.plan.options if name not in KEPT]
    world = [name for name in names if name.startswith("sim_")]
    for gone in (names, world, *([name] for name in names)):
        if not gone or any(name not in best.plan.options for name in gone):
            continue
        left = {name: text for name, text in best.plan.options.items() if name not in gone}
        plainer = attempt(replace(best.plan, options=left), LEAST)
        if plainer is not None:
            yield (best := plainer)


def _passes(stand_ins: Mapping[str, str]) -> Sequence[Pass]:
    """The passes of a round, in their order."""
    return (
        cut_time,
        fewer_parties,
        drop_faults,
        earlier,
        fewer_parties,
        cut_time,
        partial(common_faults, stand_ins),
        shorter_faults,
        round_times,
        fewer_options,
        cut_time,
        earlier,
    )


def _named(plan: Plan, name: str) -> int:
    """The highest number of such a node that a fault names: without it the plan is refused."""
    if name not in ROLE_OF:
        return 0
    parts = [part for fault in plan.faults for part in re.split(r"[|+]", fault.target)]
    numbers = [part[1:] for part in parts if part[:1] == ROLE_OF[name]]
    return max((int(number) for number in numbers if number.isdigit()), default=0)


def _with(plan: Plan, name: str, number: int) -> Plan:
    fewer: Mapping[str, Any] = {name: number}
    return replace(plan, **fewer)


def _with_fault(plan: Plan, n: int, fault: Fault) -> Plan:
    """The plan with its n-th fault replaced."""
    return replace(plan, faults=(*plan.faults[:n], fault, *plan.faults[n + 1 :]))


def _rounded(span_ns: int, step_ns: int) -> int:
    """Rounds up to a whole number of steps."""
    return -(-span_ns // step_ns) * step_ns
