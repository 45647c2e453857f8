"""Nothing can be proved of a history in which no checker finds anything: every rule is tried on it
with all rows that may have a part in it, and numbers that fit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from holdfast import catalogue
from holdfast.harness.core.case import Case
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Mode, Op, Terms
from holdfast.harness.verification.derived import Run
from holdfast.harness.verification.rule import OPS, STATUSES, Rule
from holdfast.harness.verification.rules import RULES
from holdfast.harness.verification.verify import Verifier, verdict_on
from tests.checkers.brute.test_guarded import run as guarded_run
from tests.checkers.certified import named, recorded
from tests.checkers.shorthand import case, history, on
from tests.draws import Draws
from tests.harness.verification.specimens import CIRCLE, DELAYED, DIED, DONE, FREED, HELD, TURNS

MOST = 400
"""Ways to fill the parts of one rule that are tried, of one history."""
READER = Terms(mode=Mode.SHARED)
TWO, ONE = (Terms(mode=Mode.PERMITS, permits=n, limit=3) for n in (2, 1))
AGAIN = Terms(reenter=True)
INNOCENT: tuple[tuple[str, tuple[Terms, ...], dict[str, Any]], ...] = (
    ("0a? 0a+1 1a? 0n? 0n+1 0r? 0r+ 1a+2 1n? 1n+2 1r? 1r+ 0a? 0a+3 0r? 0r+", (), {}),
    ("0a? 0a+1 1a? 1Q 2a? 2Q 0r? 0r+ 1a+2 1r? 1r+ 2a+3 2r? 2r+ 9p? 9p+4 9r? 9r+", (), {}),
    ("0a? 0a+7 0n? 0n+ 0r? 0r+ 1a? 1a~ 1r? 1r+ 0a? 0a+9 0r? 0r+", (), {}),
    ("0a? 0a+7 1a? 1a+8 0n? 0n+ 1n? 1n+ 0r? 0r+ 1r? 1r+", (READER, READER), {}),
    ("0a? 0a+7 1a? 1a+8 0n? 0n+ 1n? 1n+ 0r? 0r+ 1r? 1r+", (TWO, ONE), {}),
    ("0a? 0a+7 0a? 0a+7 0n? 0n+ 0r? 0r+ 0.1r? 0.1r+ 1a? 1a+8 1r? 1r+", (AGAIN, AGAIN), {}),
    (FREED + "9p?@8 9p+3@8.1 9r?@9 9r+@9.1", (), {}),
    (FREED.replace("0r+@3", "0r~@3") + "2t?@7 2t-@7.1", (), {}),
    (TURNS.format(one=DONE, other="1d?:db#0 1D 1d+=1"), (), {}),
    (TURNS.format(one="0w? 0S+ 0w+", other="0w? 0S- 0w- 1w? 1S+ 1w+"), (), {}),
    (HELD + "1q? 1q+7=1 0c? 0c+ 0r? 0r+ 0c? 0c- 1q? 1q+", (), {}),
    ("0a? 0a+1 3a? 3Q 1a? 1Q 1k? 1k+=1 1k? 1k+=0 0r? 0r+ 3a+2 3r? 3r+ 1a+3 1r? 1r+", (), {}),
    (DIED.format("", "1a?@6 ").replace("1a+2@8.8", "1a+2@9.2"), (), DELAYED),
    (
        CIRCLE.replace("1a-:x@20 1.1r?:y@20.2 1.1r+:y@20.4", "1a-:x@8.5 1.1r?:y@9 1.1r+:y@9.5"),
        (),
        {},
    ),
    ("0a? 0a+7 0L@20 1a?@21 1a+8@22 1r? 1r+", (), {}),
    ("0a? 0a+7 9f? 9f+7 0L 1a? 1a+8 1r? 1r+", (), {}),
    ("0a? 0a+1 0r? 0r+ 2a? 2a+2 2r? 2r+ 1a? 1a+3 1r? 1r+", (Terms(), Terms(newest=2)), {}),
    ("0a?:/a 0a+1:/a 1a?:/b 1a+2:/b 0n? 0n+ 1n? 1n+ 0r? 0r+ 1r? 1r+", (), {"subtrees": True}),
    ("0a? 0a+ 1a? 1a- 0r? 0r+ 1a? 1a+ 1r? 1r+", (), {"bound": "none", "tokens": "none"}),
)


def calm(text: str, terms: tuple[Terms, ...], promises: dict[str, Any]) -> Case:
    """The history, in which no acquire waits without a bound."""
    told = on(history(text), *terms)
    told.rows["aux"][told.rows["f"] == Op.ACQUIRE] = 60_000_000_000
    return named(case(told, promises=promises))


def fillings(rule: Rule, run: Run, rng: random.Random, most: int) -> Iterator[dict[str, int]]:
    """Ways to fill the parts of a rule with rows that are of the kinds that they have to be."""
    rows, wanted = run.rows, dict[str, list[int]]()
    for role, (ops, statuses) in rule.roles.items():
        kinds = {OPS[op] for op in ops.split("|")}
        said = {STATUSES[status] for status in statuses.split("|")}
        fit = [at for at in range(rows.count) if rows.f[at] in kinds and rows.status[at] in said]
        for name in (role.replace("*", "1"), role.replace("*", "2")):
            wanted[name] = fit
    size = 1
    for fit in wanted.values():
        size *= len(fit)
    if size <= most:
        for each in product(*wanted.values()):
            yield dict(zip(wanted, each, strict=True))
        return
    for _ in range(most):
        yield {name: rng.choice(fit) for name, fit in wanted.items()}


def states(rule: Rule, run: Run, rng: random.Random) -> dict[str, int]:
    edges = sorted({0, *run.rows.t_inv, *run.rows.t_ret, run.end_ns})
    found = sorted(rng.choice(edges) for _ in rule.states)
    return dict(zip(rule.states, found, strict=True))


def forged(given: Case, rng: random.Random, most: int) -> Iterator[tuple[str, dict[str, int], str]]:
    """What can be proved of a case: the rule and its rows. What a certificate repeats is left out:
    if that is all that is wrong with it, everything else was right."""
    verifier = Verifier(run := recorded(given))
    for name, rule in RULES.items():
        for roles in fillings(rule, run, rng, most):
            writers = {role: run.rows.named(at) for role, at in roles.items()}
            rows = {role: {"writer": w, "row": n} for role, (w, n) in writers.items()}
            certificate = {"rule": name, "rows": rows, "states": states(rule, run, rng)}
            text = run.rows.strings[run.rows.key[roles[rule.lock.replace("*", "1")]]]
            kind = rule.kinds[0]
            lock = text.rpartition("#")[0] if kind.startswith("job-") else text
            why = verdict_on({"kind": kind, "lock": lock, "certificate": certificate}, verifier)
            assert why and not why.startswith("damaged"), (name, roles, why)
            if why.endswith("not as recorded"):
                yield name, roles, why


def found(given: Case) -> list[str]:
    every = {load(entry) for entry in catalogue.CHECKERS.values()}
    return [finding.kind for check in every for finding in check(given).findings]


@pytest.mark.parametrize("innocent", INNOCENT, ids=lambda one: one[0][:60])
def test_nothing_is_proved_of_a_history_without_a_violation(innocent: Any, draws: Draws) -> None:
    given = calm(*innocent)
    assert found(given) == []
    assert list(forged(given, random.Random(1), draws(MOST))) == []


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_proved_of_a_service_that_does_right(seed: int, draws: Draws) -> None:
    _, told = guarded_run(seed)
    given = named(told)
    every = forged(given, random.Random(seed), draws(MOST))
    shown = [(name, roles) for name, roles, _ in every]
    kinds = {RULES[name].kinds[0] for name, _ in shown}
    # Its clients do write after their leases are over, and go on after they were told.
    assert kinds <= {*found(given)}, shown


def test_of_a_violation_something_is_proved() -> None:
    given = calm("0a? 0a+7 1a? 1a+8 0n? 0n+", (), {})
    assert {name for name, *_ in forged(given, random.Random(1), MOST)} >= {"double-grant"}
