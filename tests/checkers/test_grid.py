"""Two programs, on histories around a violation in which every moment lies on one coarse grid.

Clock errors, leases and delays are multiples of the grid as well, so that what is compared is often
equal: there a `<` for a `<=`, a wrong sign, or a clock error too many shows. To each violation ops
are added that may excuse it, take part in it, or have nothing to do with it: a call made again, or
a whole attempt by another client. What the checker finds, and what it finds to be right, the
verifier accepts (see conftest); and of many other choices of rows it accepts none for which the
checker finds nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from holdfast import catalogue
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.fault_traits import BEFORE
from holdfast.harness.core.json_value import Json
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import attempt_id
from holdfast.harness.core.verdict import Finding, Proof
from holdfast.harness.verification.rule import OPS, STATUSES
from holdfast.harness.verification.rules import RULES
from holdfast.harness.verification.verify import Verifier, verdict_on
from tests.checkers.certified import recorded
from tests.checkers.neighbours import ASKS, SERVED, Rows, in_order, legal, tied
from tests.checkers.test_near_misses import (
    PART_OF_ANOTHER,
    STRONGER,
    claimed,
    of_every_rule,
    same_holds,
    specimens,
)  # fmt: skip
from tests.draws import Draws
from tests.harness.verification import specimens as of_rules

GRID = SECOND // 2
ERRORS = (0, GRID, GRID, 2 * GRID)
SLIPS = (0, 0, GRID, 2 * GRID)
DRIFTS = (0, 0, 100_000)
"""Of leases of 10 s: one second."""
RULES_OF = {
    prop: sorted({one.rule for one in of_rules.SPECIMENS if one.prop == prop})
    for prop in {one.prop for one in of_rules.SPECIMENS}
}


def on_the_grid(given: Case) -> Case | None:
    """The case with all moments of rows and faults at multiples of the grid."""
    rows = given.history.rows.copy()
    for edge in ("t_inv", "t_ret"):
        rows[edge] = (rows[edge] + GRID // 2) // GRID * GRID
    if not legal(given.history.rows, rows):
        return None
    windows = tuple(
        replace(
            w,
            from_ns=w.from_ns // GRID * GRID,
            to_ns=-(-w.to_ns // GRID) * GRID,
            evidence=moved_times(w.evidence, lambda t_ns: t_ns // GRID * GRID),
        )
        for w in given.windows
    )
    return in_order(replace(given, windows=windows), rows)


def moved_times(evidence: Mapping[str, Json], move: Callable[[int], int]) -> dict[str, Json]:
    """Evidence of a fault with its times elsewhere; counts and texts stay."""
    return {
        name: [move(t) if isinstance(t, int) else t for t in told] if type(told) is list else told
        for name, told in evidence.items()
    }


def disturbed(given: Case, chance: random.Random) -> Case:
    """One fault more: another one like the first, or the kill or pause of a few nodes."""
    nodes = sorted({*given.nodes.values(), "n1", "n2", "n3"})
    by_ns = chance.choice((-1, 1)) * chance.choice((1, 2, 3, 5)) * GRID
    if given.windows and chance.random() < 0.6:
        of = given.windows[0]
        more = replace(
            of, id="again", from_ns=of.from_ns + by_ns, to_ns=of.to_ns + by_ns,
            evidence=moved_times(of.evidence, lambda t_ns: t_ns + by_ns),
        )  # fmt: skip
    else:
        do, moments = chance.choice(("kill", "kill", "pause")), given.history.rows["t_inv"]
        begin = int(chance.choice(moments)) // GRID * GRID + by_ns
        more = Window(
            id="again", do=do, target="some", nodes=tuple(chance.sample(nodes, 2)),
            from_ns=begin, to_ns=begin + chance.choice((0, 1, 2, 4)) * GRID, effective=True,
            evidence={}, traits=BEFORE[do],
        )  # fmt: skip
    if more.from_ns <= 0:
        return given
    servers = chance.choice(("2", "3", "4"))
    options = {**given.options, "servers": given.options.get("servers", servers)}
    if chance.random() < 0.3:
        options["servers"] = servers
    return replace(given, windows=(*given.windows, more), options=options, memo={})


def shifted(given: Case, chance: random.Random) -> Case | None:
    """One moment, or the whole of one call, some steps of the grid earlier or later."""
    rows = given.history.rows.copy()
    at = chance.randrange(len(rows))
    whole = rows["t_inv"][at] == rows["t_ret"][at] or chance.random() < 0.3
    step = chance.choice((-1, 1)) * chance.choice((1, 1, 1, 2, 2, 3, 4, 9, 10, 20, 21)) * GRID
    for edge in ("t_inv", "t_ret") if whole else (chance.choice(("t_inv", "t_ret")),):
        if rows[edge][at] and rows["status"][at]:
            rows[edge][at] += step if not (edge == "t_ret" and rows["t_ret"][at] == 0) else 0
    return in_order(given, rows) if legal(given.history.rows, rows) else None


def again(given: Case, chance: random.Random) -> Case | None:
    """One call more: a renewal, release, query or the like that was made twice."""
    rows = given.history.rows
    calls = np.flatnonzero(~np.isin(rows["f"], (*ASKS, *SERVED)))
    if not len(calls):
        return None
    more = rows[[int(chance.choice(calls))]].copy()
    return joined(given, more, chance)


def twin(given: Case, chance: random.Random) -> Case | None:
    """One attempt more, with all that was done with it: the same of another client."""
    rows = given.history.rows
    asks = rows[np.isin(rows["f"], ASKS)]
    if not len(asks):
        return None
    of, process = chance.choice(asks), int(rows["process"].max()) + 1
    if chance.random() < 0.3:
        process = int(chance.choice(asks)["process"])
    more = rows[(rows["attempt"] == of["attempt"]) & ~np.isin(rows["f"], SERVED)].copy()
    if chance.random() < 0.4:
        more = more[:1]
    own = rows["process"] == process
    writer = int(rows["writer"][own & ~np.isin(rows["f"], SERVED)][0]) if own.any() else -1
    if writer < 0:
        writer = len(given.history.writers)
        history = replace(given.history, writers=(*given.history.writers, f"c{process}"))
        nodes = {**given.nodes, process: f"c{process}"}
        given = replace(given, history=history, nodes=nodes, memo={})
    number = 1 + sum(np.isin(rows["f"], ASKS) & own)
    more["process"], more["writer"] = process, writer
    more["attempt"] = attempt_id(process, 50 + int(number))
    more["token"][more["token"] >= 0] += chance.choice((0, 1, -1, 1))
    return joined(given, more, chance)


def joined(given: Case, more: Rows, chance: random.Random) -> Case | None:
    """The case with rows more, some steps of the grid from where they were."""
    step = chance.choice((-1, 1)) * chance.choice((0, 1, 1, 2, 3, 4, 9, 10, 11)) * GRID
    for edge in ("t_inv", "t_ret"):
        more[edge][more[edge] > 0] += step
    if (more["t_inv"] <= 0).any():
        return None
    old = given.history.rows
    more["row"] += 1 << 16  # after those of the same moment
    rows = np.concatenate((old, more))
    numbers: dict[tuple[int, int], int] = {}
    renumbered = rows.copy()
    for writer in np.unique(rows["writer"]).tolist():
        mine = np.flatnonzero(rows["writer"] == writer)
        mine = mine[np.lexsort((rows["row"][mine], rows["t_inv"][mine]))]
        numbers |= {(writer, int(rows["row"][at])): n for n, at in enumerate(mine)}
        renumbered["row"][mine] = range(len(mine))
    for at in np.flatnonzero(np.isin(rows["f"], SERVED)):
        process, row = int(rows["op"][at]) >> 32, int(rows["op"][at]) & 0xFFFFFFFF
        own = (rows["process"] == process) & ~np.isin(rows["f"], SERVED)
        if not own.any():
            return None
        name = int(rows["writer"][own][0]), row
        if name not in numbers:
            return None
        renumbered["op"][at] = process << 32 | numbers[name]
    return in_order(given, renumbered) if legal(renumbered, renumbered) else None


def asked_first(rows: Rows) -> bool:
    """Whether nothing is done with an attempt before it is asked for."""
    asked = {int(row["attempt"]): int(row["t_inv"]) for row in rows[np.isin(rows["f"], ASKS)]}
    return all(asked.get(int(row["attempt"]), 0) <= row["t_inv"] for row in rows)


def stamped(given: Case, chance: random.Random) -> Case:
    """One call that the kernel saw leave later, or return earlier, than its client did."""
    rows = given.history.rows.copy()
    rows[chance.choice(("tx", "rx"))][chance.randrange(len(rows))] = chance.choice((1, 2)) * GRID
    return replace(given, history=replace(given.history, rows=rows), memo={})


def variants(plain: Case, chance: random.Random, count: int, most: int = 3) -> Iterator[Case]:
    """So many cases on the grid around a case with a violation. most: changes of each."""
    tries = 0
    while count and tries < 400:
        tries += 1
        said = replace(
            plain.promises, slip_ns=chance.choice(SLIPS), drift_ppm=chance.choice(DRIFTS)
        )
        near: Case | None = replace(plain, promises=said, error_ns=chance.choice(ERRORS), memo={})
        for change in chance.choices(
            (again, twin, shifted, disturbed, stamped),
            (4, 2, 6, 2, 1),
            k=chance.choice((1, 2, most)),
        ):
            near = change(near, chance) if near else None
        near = on_the_grid(near) if near else None
        if near is not None and not tied(near) and asked_first(near.history.rows):
            yield near
            count -= 1


Kinds = dict[tuple[int, int], list[int]]
"""Rows by what they are and how they were answered."""


def kinds_of(rows: Rows) -> Kinds:
    kinds: Kinds = {}
    for at, kind in enumerate(zip(rows["f"].tolist(), rows["status"].tolist(), strict=True)):
        kinds.setdefault(kind, []).append(at)
    return kinds


@cache
def allowed(rule_name: str) -> tuple[tuple[str, tuple[tuple[int, int], ...]], ...]:
    """Per role of a rule the kinds of rows that it may be."""
    return tuple(
        (name, tuple((OPS[op], STATUSES[as_]) for op in ops.split("|") for as_ in how.split("|")))
        for name, (ops, how) in RULES[rule_name].roles.items()
    )


def chosen(
    rule_name: str, kinds: Kinds, attempts: Sequence[int], chance: random.Random
) -> dict[str, int] | None:
    """Rows for the roles of a rule, each of a kind that the rule allows there."""
    roles, several = dict[str, int](), chance.choice((1, 1, 2, 3))
    for name, of in allowed(rule_name):
        for n in range(1, (several if "*" in name else 1) + 1):
            own = name.replace("*", str(n))
            base = own.removesuffix("_known").removesuffix("_proof")
            mine = [at for kind in of for at in kinds.get(kind, ())]
            if base in roles and chance.random() < 0.9:
                mine = [at for at in mine if attempts[at] == attempts[roles[base]]]
            if not mine:
                return None
            roles[own] = chance.choice(mine)
    return roles


def compare(every: Iterator[tuple[str, Case]], count: int, seed: str) -> Counter[str]:
    """So many variants of each of these cases, by both programs."""
    chance, outcome = random.Random(seed), Counter[str]()
    for prop, old in every:
        checker = load(catalogue.CHECKERS[prop])
        found = checker(old).findings
        for near in variants(old, chance, count):
            verdict = checker(near)
            outcome["found"] += bool(verdict.findings)
            outcome["nothing found"] += not verdict.findings
            verifier = Verifier(recorded(near))
            tree = near.promises.subtrees  # a finding of two locks of a line names either
            seen = {(f.kind, "" if tree else f.lock) for f in verdict.findings}
            for one in claims(prop, near, found, chance):
                row = claimed(near, verifier, one)
                accepted = not verdict_on(row, verifier)
                outcome["accepted" if accepted else "refused"] += 1
                lock = "" if tree else row["lock"]
                alike = {(kind, lock) for kind in (one.kind, *STRONGER.get(one.kind, ()))}
                whole = one.kind not in PART_OF_ANOTHER
                assert not (accepted and whole) or alike & seen, (one.kind, one.proof, seen)
            same_holds(near, verifier)
    return outcome


def claims(
    prop: str, near: Case, found: tuple[Finding, ...], chance: random.Random
) -> Iterator[Finding]:
    """Findings that somebody might claim of a case: every rule of a property by many rows."""
    states = {f.proof.rule: f.proof.values for f in found if f.proof}
    kinds, attempts = kinds_of(near.history.rows), near.history.rows["attempt"].tolist()
    for name in RULES_OF.get(prop, ()):
        if RULES[name].states and name not in states:
            continue
        for _ in range(3):
            roles = chosen(name, kinds, attempts, chance)
            if roles is not None:
                values = {state: states[name][state] for state in RULES[name].states}
                proof = Proof(rule=name, roles=roles, values=values)
                kind = chance.choice(RULES[name].kinds)
                yield Finding(kind=kind, sentence="", witnesses=(), lock="", t_ns=0, proof=proof)


def test_on_a_grid_checkers_and_verifier_agree_of_every_rule(draws: Draws) -> None:
    outcome = compare(of_every_rule(), draws(12), "grid")
    assert min(outcome.values()) > draws(100), outcome


def test_on_a_grid_checkers_and_verifier_agree_of_a_few_ops(draws: Draws) -> None:
    outcome = compare(specimens(), draws(20), "grid, few")
    assert min(outcome.values()) > draws(100), outcome


@pytest.mark.power
@pytest.mark.parametrize("seed", range(10))
def test_the_same_of_very_many(seed: int) -> None:
    compare(of_every_rule(), 1000, f"grid {seed}")
    compare(specimens(), 1000, f"grid {seed}")
