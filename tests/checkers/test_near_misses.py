"""Two programs that were written apart, on histories that lie next to a violation.

Checkers and verifier derive holds each by code of its own. Both are asked about neighbours of
histories with one violation: what the checkers find the verifier accepts; where the verifier
accepts the old proof, filled in anew, the checkers find a violation too; and both come to the same
ends, proofs and leases of every attempt.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast import catalogue
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import INF, attempts, leased_until
from holdfast.checkers.holds.overlaps import reach
from holdfast.checkers.holds.token_order import ordered
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Mode, Op, Status, Terms
from holdfast.harness.core.verdict import Finding, Proof, Verdict
from holdfast.harness.judging.certificates import certificate
from holdfast.harness.verification.conditions import Row, job
from holdfast.harness.verification.rule import each_of, valued
from holdfast.harness.verification.rules import RULES
from holdfast.harness.verification.verify import Verifier, verdict_on
from tests.checkers.certified import recorded, told, verified
from tests.checkers.correct_services.histories import case_of, tell
from tests.checkers.correct_services.kinds import SERVICES
from tests.checkers.correct_services.planted import PLANTS, Hand, open_to, service_of
from tests.checkers.correct_services.world import Faults, World
from tests.checkers.neighbours import neighbours
from tests.checkers.shorthand import case, history, on
from tests.draws import Draws
from tests.harness.verification import specimens as of_rules

MEANS_LITTLE = {"renew_proves": False, "release_proves": False, "release_once": False}
PATHS = {"subtrees": True}
UNTIL_RELEASED = {"bound": "none", **MEANS_LITTLE}
SPECIMENS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("mutual-exclusion", "0a? 0a+7 1a? 1a+8 0n? 0n+", {}),
    ("mutual-exclusion", "0a? 0a+7 1a? 1a+8", {}),
    ("mutual-exclusion", "0a? 0a+7 0n?/5 0n~ 1a? 1a+8 1r? 1r+", {}),
    ("mutual-exclusion", "0a? 0a+7 1a? 1a+8 0r? 0r+", UNTIL_RELEASED),
    ("mutual-exclusion", "0a? 1a? 1a+8 0n? 0n+7 1n? 1n+ 0n? 0n+7", {}),
    ("mutual-exclusion", "0h? 0h+ 0a? 0a+7 0h? 0h+ 1a? 1a+8", {"bound": "session"}),
    ("token-order", "0a? 0a+7 0r? 0r+ 1a? 1a+5", {}),
    ("token-order", "0a? 0a+7 0r? 0r+ 1a? 1a+7", {}),
    ("token-order", "0a? 0a+7 0r? 0r+ 1a? 1a+7", {"tokens_unique": False}),
    ("token-order", "0a? 1a? 1a+8 1r? 1r+ 0a+7 0n? 0n+", {}),
    ("no-stale-write", "0a? 0a+1 0w? 1a? 1a+2 1w? 1S+ 1w+ 0S+ 0w+", {}),
    ("no-stale-write", "0a? 1a? 0a+1 1a+2 0w? 1w? 1S+ 1w+ 0S+ 0w+", {}),
    ("ownership", "0a? 0a+1 0r? 0r+ 0n? 0n+", {}),
    ("ownership", "0a? 0a- 0r? 0r+", {}),
    ("ownership", "0a? 0a+1 1a? 1a+2 0r? 0r+", {}),
    ("ownership", "0a? 0a+1/2 1a?@4 1a+2 0n? 0n+ 1n? 1n+ 1r? 1r+", {"renew_proves": False}),
    ("no-expired-write", "0a? 0a+1 0r? 0r+ 0w? 0S+ 0w+", {}),
    ("no-expired-write", "0a? 0a+1 0w? 0r? 0r! 0S+ 0w+", {}),
    ("no-expired-write", "0a? 0a+1 0w? 0L 0S+ 0w+", {}),
    ("no-expired-write", "0a? 0a+1 0w? 9f? 9f+ 0S+ 0w+", {}),
    ("no-expired-write", "0a? 0a+1 0w? 0S+@20 0w+@21", {}),
    ("no-expired-write", "0a? 0a+1/3 0w? 1a?@8 1a+2 0S+ 0w+ 1r? 1r+", {}),
    ("no-lost-update", "0a? 0a+1 0w?=0 0S+=1 0w+=1 1a? 1a+2 1w?=0 1S+=2 1w+=2", {}),
    ("no-lost-update", "0a? 0a+1 0w?=0 0S+=1 0w+=1 0w?=0 0S+=1 0w+=1", {}),
    ("applied-once", "0a? 0a+1 0w? 0S+=1 0S+=2 0w+", {}),
    ("no-false-rejection", "0a? 0a+1 0w? 0S-1 0w- 0n? 0n+", {}),
    ("bounded-bypass", "9a? 9a+1 0a? 0Q 9r? 9r+ 1a? 1a+2 1r? 1r+ 0a+3", {}),
    ("mutual-exclusion", "0a? 0a+7 0n? 0n+ 0C 1a?@8 1a+8", {"delay_ns": 20 * SECOND}),
    ("mutual-exclusion", "0a?:/x 0a+7 1a?:/x/y 1a+8 0n?:/x 0n+", PATHS),
    ("token-order", "0a?:/x 0a+7 0r?:/x 0r+ 1a?:/x/y 1a+5 1r?:/x/y 1r+", PATHS),
    ("token-order", "0a?:/x 0a+7 0r?:/x 0r+ 1a?:/x/y 1a+7 1r?:/x/y 1r+", PATHS),
    ("mutual-exclusion", "0a? 1a? 0L 1a+6 1n? 1n+6 1r? 1r+ 0a+7", {}),
    (
        "mutual-exclusion",
        "0h? 0h+/5 0a? 0a+7 0h? 0h+/5 0C 1a? 1a+8",
        {"bound": "session", "delay_ns": 9 * SECOND},
    ),
    ("ownership", "0a? 0a+1/2 1a?@4 1a+2 0n? 0n+", {"renew_proves": False}),
    ("ownership", "1a? 0a? 0a+1/2 0r? 1a+2 0r+ 0n? 0n+ 1n? 1n+", {}),
    ("no-stale-write", "0a? 0a+1/2 0w? 1a?@5 1a+2 1w? 1S+ 1w+ 1r? 1r+ 2a? 2a+3 0S+ 0w+", {}),
    ("no-expired-write", "0a? 0a+1/3 0w? 0n? 0n~ 0C 0S+@20 0w+", {"drift_ppm": 1000}),
    ("no-expired-write", "0a? 0a+1/3 0n? 0n+ 0w? 9f?=1 9f+1 0S+@20 0w+", {}),
    ("exactly-once-job", "0a?:x 0a+1 0w?:x#0 0S+=1 0w+=1 0w?:x#0 0S+=2 0w+=2", {}),
    ("exactly-once-job", "0a?:x 0a+1 0d?:x#3 0d+=1", {}),
    ("exactly-once-job", "0a?:x 0a+1 0d?:x#0 0d+=0 0w?:x#3 0S+=1 0w+=1", {}),
    (
        "starvation-freedom",
        "9a? 9a+1 0a? 0Q 9r? 9r+ 1a? 1a+2 1r? 1r+ 9a? 9a+3 9r? 9r+ 1a? 1a+4 1r? 1r+"
        " 1a? 1a+5 1r? 1r+ 1a? 1a+6 1r? 1r+ 0a+7",
        {"order": "racing"},
    ),
    ("loss-notice", "0a? 0a+1 0L 0w? 0S- 0w- 0w? 0S- 0w-", {}),
)
"""property, history, what the promises differ in"""
ON_TERMS: tuple[tuple[str, str, tuple[Terms, ...]], ...] = (
    (
        "mutual-exclusion",
        "0a? 0a+1 1a? 1a+2 2a? 2a+3 0n? 0n+ 1n? 1n+ 2n? 2n+",
        (Terms(mode=Mode.PERMITS, permits=1, limit=2),) * 3,
    ),
    (
        "token-order",
        "0a? 0a+5 1a? 1a+6 0r? 0r+ 1r? 1r+ 2a? 2a+4 2r? 2r+",
        (Terms(mode=Mode.SHARED), Terms(mode=Mode.SHARED), Terms()),
    ),
    (
        "no-stale-write",
        "0a? 0a+5 0w? 1a? 1a+6 1d? 1D 1d+ 1r? 1r+ 2a? 2a+7 2d? 2D+ 2d+ 0S+ 0w+",
        (Terms(), Terms(mode=Mode.SHARED), Terms(mode=Mode.SHARED)),
    ),
    (
        "mutual-exclusion",
        "0a? 0a+1 1a? 1a+2 2a? 2a+3",
        (Terms(mode=Mode.PERMITS, permits=1, limit=2),) * 3,
    ),
    (
        "mutual-exclusion",
        "0a? 0a+1 1a? 1a+2 2a? 2a+3 2n? 2n+ 0n? 0n+",
        (Terms(mode=Mode.SHARED), Terms(mode=Mode.SHARED), Terms()),
    ),
)


STRONGER = {
    "double-holder": {"double-grant"},
    "broken-lease": {"double-grant", "over-admission"},
    "early-grant": {"double-grant", "broken-lease"},
    "foreign-release": {"foreign-renewal"},
    "foreign-renewal": {"foreign-release"},
    "lost-without-notice": {"silent-reacquire"},
}
"""Kinds that say more of the same pair of holds, and are told instead."""
PART_OF_ANOTHER = {"livelock"}
"""Kinds of which a part may be proved where the checker judges the whole: of a storm of tries that
thins out, its second half alone."""


def specimens() -> Iterator[tuple[str, Case]]:
    """(property, a history with a violation of it)"""
    for prop, text, promises in SPECIMENS:
        yield prop, later(case(text, promises=promises, asked=(prop,)))
    for prop, text, terms in ON_TERMS:
        yield prop, later(case(on(history(text), *terms), asked=(prop,)))


def of_every_rule() -> Iterator[tuple[str, Case]]:
    """(property, a history with a violation of it), one per rule of the verifier at least."""
    yield from of_rules_drawn_from()
    yield from of_rules_since()


def of_rules_drawn_from() -> Iterator[tuple[str, Case]]:
    """Those that other histories are drawn from."""
    for one in of_rules.DRAWN_FROM:
        yield one.prop, later(one.case())


def of_rules_since() -> Iterator[tuple[str, Case]]:
    """The others."""
    for one in of_rules.MORE:
        yield one.prop, later(one.case())


def later(given: Case, by_ns: int = 100 * SECOND) -> Case:
    """The same with nothing at moment 0, which stands for a call that never returned."""
    rows = given.history.rows
    rows["t_inv"] += by_ns
    rows["t_ret"][rows["t_ret"] > 0] += by_ns
    windows = [
        replace(
            window,
            from_ns=window.from_ns + by_ns,
            to_ns=window.to_ns + by_ns,
            evidence={
                name: [t_ns + by_ns for t_ns in times] if isinstance(times, list) else times
                for name, times in window.evidence.items()
            },
        )
        for window in given.windows
    ]
    stop_ns, end_ns = given.stop_ns + by_ns, given.end_ns + by_ns
    return replace(given, windows=windows, stop_ns=stop_ns, end_ns=end_ns)


def planted(kind: str, seed: int) -> Case:
    """A history of a correct service into which one violation of a kind is planted."""
    plant = PLANTS[kind]
    service = SERVICES[service_of(plant)]
    while True:
        world = tell(service, f"near {kind} {seed}", Faults(), 0)
        if open_to(kind, world):
            plant.plant(Hand(world))
            return case_of(service, [world], Faults())
        seed += 1000


def alone(kind: str) -> Iterator[Case]:
    """The planted violation by itself, of every service of which it is one."""
    plant = PLANTS[kind]
    for service in SERVICES:
        world = World(service, f"alone {kind}", Faults(), 1)
        plant.plant(Hand(world))
        given = case_of(service, [world], Faults())
        if load(catalogue.CHECKERS[plant.prop])(given).findings:
            yield given


def place(given: Case, at: int) -> tuple[int, int]:
    """What names a row, wherever it stands."""
    row = given.history.rows[at]
    return int(row["writer"]), int(row["row"])


def claimed(given: Case, verifier: Verifier, finding: Finding) -> dict[str, Any]:
    """A finding with a certificate in which every number is as the verifier has it."""
    assert finding.proof
    rule, rows, named = RULES[finding.proof.rule], verifier.rows, given.history
    roles = {}
    for role, at in finding.proof.roles.items():
        writer, row = place(given, at)
        roles[role] = Row(rows, rows.place(named.writers[writer], row))
    states = {name: finding.proof.values[name] for name in rule.states}
    known, values = {**verifier.names, **states, **roles, "roles": roles}, dict(states)
    for name, text in rule.values.items():
        for own, each in zip(each_of(name, roles), each_of(text, roles), strict=True):
            values[own] = known[own] = int(valued(each, known))
    proof = replace(finding.proof, values=values)
    about = roles[rule.lock]
    lock = job(about)[0] if finding.kind.startswith("job-") else about.text
    certified = certificate(given, replace(finding, proof=proof))
    return {"kind": finding.kind, "lock": lock, "certificate": certified}


def retold(given: Case, old: Case, finding: Finding) -> Finding | None:
    """The finding by the rows of another case: None where they are not all there."""
    assert finding.proof
    at = {place(given, n): n for n in range(len(given.history.rows))}
    names = {role: place(old, row) for role, row in finding.proof.roles.items()}
    if not all(name in at for name in names.values()):
        return None
    roles = {role: at[name] for role, name in names.items()}
    return replace(finding, proof=replace(finding.proof, roles=roles))


def forged(given: Case, finding: Finding, chance: random.Random) -> Finding:
    """The finding with another row in place of one of its own."""
    assert finding.proof
    roles, rows = dict(finding.proof.roles), given.history.rows
    role = chance.choice(sorted(roles))
    alike = np.flatnonzero(rows["f"] == rows["f"][roles[role]])
    roles[role] = int(chance.choice(alike if chance.random() < 0.7 else range(len(rows))))
    return replace(finding, proof=replace(finding.proof, roles=roles))


def same_holds(given: Case, verifier: Verifier) -> None:
    """Both programs derive the same of every attempt and lock."""
    run, rows, far = verifier.run, verifier.rows, reach(given)
    for n, a in enumerate(attempts(given)):
        writer, row = place(given, a.row)
        at = rows.place(given.history.writers[writer], row)
        granted = run.known(at)
        if a.status in (Status.FAIL, Status.NOT_OWNER):
            assert granted < 0 and a.known_ns == INF and run.possible_end(at) == -1
            continue
        theirs = {
            "end": run.end(at),
            "known": INF if granted < 0 else rows.t_ret[granted],
            "proof": run.proof_reach(at),
            "possible": run.possible_end(at),
        }
        ours = {
            "end": a.end_ns,
            "known": a.known_ns,
            "proof": max(a.inv_ns, a.proof_ns),
            "possible": -1 if a.possible is None else a.possible[1],
        }
        if granted >= 0:
            theirs["reach"], ours["reach"] = run.reach(at), far(a)
        if a.status is Status.OK and run.bound == "lease":
            theirs["leased"] = run.leased(at, every_unknown=True)
            ours["leased"] = leased_until(given, a)[0]
        assert theirs == ours, (n, theirs, ours)
    conditions = verifier.conditions
    promised = given.promises.tokens == "ordered" and run.promised("token-order")
    for key in np.unique(table(given).key).tolist() if promised else ():
        theirs_key = rows.strings.index(given.history.strings[key])
        in_order = conditions.names()["in_token_order"]
        first = next(
            n for n, k in enumerate(rows.key) if k == theirs_key and rows.f[n] in (1, 2, 14)
        )
        assert in_order(Row(rows, first)) == ordered(given, key), given.history.strings[key]


def agree(
    old: Case, given: Case, prop: str, found: tuple[Finding, ...], chance: random.Random
) -> Counter[str]:
    """What the neighbour of a case came to; AssertionError where the two programs differ."""
    verdict = load(catalogue.CHECKERS[prop])(given)
    assert not (told_of := verified(given, told(given, verdict))).refused, told_of
    verifier = Verifier(recorded(given))
    seen = {(f.kind, f.lock) for f in verdict.findings}
    outcome = Counter[str]()
    for finding in found:
        again = retold(given, old, finding) if finding.proof else None
        if again is None:
            outcome["gone"] += 1
            continue
        for one in (again, forged(given, again, chance), forged(given, again, chance)):
            row = claimed(given, verifier, one)
            accepted = not verdict_on(row, verifier)
            outcome["accepted" if accepted else "refused"] += 1
            alike = {(kind, row["lock"]) for kind in (one.kind, *STRONGER.get(one.kind, ()))}
            whole = one.kind not in PART_OF_ANOTHER
            assert not (accepted and whole) or alike & seen, (one.kind, one.proof, seen)
    same_holds(given, verifier)
    return outcome


def compare(every: Iterator[tuple[str, Case]], count: int, seed: str) -> Counter[str]:
    """So many neighbours of each of these cases."""
    chance, outcome = random.Random(seed), Counter[str]()
    for prop, old in every:
        found = load(catalogue.CHECKERS[prop])(old).findings
        assert found, (prop, old.history.rows)
        for near in neighbours(old, chance, count):
            outcome["cases"] += 1
            outcome += agree(old, near, prop, found, chance)
    return outcome


def every_planted(kinds: Iterable[str], seed: int) -> Iterator[tuple[str, Case]]:
    for kind in kinds:
        prop = PLANTS[kind].prop
        yield from ((prop, given) for given in alone(kind))
        yield prop, planted(kind, seed)


PROVED = sorted(kind for kind in PLANTS if any(kind in rule.kinds for rule in RULES.values()))


def test_next_to_a_violation_of_a_few_ops_checkers_and_verifier_agree(draws: Draws) -> None:
    outcome = compare(specimens(), draws(30), "few")
    assert min(outcome["accepted"], outcome["refused"]) > draws(1000)


def test_next_to_a_violation_of_any_rule_checkers_and_verifier_agree(draws: Draws) -> None:
    outcome = compare(of_every_rule(), draws(9), "every rule")
    assert min(outcome["accepted"], outcome["refused"]) > draws(1000)


def test_next_to_a_planted_violation_checkers_and_verifier_agree(draws: Draws) -> None:
    outcome = compare(every_planted(PROVED, 1), draws(6), "planted")
    assert min(outcome["accepted"], outcome["refused"]) > draws(500)


@pytest.mark.power
@pytest.mark.parametrize("seed", range(10))
def test_the_same_for_very_many_neighbours(seed: int) -> None:
    compare(specimens(), 2000, f"many {seed}")
    compare(of_every_rule(), 1000, f"many {seed}")
    compare(every_planted(PROVED, seed), 300, f"many {seed}")


# What they differed in, each reduced to a few ops.


def accepted(given: Case, kind: str, rule: str, roles: dict[str, int]) -> bool:
    proof = Proof(rule=rule, roles=roles)
    one = Finding(kind=kind, sentence="", witnesses=(), lock="db", t_ns=0, proof=proof)
    verifier = Verifier(recorded(given))
    return not verdict_on(claimed(given, verifier, one), verifier)


def test_permits_are_too_many_only_if_all_were_held_when_the_last_of_them_was_known() -> None:
    terms = (Terms(mode=Mode.PERMITS, permits=1, limit=2),) * 3
    # 0 may have let go before 1 was granted: both only met 2.
    told_of = "0a? 0a+1 1a? 2a? 2a+3 0n? 0n+ 0r? 0r+ 1a+2 1n? 1n+ 1r? 1r+ 2n? 2n+"
    given = case(on(history(told_of), *terms))
    assert not load(catalogue.CHECKERS["mutual-exclusion"])(given).findings
    row = {(p, f): n for n, (p, f) in enumerate(given.history.rows[["process", "f"]].tolist())}
    roles = dict[str, int]()
    for role, process in (("newest", 2), ("other1", 0), ("other2", 1)):
        roles |= {role: row[process, 1], f"{role}_known": row[process, 1]}
        roles[f"{role}_proof"] = row[process, 3]
    assert not accepted(given, "over-admission", "over-admission", roles)


@pytest.mark.parametrize("words", ["0a? 0a+7 0r? 0r+ 1a? 1a+5", "0a? 0a+7 0r? 0r+ 1a? 1a+7"])
def test_tokens_that_are_no_fencing_tokens_are_in_no_order(words: str) -> None:
    for tokens, wrong in (("ordered", True), ("unordered", True), ("none", False)):
        given = case(words, promises={"tokens": tokens})
        (first, second), known = (0, 2), {"first_known": 0, "second_known": 2}
        roles = {"first": first, "second": second, **known}
        inverted = accepted(
            given, "token-inversion", "token-inversion", {**roles, "second_proof": second}
        )
        assert inverted == (wrong and words.endswith("5"))
        repeated = accepted(given, "token-repeated", "token-repeated/unique", roles)
        assert repeated == (wrong and words.endswith("7"))


def test_tokens_that_need_not_be_unique_may_be_granted_twice() -> None:
    known = {"first": 0, "first_known": 0, "second": 2, "second_known": 2}
    for unique in (True, False):
        given = case("0a? 0a+7 0r? 0r+ 1a? 1a+7", promises={"tokens_unique": unique})
        assert accepted(given, "token-repeated", "token-repeated/unique", known) == unique


def test_a_token_that_is_granted_twice_in_turn_puts_no_tokens_of_its_lock_in_order() -> None:
    given = case("9a? 9a+1 0a? 0Q 9r? 9r+ 1a? 1a+1 1r? 1r+ 0a+3")
    assert not ordered(given, 1)
    roles = {"a": 2 - 1, "waiting": 2, "by1": 4}
    assert not accepted(given, "overtaken", "overtaken", roles)


def test_one_token_for_two_locks_of_a_line_is_granted_twice() -> None:
    given = case("0a?:/x 0a+7 0r?:/x 0r+ 1a?:/x/y 1a+7", promises={"subtrees": True})
    verdict = load(catalogue.CHECKERS["token-order"])(given)
    assert [finding.kind for finding in verdict.findings] == ["token-repeated"]
    assert not verified(given, told(given, verdict)).refused


def test_a_lock_delay_is_counted_from_the_last_heartbeat_of_the_session_that_ended() -> None:
    words = "0h? 0h+/90 0C 0h? 0h+/5 0a? 0a+7 0h? 0h+/5 0C 1a?@30 1a+8"
    given = case(words, promises={"bound": "session", "delay_ns": 9 * SECOND})
    assert not load(catalogue.CHECKERS["mutual-exclusion"])(given).findings
    a, b = (n for n, f in enumerate(given.history.rows["f"].tolist()) if f == Op.ACQUIRE)
    for lease in (n for n, f in enumerate(given.history.rows["f"].tolist()) if f == Op.HEARTBEAT):
        roles = {"a": a, "a_known": a, "b": b, "b_known": b, "lease": lease}
        assert not accepted(given, "early-grant", "early-grant/time", roles)


@pytest.mark.parametrize("words", ["0w? 0S+ 0w+", "0w? 0S- 0w- 0n? 0n+", "0d? 0D+ 0d+ 0L"])
@pytest.mark.parametrize("prop", catalogue.CHECKERS)
def test_a_history_without_an_acquire_is_judged(prop: str, words: str) -> None:
    given = case(words, promises={"reasons": True}, asked=(prop,))
    assert load(catalogue.CHECKERS[prop])(given).verdict is not Verdict.HOLDS


def test_a_notice_of_an_attempt_that_never_asked_is_no_wrong_reason() -> None:
    given = case("0L", promises={"reasons": True}, asked=("loss-notice",))
    given.history.rows["res"] = len(given.history.strings)
    told_of = replace(given.history, strings=[*given.history.strings, "revoked"])
    assert not load(catalogue.CHECKERS["loss-notice"])(replace(given, history=told_of)).findings


def forgeable(given: Case, kind: str, rule: str, roles: dict[str, int]) -> bool:
    """Whether the verifier accepts a finding that the checker does not make."""
    assert not load(catalogue.CHECKERS[of_rules.QUERIES])(given).findings
    return accepted(given, kind, rule, roles)


def test_entries_left_are_false_only_while_the_leases_of_the_lock_last() -> None:
    # The lease of 0's first entry ran out before its time: its second may be the last one left.
    roles = {"release": 2, "other1": 0, "other1_known": 0}
    words = "0a? 0a+7 0a? 0a+7 0r? 0r+=0 0.1n? 0.1n{}"
    assert not forgeable(case(words.format("!")), "false-entries", "false-entries/fewer", roles)
    assert accepted(case(words.format("+")), "false-entries", "false-entries/fewer", roles)


def test_entries_are_not_counted_for_a_release_whose_acquire_is_unknown() -> None:
    given = case("1a? 1a+7 0.1r? 0.1r+=1")
    assert not forgeable(given, "false-entries", "false-entries/more", {"release": 1})


def test_a_renewal_that_returned_as_the_holder_was_queried_need_not_be_counted_yet() -> None:
    roles = {"query": 2, "holder": 0}
    for asked, wrong in ((3, False), (3.000000001, True)):
        given = case(f"0a?@0 0a+7@1 0n?@2 0n+@3 1q?@{asked} 1q+7=0@4 0r?@5 0r+@6")
        assert bool(load(catalogue.CHECKERS[of_rules.QUERIES])(given).findings) == wrong
        assert accepted(given, "false-answer", "false-answer/renewed-more", roles) == wrong


def test_a_notice_that_came_after_the_end_of_a_claim_proves_nothing_more() -> None:
    given = case("0a? 0a+1 0w? 0r? 0r~ 0L 0S+ 0w+")
    assert not load(catalogue.CHECKERS["no-expired-write"])(given).findings
    roles = {"owner": 0, "request": 4, "end": 3}
    assert not accepted(given, "expired-owner-write", "expired-owner-write/told", roles)
    given = case("0a? 0a+1 0w? 0L 0S+ 0w+")
    roles = {"owner": 0, "request": 3, "end": 2}
    assert accepted(given, "expired-owner-write", "expired-owner-write/told", roles)


def test_a_lock_for_which_no_client_asked_has_no_waiters() -> None:
    given = case("0a?:y 0a+7:y 0l?:x 0l+:x=1")
    verdict = load(catalogue.CHECKERS[of_rules.QUERIES])(given)
    assert [finding.kind for finding in verdict.findings] == ["false-length"]
    assert not verified(given, told(given, verdict)).refused
    assert not load(catalogue.CHECKERS[of_rules.QUERIES])(case("0l? 0l+=0")).findings
