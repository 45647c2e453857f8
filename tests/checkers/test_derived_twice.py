"""Ends, proofs, leases and conflicts are derived by checkers and verifier, each by its own code.

Both are asked the same about small histories, which are so dense that a change of one comparison or
sign in either of them shows; and what the checkers find is verified.
"""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from holdfast import catalogue
from holdfast.checkers.facts.late_writes import _inside_again
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.contradictions import first_come, stands_for
from holdfast.checkers.holds.derive import INF, Attempt, attempts, by_lock, conflict, leased_until
from holdfast.checkers.holds.held_at_once import overlaps
from holdfast.checkers.holds.hold_end import _surely_ended, lease_ran_by_itself
from holdfast.checkers.holds.overlaps import granted, reach
from holdfast.checkers.holds.statements import ENDING, LASTING
from holdfast.checkers.holds.token_order import ordered
from holdfast.checkers.opportunities.places.lock_delays import opens_ns
from holdfast.harness.core.case import Case
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Mode, Op, Status, Terms
from holdfast.harness.verification.conditions import Row
from holdfast.harness.verification.verify import Verifier
from tests.checkers.certified import recorded, told, verified
from tests.checkers.shorthand import case, history, on
from tests.checkers.small_histories import TICK, small
from tests.draws import Draws

CERTIFIED = (
    "mutual-exclusion", "token-order", "ownership", "bounded-bypass", "starvation-freedom",
)  # fmt: skip


EXCLUSION = "mutual-exclusion"


class Both:
    """One case as both programs see it."""

    def __init__(self, given: Case) -> None:
        self.case = given
        self.verifier = Verifier(recorded(given))
        self.run, self.rows = self.verifier.run, self.verifier.rows
        self.names = self.verifier.names

    def at(self, row: int) -> int:
        """Where the verifier has a row of the merged history."""
        one = self.case.history.rows[row]
        writer = self.case.history.writers[int(one["writer"])]
        return self.rows.place(writer, int(one["row"]))

    def row(self, row: int) -> Row:
        return Row(self.rows, self.at(row))


def of_attempts(both: Both) -> int:
    """Of every attempt the same ends, proofs and leases. How many there were."""
    case, run, far = both.case, both.run, reach(both.case)
    for a in attempts(case):
        at = both.at(a.row)
        granted_by = run.known(at)
        closed = run.bound in ("session", "connection") and a.end_why not in ("closed", "killed")
        if not (closed and ends_at_once(both, a)):
            assert run.possible_end(at) == (-1 if a.possible is None else a.possible[1]), a
        assert (INF if granted_by < 0 else both.rows.t_ret[granted_by]) == a.known_ns, a
        if a.status in (Status.FAIL, Status.NOT_OWNER):
            continue
        assert run.end(at) == a.end_ns, a
        assert run.proof_reach(at) == max(a.inv_ns, a.proof_ns), a
        if granted_by >= 0:
            assert run.reach(at) == far(a), a
            assert both.rows.token[granted_by] == a.token, a
            proved = max([span[1] for span in (a.contract, a.proved) if span], default=0)
            assert run.until(at) == proved, a
        if a.status is Status.OK and run.bound == "lease":
            assert run.leased(at, every_unknown=True) == leased_until(case, a)[0], a
    return len(attempts(case))


def ends_at_once(both: Both, a: Attempt) -> bool:
    """Whether its session was closed at the very moment at which its claim ended otherwise: which
    of two ends at one moment counts is told apart by neither, and only the one lets go for sure."""
    rows = both.case.history.rows
    closed = rows["t_inv"][rows["f"] == Op.CLOSED].tolist()
    return a.end_ns in (*closed, *(window.from_ns for window in both.case.windows))


