"""Causes of a step: what scheduled it, and what ran before it on its node; shortest chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from heapq import heappop, heappush

from holdfast.clusters.backends.sim.observed.steps import NONE, Fate, Kind, Step
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.verdicts.judged import ObservedFault

AFTER_HEAL_NS = 1_000_000
"""A node that was paused goes on within this time after the heal of its fault."""


class Why(StrEnum):
    """How a step depends on an earlier one."""

    SENT = "sent"
    SET = "set"
    WOKE = "woke"
    RELEASED = "released"
    SAME_NODE = "same node"


COST = {Why.WOKE: 0, Why.SENT: 1, Why.SET: 2, Why.RELEASED: 1, Why.SAME_NODE: 3}
"""Length of a link of a chain. What passes in one instant on a node is one step to a reader; that a
node kept its state since an earlier step explains less than a message does."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One step of a chain, and how it depends on its predecessor there; None: it is the first."""

    step: int
    why: Why | None


def parents(steps: Sequence[Step], number: int) -> list[tuple[int, Why]]:
    """What a step depends on directly."""
    step = steps[number]
    direct = []
    if step.cause != NONE:
        direct.append((step.cause, _why(step)))
    if step.released != NONE:
        direct.append((step.released, Why.RELEASED))
    if step.before != NONE and step.node:
        direct.append((step.before, Why.SAME_NODE))
    return direct


def _why(step: Step) -> Why:
    if step.kind is Kind.MESSAGE:
        return Why.SENT
    return Why.SET if step.kind is Kind.TIMER else Why.WOKE


def chain(steps: Sequence[Step], last: int, is_first: Callable[[int], bool]) -> list[Link]:
    """The shortest chain that ends with `last` and begins with a step that `is_first`.

    [] if no step on which it depends is one. Ties: the latest predecessors.
    """
    costs: dict[int, int] = {last: 0}
    then: dict[int, tuple[int, Why]] = {}
    heap = [(0, -last)]
    while heap:
        cost, key = heappop(heap)
        number = -key
        if cost > costs[number]:
            continue
        if is_first(number):
            return _links(number, then)
        for parent, why in parents(steps, number):
            so_far = cost + COST[why]
            if so_far < costs.get(parent, so_far + 1):
                costs[parent] = so_far
                then[parent] = number, why
                heappush(heap, (so_far, -parent))
    return []


def _links(first: int, then: dict[int, tuple[int, Why]]) -> list[Link]:
    links, number = [Link(step=first, why=None)], first
    while number in then:
        number, why = then[number]
        links.append(Link(step=number, why=why))
    return links


def ancestors(steps: Sequence[Step], number: int) -> list[Link]:
    """What scheduled a step, and what scheduled that, back to the beginning of time; first step
    first."""
    numbers = [number]
    while steps[numbers[-1]].cause != NONE:
        numbers.append(steps[numbers[-1]].cause)
    numbers.reverse()
    first = Link(step=numbers[0], why=None)
    return [first, *(Link(step=one, why=_why(steps[one])) for one in numbers[1:])]


def affected(steps: Sequence[Step], fault: ObservedFault, traits: Traits) -> dict[int, str]:
    """The steps on which a fault acted directly, with its effect on each in words."""
    nodes = dict.fromkeys(fault.nodes)
    restarts = traits.kills or traits.kills_later or bool(traits.operates)
    late = bool(fault.evidence.get("slowed"))
    effects: dict[int, str] = {}
    for step in steps:
        if step.t_ns < fault.from_ns:
            continue
        inside = step.t_ns <= fault.to_ns + AFTER_HEAL_NS
        here = step.node in nodes or step.source in nodes
        if inside and here and step.fate in (Fate.LOST, Fate.BLOCKED, Fate.RESET):
            effects[step.number] = "a message did not pass"
        elif inside and step.node in nodes and step.waited_ns:
            effects[step.number] = "it waited until the node went on"
        elif step.node in nodes and step.before == NONE and restarts:
            effects[step.number] = "its process was started again"
        elif inside and step.node in nodes and traits.shifts_clocks:
            effects[step.number] = "its wall clock was wrong"
        elif inside and step.text == "Order._cancel" and step.node in nodes:
            effects[step.number] = "a call was cancelled"
        elif inside and here and late and step.kind is Kind.MESSAGE:
            effects[step.number] = "a message was late"
    return effects
