"""The verifier against brute force, on every history of two clients with a few ops.

Each client acquires, may renew and may release; every interleaving of their calls and answers is
taken, every acquire answered or not, and both orders of tokens. Brute force tries every moment at
which each op can have taken effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import pytest

from holdfast.checkers.properties import mutual_exclusion, token_order
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import Finding, Proof
from holdfast.harness.judging.certificates import certificate
from holdfast.harness.verification.verify import Outcome
from tests.checkers.certified import told, verified
from tests.checkers.shorthand import case

SCRIPTS = ("a", "an", "ar", "anr")
PROMISES = {"bound": "connection"}
NEVER = 99
Op = tuple[str, int, int]
"""what, call and answer; an answer that never came is NEVER"""


def histories(ops: int) -> Iterator[tuple[str, tuple[list[Op], list[Op]], bool]]:
    """Every history of so many ops: its text, the ops of both clients, whether 0's token is less"""
    for first, second in product(SCRIPTS, SCRIPTS):
        if len(first) + len(second) != ops:
            continue
        edges = 2 * ops
        for mine in combinations(range(edges), 2 * len(first)):
            other = [at for at in range(edges) if at not in mine]
            for lost0, lost1, less in product((False, True), repeat=3):
                tokens = (1, 2) if less else (2, 1)
                words: list[tuple[int, str]] = []
                told_of = []
                parts = zip((first, second), (mine, other), (lost0, lost1), strict=True)
                for process, (script, at, lost) in enumerate(parts):
                    made: list[Op] = []
                    for n, what in enumerate(script):
                        call, back = at[2 * n], at[2 * n + 1]
                        gone = lost and what == "a"
                        token = f"{tokens[process]}"
                        words.append((call, f"{process}{what}?@{call}"))
                        if not gone:
                            words.append((back, f"{process}{what}+{token}@{back}"))
                        made.append((what, call, NEVER if gone else back))
                    told_of.append(made)
                text = " ".join(word for _, word in sorted(words))
                yield text, (told_of[0], told_of[1]), less


def holds(made: list[Op]) -> list[tuple[int, int]]:
    """Every hold that a client can have had: from its grant to what last shows it. [] for none."""
    (_, call, back), *after = made
    if back == NEVER and not after:
        return []
    found = []
    for grant in range(call, min(back, NEVER - 1, 24) + 1):
        effects = [range(begin, end + 1) for _, begin, end in after]
        for moments in product(*effects):
            if all(a <= b for a, b in zip((grant, *moments), moments, strict=False)):
                found.append((grant, max((grant, *moments))))
    return found


def courses(both: tuple[list[Op], list[Op]]) -> set[str]:
    """In which order the two clients can have held one after the other."""
    first, second = (holds(made) for made in both)
    if not first or not second:
        return {"01", "10"}
    found = set()
    for (begin0, end0), (begin1, end1) in product(first, second):
        found |= set() if end0 > begin1 else {"01"}
        found |= set() if end1 > begin0 else {"10"}
    return found


def forged(given: Case) -> Iterator[Finding]:
    """Every double grant that could be claimed of two attempts, whatever rows are said to prove."""
    rows = given.history.rows
    of = {p: [n for n in range(len(rows)) if rows["process"][n] == p] for p in (0, 1)}
    for older, newer in ((0, 1), (1, 0)):
        for k0, p0, k1, p1 in product(of[older], of[older], of[newer], of[newer]):
            roles = {
                "older": of[older][0], "older_known": k0, "older_proof": p0,
                "newer": of[newer][0], "newer_known": k1, "newer_proof": p1,
            }  # fmt: skip
            proof = Proof(rule="double-grant", roles=roles)
            yield Finding(
                kind="double-grant", sentence="", witnesses=(), lock="db", t_ns=0, proof=proof
            )


def accepts(given: Case, findings: list[Finding]) -> Outcome:
    rows = [
        {"kind": f.kind, "lock": f.lock, "certificate": certificate(given, f)} for f in findings
    ]
    row = {"property": "mutual-exclusion", "verdict": "VIOLATED", "findings": rows}
    return verified(given, {"verdicts": [row], "orders": b""})


def compare(ops: int, forge_every: int) -> int:
    """How many histories were compared."""
    seen = 0
    for seen, (text, both, less) in enumerate(histories(ops), 1):
        given = case(text, promises=PROMISES)
        possible = courses(both)
        exclusion, order = mutual_exclusion.check(given), token_order.check(given)
        for verdict in (exclusion, order):
            outcome = verified(given, told(given, verdict))
            assert not outcome.refused, (text, outcome.refused)
            assert outcome.accepted >= len(verdict.findings)
        assert bool(exclusion.findings) == (not possible), text
        if possible:
            wanted = "01" if less else "10"
            known = all(holds(made) for made in both)
            assert bool(order.findings) == (known and wanted not in possible), text
        if seen % forge_every == 0:
            outcome = accepts(given, list(forged(given)))
            assert bool(outcome.accepted) == (not possible), (text, outcome)
    return seen


@pytest.mark.parametrize("ops", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_a_violation_is_accepted_if_and_only_if_no_course_of_events_explains_it(ops: int) -> None:
    assert compare(ops, forge_every=40) > 0


@pytest.mark.power
@pytest.mark.parametrize("ops", [5, 6])
def test_the_same_for_every_history_of_up_to_six_ops(ops: int) -> None:
    assert compare(ops, forge_every=100) > 0