def of_pairs(both: Both) -> int:
    """Of every two attempts the same conflicts; of every attempt the same about what ended it."""
    case, names = both.case, both.names
    unlocks = [n for n, f in enumerate(case.history.rows["f"]) if f == Op.FORCE_UNLOCK]
    reentrant = bool((case.history.rows["op"][table(case).row] & 1).any())
    for a in attempts(case):
        mine = both.row(a.row)
        for b in attempts(case):
            assert names["conflict"](mine, both.row(b.row)) == conflict(a, b), (a, b)
        for row in unlocks:
            if case.history.rows["status"][row] == Status.OK and a.status is Status.OK:
                alike = case.history.rows["key"][row] == a.key
                ended = bool(alike) and _surely_ended(case, a, row)
                assert names["freed"](mine, both.row(row)) == ended, (a, row)
        if a.possible is not None and a.possible[1] < INF and stands_for(case, a.key, ENDING):
            assert names["calm"](mine) == lease_ran_by_itself(case, a), a
        for row in range(len(case.history.rows)):
            inside = _inside_again(case, a, int(case.history.rows["t_inv"][row]))
            assert names["outside"](mine, both.row(row)) == (not inside), (a, row, reentrant)
        renewing = {"lease": Op.RENEW, "session": Op.HEARTBEAT}.get(case.promises.bound)
        if a.lease_row >= 0 and case.history.rows["f"][a.lease_row] == renewing:
            lease = both.row(a.lease_row)
            assert names["confirms"](lease, mine), a
            assert names["opens"](mine, lease) == opens_ns(case, a), a
    return len(attempts(case)) ** 2


def of_locks(both: Both, seen: Counter[str]) -> int:
    """Of every lock which assumptions stand, and whether its holds are apart, its permits of one
    number."""
    case, names = both.case, both.names
    promised = case.promises.tokens == "ordered" and both.run.promised("token-order")
    for key, every in by_lock(case).items():
        row = both.row(every[0].row)
        if not case.promises.subtrees and not any(ends_at_once(both, a) for a in every):
            assert names["lasting"](row) == stands_for(case, key, LASTING)
            ending = both.verifier.conditions.ending(row.key)
            assert ending == stands_for(case, key, ENDING)
            assert names["in_turn_of_asking"](row) == first_come(case, key)
            seen["never ending"] += not ending
            seen["out of turn"] += not first_come(case, key)
        if promised:
            assert names["in_token_order"](row) == ordered(case, key), case.history.strings[key]
        if not case.promises.subtrees:
            assert names["disjoint"](row) == (not overlaps(case)[key]), case.history.strings[key]
            entries = granted(case)[key]
            permits = entries[table(case).mode[entries] == Mode.PERMITS]
            terms = case.history.rows["op"][table(case).row[permits]]
            assert names["one_limit"](row) == (len(np.unique(terms >> 8 & 65535)) == 1)
    return len(by_lock(case))


def found(both: Both, prop: str) -> int:
    """How many findings and orders of a property there are; all of them are accepted."""
    verdict = load(catalogue.CHECKERS[prop])(both.case)
    outcome = verified(both.case, told(both.case, verdict))
    assert not outcome.refused, (outcome.refused, verdict)
    return outcome.accepted


def compare(count: int, seed: str) -> Counter[str]:
    chance, seen = random.Random(f"derived twice {seed}"), Counter[str]()
    for _ in range(count):
        both = Both(small(chance))
        seen["attempts"] += of_attempts(both)
        seen["pairs"] += of_pairs(both)
        seen["locks"] += of_locks(both, seen)
        for prop in CERTIFIED:
            seen[prop] += found(both, prop)
    return seen


def test_both_derive_the_same_of_small_histories(draws: Draws) -> None:
    seen = compare(draws(800), "few")
    assert min(seen["mutual-exclusion"], seen["token-order"], seen["ownership"]) > draws(30)


@pytest.mark.power
@pytest.mark.parametrize("seed", range(10))
def test_both_derive_the_same_of_very_many_small_histories(seed: int) -> None:
    compare(50_000, f"many {seed}")


def late_renewals(chance: random.Random) -> Case:
    """Leases of several lengths, each renewed about when it must have expired for long."""
    error_ns, slip_ns = chance.choice((0, TICK // 4)), chance.choice((0, TICK // 2))
    drift_ppm, ttls, words = chance.choice((0, 500_000)), (1, 2, 4), list[str]()
    for process in range(chance.choice((1, 2, 3))):
        lock, back = chance.choice("xxy"), process + 1.0
        for n in range(chance.choice((2, 3, 4))):
            ttl, call = chance.choice(ttls), f"{process}{'n' if n else 'a'}"
            edge = "+" if chance.random() < 0.9 else chance.choice("~-!")
            words.append(f"{call}?:{lock}/{ttl}@{back:.9f}")
            words.append(f"{call}{edge}:{lock}/{chance.choice((ttl, ttl, 2))}@{back + 0.5:.9f}")
            more = chance.choice(ttls) * drift_ppm / 10**6 + slip_ns / TICK
            late = 3 + 2 * error_ns / TICK + chance.choice((more, more, 0))
            back += 0.5 + chance.choice((ttl, 2)) + chance.choice((0, late, late))
            back += chance.choice((-1, 0, 1)) / TICK
    said = {"renew_proves": chance.random() < 0.9, "drift_ppm": drift_ppm, "slip_ns": slip_ns}
    return case(" ".join(words), promises=said, error_ns=error_ns)


def queues(chance: random.Random) -> Case:
    """Clients that wait for one lock and are granted it in an order of their own."""
    count, words = chance.choice((2, 3, 4)), list[str]()
    tokens = chance.sample(range(1, count + 1), count)
    for process in range(count):
        call, waits = chance.randrange(1, 6), chance.choice((0, 1, 1))
        back = call + waits + chance.randrange(5)
        words.append(f"{process}a?@{call}")
        words += [f"{process}Q@{call + waits}"] if chance.random() < 0.7 else []
        words.append(f"{process}a+{tokens[process]}/1@{back}")
        words += [f"{process}r?@{back} {process}r+@{back}"] if chance.random() < 0.5 else []
    modes = [chance.choice((Terms(), Terms(), Terms(mode=Mode.SHARED))) for _ in range(count)]
    told_of = on(history(" ".join(words)), *(modes if chance.random() < 0.3 else ()))
    error_ns = chance.choice((0, 0, TICK // 4, TICK // 2))
    return case(told_of, promises={"slip_ns": 5 * TICK}, error_ns=error_ns)


def test_an_assumption_stands_for_both_or_for_neither(draws: Draws) -> None:
    chance, seen = random.Random("assumptions"), Counter[str]()
    for made in (late_renewals, queues):
        for _ in range(draws(400)):
            seen["locks"] += of_locks(Both(made(chance)), seen)
    assert min(seen["never ending"], seen["out of turn"]) > draws(20)
    assert max(seen["never ending"], seen["out of turn"]) < seen["locks"] / 2


# What they differed in, each reduced to a few ops.


def judged(given: Case, prop: str) -> list[str]:
    """The kinds of what is found; all of it is accepted."""
    verdict = load(catalogue.CHECKERS[prop])(given)
    assert not verified(given, told(given, verdict)).refused
    return [finding.kind for finding in verdict.findings]


def test_a_token_is_repeated_by_any_two_owners_of_it_and_not_only_by_neighbours() -> None:
    # 2 asked for it after 0 had it; between the two 1 was known, whom neither surely followed.
    words = "0a? 1a? 0a+7 0r? 0r+ 2a? 1a+7 1r? 1r+ 2a+7"
    given = case(words, promises={"tokens_unique": False})
    assert judged(given, "token-order") == ["token-repeated"]
    assert not ordered(given, 1)


def test_permits_of_a_path_are_no_permits_of_the_path_below_it() -> None:
    terms = (Terms(mode=Mode.PERMITS, permits=1, limit=1),) * 2
    words = "0a?:/x 0a+1 1a?:/x/y 1a+2 0n?:/x 0n+ 1n?:/x/y 1n+"
    assert judged(case(on(history(words), *terms), promises={"subtrees": True}), EXCLUSION) == []
    words = words.replace("/x/y", "/x")
    assert judged(case(on(history(words), *terms)), EXCLUSION) == ["over-admission"]


def test_a_hold_is_known_by_an_answer_that_proves_it_and_by_no_other_of_that_moment() -> None:
    # Both renewals are answered at 6 s, one of them with an error.
    words = "0a?@0 0a+1@1 1a?@2 1n?@4 1n-2@6 1.1n?@5 1.1n+2@6 1n?@7 1n+2@8"
    given = case(words, promises={"bound": "none"})
    assert judged(given, EXCLUSION) == ["double-holder"]


def test_tokens_contradict_a_hold_by_any_larger_one_that_may_have_come_first() -> None:
    # Token 1's lease lasts beyond both grants of token 2; one of them may have come before it.
    words = "1a?@0 2a?/1@1 1a+1/9@2 0a?/1@3 0a+2/1@4 2a+2/1@5"
    given = case(words)
    assert not ordered(given, 1)
    assert Both(given).names["in_token_order"](Both(given).row(0)) is False


def test_tokens_of_two_paths_below_one_have_no_order_to_contradict() -> None:
    words = "0a?:/x/a 0a+9 0r?:/x/a 0r+ 1a?:/x/b 1a+3 1r?:/x/b 1r+ 2a?:/x 2a+20"
    given = case(words, promises={"subtrees": True})
    (row,) = (
        n for n, key in enumerate(given.history.rows["key"]) if given.history.strings[key] == "/x"
    )
    assert ordered(given, int(given.history.rows["key"][row]))
    assert Both(given).names["in_token_order"](Both(given).row(row)) is True


@pytest.mark.parametrize(("contradiction", "found"), [
    ("", ["foreign-release"]),
    (" 3a?:/x/b 3a+20 3r?:/x/b 3r+ 4a?:/x/b 4a+19", []),
])  # fmt: skip
def test_tokens_that_contradict_their_order_on_one_chain_are_not_relied_on_on_another(
    contradiction: str, found: list[str]
) -> None:
    # Only its larger token shows that 1 was granted /x/a after 0 had been granted /x.
    words = "0a?:/x 1a?:/x/a 0a+7 1a+8 0r?:/x 0r+ 1r?:/x/a 1r+"
    given = case(words + contradiction, promises={"subtrees": True})
    assert judged(given, "ownership") == found


def test_an_ok_after_a_release_is_foreign_whatever_later_renewals_came_to() -> None:
    words = "0a? 0a+1 0r? 0r+ 0n? 0n+ 0n? 0n~"
    assert judged(case(words), "ownership") == ["foreign-renewal"]
    assert judged(case(words, promises={"renew_proves": False}), "ownership") == []


def test_of_two_ends_at_one_time_the_first_row_is_the_end_in_both() -> None:
    """A release without a response, and a notice of the loss at the time of its call: only a notice
    that ended the claim says when the hold was over."""
    permits = Terms(mode=Mode.PERMITS, permits=2, limit=2)
    notice, release = "0L@5", "0r?@5 0r~@5"
    for ends in (f"{release} {notice}", f"{notice} {release}"):
        text = f"0a?@3 0a+2@4 {ends} 0a?@8 0a+4@10 0f?@11 0f~@13"
        promises = {"renew_proves": False, "release_proves": False}
        assert of_pairs(Both(case(on(history(text), permits), promises=promises))) > 0


def test_a_release_of_what_a_notice_had_ended_at_that_time_cuts_no_lease_off_in_both() -> None:
    for ends in ("0L@10 0r?@10 0r!@11", "0r?@10 0L@10 0r!@11"):
        both = Both(case(on(history(f"0a?:x/5@7 0a+2:x/5@8 {ends}"), Terms())))
        assert of_locks(both, Counter()) == 1
