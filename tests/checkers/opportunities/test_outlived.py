"""Holds that outlive a crash: each condition of an opportunity; plain loops beside the columns."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from holdfast import catalogue
from holdfast.catalogue.mutants import MUTANTS
from holdfast.checkers.holds.derive import INF, Attempt, attempts, conflict
from holdfast.checkers.holds.history_index import column
from holdfast.checkers.opportunities import responses
from holdfast.checkers.opportunities.outlived import outlived, promised_until
from holdfast.checkers.opportunities.renumbered import renumbered
from holdfast.checkers.opportunities.strokes import (
    of_deciders,
    of_fast_clocks,
    of_leaders,
    of_replaced_leaders,
)
from holdfast.checkers.opportunities.table import every_row
from holdfast.checkers.properties.mutual_exclusion import check
from holdfast.checkers.properties.token_order import check as check_tokens
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import Mode, Op, Status, Terms
from holdfast.harness.core.verdict import PropertyVerdict, Seen, Verdict
from tests.checkers.faults import disk_fault, window
from tests.checkers.shorthand import case, history, on

CRASH = window("kill", "n1", 3, 4)
ALONE = {"resource": "fenced", "servers": "1"}
THREE = {"resource": "fenced", "servers": "3"}
BEFORE = "1a?@0 1a-@0.5 0a?@0.6 0a+1@1 "
"""A grant of 10 s to client 0, known 2 s before the crash."""
NAMES = "the servers that decide"


def of(text: str, *windows: Window, options: Any = ALONE, **changes: Any) -> Case:
    windows = windows or (CRASH,)
    kinds = tuple(dict.fromkeys(one.do for one in windows))
    return case(text, windows=windows, kinds=kinds, options=options, **changes)


def seen(text: str, *windows: Window, **changes: Any) -> Seen:
    made = of(text, *windows, **changes)
    return outlived(made, made.windows, of_deciders, NAMES)


def under(verdict: PropertyVerdict) -> tuple[str, str]:
    at = verdict.under["kill"]
    return str(at.verdict), at.reason


@pytest.mark.parametrize(
    ("after", "counts"),
    [
        ("1a?@5 1a-@6", 1),  # refused inside the lease
        ("1t?@5 1t-@6", 1),
        ("1a?@5 1Q@6 1a-@20", 1),  # acknowledged to wait inside the lease
        ("1a?@5 1a-@10.7", 0),  # the answer came after the lease of 10 s, requested at 0.6 s
        ("1a?@11 1a-@12", 0),  # asked after it
        ("1a?@2 1a-@3.5", 0),  # it gave up by itself while the server was down
        ("2a?:x@3.2 2a+:x@3.3 1a?@3.4 1a-@3.5", 1),  # the server was back before it was seen to be
        ("1a?@2 1Q@3.2", 0),  # on its way when the server was struck
        ("1a?@2 1Q@3.6", 1),  # it cannot have been on its way for so long
        ("1a?@3.1 1Q@3.2", 1),  # asked after the stroke: a server that responds
        ("1a?@5 1a~@6", 0),  # no answer shows nothing
        ("1a?@5", 0),
        ("0a?@5 0a-@6", 0),  # the owner itself
        ("1a?:x@5 1a-@6", 0),  # another lock
        ("0r?@4.5 0r+@4.6 1a?@5 1a+2@6", 0),  # given up
        ("0n?@4.5 0n+@4.6 1a?@5 1a-@6", 0),  # the server has learned of the hold again
        ("0n?@4.5 0n+@5.5 1a?@4.6 1a-@5", 1),  # it had not, when it refused
        ("", 0),
    ],
)
def test_what_makes_an_opportunity(after: str, counts: int) -> None:
    assert seen(BEFORE + after).count == counts


def test_a_waiter_from_before_counts_if_the_servers_are_back_in_time() -> None:
    waiter = "1a?@0 0a?@0.6 0a+1@1 1Q@2 1a-@30"
    assert seen(waiter).count == 1
    assert seen(waiter, window("kill", "n1", 3, 20)).count == 0


def test_a_renewal_before_the_crash_counts_and_one_after_it_does_not() -> None:
    renewed = BEFORE + "0n?@2 0n+@2.5 1a?@11 1a-@11.5"
    assert seen(renewed).count == 1
    late = BEFORE + "0n?@3.5 0n+@11.8 1a?@11 1a-@11.5"
    assert seen(late).count == 0


def test_the_grant_must_have_been_known_before_the_crash() -> None:
    assert seen("0a?@2 0a+1@5 1a?@6 1a-@7").count == 0


def test_locks_that_only_a_release_frees_and_sessions() -> None:
    only = {"bound": "none"}
    assert seen(BEFORE + "1a?@500 1a-@501", promises=only).count == 1
    session = {"bound": "session"}
    beats = "0h?@0 0h+/10@0.2 " + BEFORE
    assert seen(beats + "1a?@5 1a-@6", promises=session).count == 1
    assert seen(beats + "1a?@12 1a-@13", promises=session).count == 0
    assert seen(BEFORE + "1a?@5 1a-@6", promises=session).count == 0
    # Of a session that a library keeps alive, an ok renewal says how long it lasts: 10 s from 2 s.
    renewed = BEFORE + "0n?@2 0n+/10@2.1 "
    assert seen(renewed + "1a?@5 1a-@6", promises=session).count == 1
    assert seen(renewed + "1a?@12.5 1a-@13", promises=session).count == 0
    assert seen(renewed.replace("0n+/10", "0n~") + "1a?@5 1a-@6", promises=session).count == 0
    # Where a heartbeat is recorded, the heartbeats say it.
    assert seen("0h?@0 0h+/1@0.2 " + renewed + "1a?@5 1a-@6", promises=session).count == 0


def test_who_was_struck() -> None:
    text = BEFORE + "1a?@5 1a-@6"
    one, two = window("kill", "n1", 3, 4), window("kill", "n1+n2", 3, 4)
    assert not seen(text, one, options=THREE).staged
    assert seen(text, two, options=THREE).count == 1
    assert not seen(text, window("kill", "c0", 3, 4)).staged
    led = of(text, replace(one, leader="n1"), options=THREE)
    assert outlived(led, led.windows, of_leaders, "the leader").count == 1
    follower = of(text, replace(one, leader="n2"), options=THREE)
    assert not outlived(follower, follower.windows, of_leaders, "the leader").staged


def test_the_first_one_is_shown_and_the_nearest_miss_has_numbers() -> None:
    shown = seen(BEFORE + "1a?@5 1a-@6")
    rows = of(BEFORE + "1a?@5 1a-@6").history.rows
    assert shown.fault == "kill-3"
    assert rows["t_ret"][shown.roles["hold"]] == SECOND
    assert rows["t_inv"][shown.roles["asked"]] == 5 * SECOND
    long = seen(BEFORE + "1a?@40 1a+2@41", window("kill", "n1", 3, 30))
    assert long.nearest == (
        "the holds at a kill had 7.600 s left at most, and the shortest kill lasted 27.000 s"
    )
    assert "no other client asked" in seen(BEFORE).nearest
    assert seen("1a?@20 1a+@21").nearest == "no lock was held across a kill: 0 of 1"


def test_a_kill_without_opportunity_is_unknown_and_with_one_it_holds() -> None:
    contended = BEFORE + "1a?@1.5 1Q@1.6 1a-@2.5 "
    missed = check(of(contended + "0r?@2.7 0r+@2.8 1a?@5 1a+2@6 1r?@7 1r+@8"))
    assert missed.verdict is Verdict.UNKNOWN
    assert under(missed) == ("UNKNOWN", "no lock was held across a kill: 0 of 1")
    met = check(of(contended + "1a?@5 1a-@6 0r?@7 0r+@8"))
    assert met.verdict is Verdict.HOLDS
    assert under(met) == ("HOLDS", "")


def test_a_forgotten_grant_is_a_finding_at_an_opportunity() -> None:
    """The typical defect: the restarted server grants inside the lease."""
    text = BEFORE + "1a?@5 1a+2@6"
    assert check(of(text)).verdict is Verdict.VIOLATED
    assert seen(text).count == 1


def test_tokens_after_a_crash() -> None:
    restarted = BEFORE + "0r?@2 0r+@2.5 1a?@5 1a+1@6"
    made = of(restarted)
    assert renumbered(made, made.windows, of_deciders, NAMES).count == 1
    assert check_tokens(made).verdict is Verdict.VIOLATED
    same = of(BEFORE + "0r?@2 0r+@2.5 0a?@5 0a+2@6")
    assert renumbered(same, same.windows, of_deciders, NAMES).count == 0
    asked = of(BEFORE + "0r?@2 0r+@2.5 1a?@2.9 1a+2@6")
    assert renumbered(asked, asked.windows, of_deciders, NAMES).count == 0


def test_a_power_loss_is_a_stroke() -> None:
    power = disk_fault(3, 4)
    assert seen(BEFORE + "1a?@5 1a-@6", power).count == 1


@pytest.mark.parametrize(("granted", "counts"), [(2.5, 1), (1.5, 0)])
def test_what_a_second_can_lose_was_granted_in_the_last_one(granted: float, counts: int) -> None:
    made = of(f"0a?@0.6 0a+1@{granted} 1a?@5 1a-@6", disk_fault(3, 4))
    at = outlived(made, made.windows, of_deciders, NAMES, new_ns=SECOND)
    assert at.count == counts and at.staged
    assert counts or at.nearest == (
        "the newest hold at a power was 1.500 s old, and only one of less than 1.000 s could be"
        " lost"
    )
    tokens = of(f"0a?@0.6 0a+1@{granted} 0r?@2.8 0r+@2.9 1a?@5 1a+2@6", disk_fault(3, 4))
    again = renumbered(tokens, tokens.windows, of_deciders, NAMES, new_ns=SECOND)
    assert again.count == counts and again.staged
    assert counts or again.nearest == (
        "the newest token at a power was 1.500 s old, and only one of less than 1.000 s could be"
        " lost"
    )


def test_only_a_fault_that_loses_what_was_not_synced_needs_it() -> None:
    text = "1a?@0 1Q@0.1 0a?@0.2 0a+1@0.4 1a-@2.5 1a?@5 1a-@6 0r?@7 0r+@8"
    kill, power = of(text), of(text, disk_fault(3, 4))
    rows = {kind: check(made).under[kind] for kind, made in (("kill", kill), ("power", power))}
    assert rows["kill"].verdict is Verdict.HOLDS
    assert rows["power"].verdict is Verdict.UNKNOWN
    assert "could be lost" in rows["power"].reason


# Clocks.


def clock(from_s: float, to_s: float, **offset_s: float) -> Window:
    """A clock fault, with the offsets that the fault agent read."""
    read = {node: round(s * SECOND) for node, s in offset_s.items()}
    nodes = "+".join(offset_s)
    return replace(window("clock", nodes, from_s, to_s), evidence={"offset_ns": read})


AHEAD = clock(3, 6, n1=25)


@pytest.mark.parametrize(
    ("after", "fault", "counts"),
    [
        ("1a?@5 1a-@6", AHEAD, 1),
        ("1a?@5 1a-@6", clock(3, 6, n1=5), 0),  # 7.6 s are left at 3 s
        ("1a?@5 1a-@6", clock(3, 6, n1=8), 1),
        ("1a?@5 1a-@6", clock(3, 6, n1=-25), 0),  # the hold ends late
        ("1a?@7 1a-@8", clock(3, 6, n1=-25), 1),  # set ahead when it heals
        ("1a?@5 1a-@6", clock(3, 6, c0=25), None),  # a client's clock
        ("1a?@5 1a-@6", clock(3, 6, n1=0), None),  # a rate: how far is not known
        ("1a?@2 1a-@2.5", AHEAD, 0),
        ("1a?@5 1a-@6 0r?@3.2 0r+@3.3", AHEAD, 0),  # given up
        ("0r?@3.2 0r+@3.3 1a?@3.1 1a-@3.15", AHEAD, 0),  # 0.2 s are less than a look for ends
        ("0L@3.2 1a?@3.1 1a+2@3.15", AHEAD, 1),  # the loss may be what the step did
        ("1a?@11 1a-@12", AHEAD, 0),
    ],
)
def test_a_clock_that_is_set_ahead(after: str, fault: Window, counts: int | None) -> None:
    made = of(BEFORE + after, fault)
    found = outlived(made, made.windows, of_fast_clocks, "the clocks")
    assert found.staged == (counts is not None)
    assert found.count == (counts or 0)


def test_the_clocks_of_each_process_and_of_how_many_servers_decide() -> None:
    text = BEFORE + "1a?@5 1a-@6"
    each = replace(AHEAD, evidence={"offset_ns": {"n1": {"71": 0, "72": 25 * SECOND}}})
    made = of(text, each)
    assert outlived(made, made.windows, of_fast_clocks, "").count == 1
    follower = of(text, AHEAD, options=THREE)
    assert not outlived(follower, follower.windows, of_fast_clocks, "").staged
    leader = of(text, replace(AHEAD, leader="n1"), options=THREE)
    assert outlived(leader, leader.windows, of_fast_clocks, "").count == 1
    two = of(text, clock(3, 6, n1=25, n2=25), options=THREE)
    assert outlived(two, two.windows, of_fast_clocks, "").count == 1
    short = of(text, clock(3, 6, n1=5))
    assert outlived(short, short.windows, of_fast_clocks, "").nearest == (
        "the holds had 7.600 s to 7.600 s left when a clock set clocks ahead by 5.000 s at most"
    )


# Leaders that are stopped or cut off.


def led(do: str, from_s: float, to_s: float) -> Window:
    return replace(window(do, "n1", from_s, to_s), leader="n1")


def test_a_stopped_leader_counts_only_if_others_decide_while_leases_run() -> None:
    def staged(after: str, fault: Window) -> bool:
        made = of(BEFORE + after, fault, options=THREE)
        return outlived(made, made.windows, of_replaced_leaders, "a leader").staged

    soon, late = "2a?:x@4 2a+:x@5 1a?@6 1a-@6.5", "2a?:x@8 2a+:x@9"
    assert staged(soon, led("pause", 3, 12))
    assert not staged(late, led("pause", 3, 12))
    assert not staged(soon, led("pause", 3, 4.5))  # it may have been the leader itself
    assert not staged(soon, window("pause", "n1", 3, 12))


def test_a_kind_whose_row_is_not_staged_keeps_the_old_conditions() -> None:
    """A pause of a server that is no leader; a partition of one server alone. Beside them another
    client has to have asked for a held lock."""
    contended = BEFORE + "1a?@1.5 1Q@1.6 1a-@2.5 {} 0r?@3.5 0r+@3.6 1a?@3.7 1a+2@3.8 1r?@7 1r+@8"
    contended += " 2a?@20 2a+3@21"
    row = "mutual-exclusion/held-at-once/any"
    for do in ("pause", "partition"):
        for asked in ("2a?@3.1 2a-@3.2", ""):
            judged = check(of(contended.format(asked), window(do, "n1", 3, 4))).under[do]
            assert judged.verdict is (Verdict.HOLDS if asked else Verdict.UNKNOWN)
            assert list(judged.seen) == [row] and judged.seen[row].count == bool(asked)
    assert judged.reason == (
        "no client asked during another's hold near a partition: 0 of 1 in the run"
    )


def test_a_semaphore_needs_too_few_permits_and_no_request_within_another_hold() -> None:
    """Two holds of it are compatible, so that a request within one shows nothing by itself."""
    row, faults = "mutual-exclusion/held-at-once/any", (window("partition", "n1", 3, 4),)
    one = Terms(mode=Mode.PERMITS, permits=1, limit=1)
    text = "0a?@1 0a+1@1.1 1a?@3.2 1a-@3.4 0r?@9 0r+@9.1 1a?@10 1a+2@10.1"
    for terms, asked in ((), True), ((one, one, one), False):
        rows = on(history(text), *terms)
        made = case(rows, windows=faults, kinds=("partition",), options=THREE)
        assert (row in check(made).under["partition"].seen) == asked


@pytest.mark.parametrize(
    ("fault", "row"),
    [
        (led("pause", 3, 9), "mutual-exclusion/new-leader-grants/stop"),
        (led("partition", 3, 9), "mutual-exclusion/new-leader-grants/cut"),
        (replace(AHEAD, leader="n1"), "mutual-exclusion/wrong-clock/clocks"),
    ],
)
def test_other_faults_without_an_opportunity_are_unknown(fault: Window, row: str) -> None:
    contended = "1a?@0 1Q@0.1 1a-@0.5 0a?@0.6 0a+1@1 1a?@1.1 1a-@1.2 "
    nobody = "2a?:x@4 2a+:x@5 2r?:x@9 2r+:x@9.1 0r?@9.5 0r+@9.6 1a?@12 1a+2@13"
    missed = check(of(contended + nobody, fault, options=THREE)).under[fault.do]
    assert missed.verdict is Verdict.UNKNOWN and missed.seen[row].staged
    assert "0 of 1" in missed.reason
    met = check(of(contended + "1a?@5.5 1Q@5.6 1a-@6 " + nobody, fault, options=THREE))
    assert met.under[fault.do].verdict is Verdict.HOLDS
    assert met.under[fault.do].seen[row].count == 1


def test_every_planted_bug_of_the_table_exists() -> None:
    for row in every_row():
        system, _, bug = row.twin.partition(" ")[0].partition(":")
        assert system in catalogue.SYSTEMS, row.id
        assert not bug or bug in MUTANTS, row.id


# The plain definition, one hold and one request at a time.


def plainly(made: Case) -> int:
    """Number of (crash, hold) with a request of another client that the service answered inside."""
    count, every = 0, attempts(made)
    for crash, hold in product(made.windows, every):
        if not hold.known_ns < crash.from_ns < hold.end_ns:
            continue
        until_ns = min(hold.end_ns, promised_until(made, hold, crash.from_ns))
        for row in (*hold.renewals, *hold.releases):
            sent, back = (int(column(made, name)[row]) for name in ("t_inv", "t_ret"))
            if sent > crash.from_ns and back:
                until_ns = min(until_ns, back)
        count += any(
            conflict(hold, other) and shown(made, other, crash, until_ns)
            for other in every
            if other.process != hold.process
        )
    return count


def shown(made: Case, other: Attempt, crash: Window, until_ns: int) -> bool:
    waited = [int(column(made, "t_inv")[row]) for row in other.waitings]
    if other.inv_ns >= until_ns or other.ret_ns <= crash.from_ns:
        return False
    up_ns = min(crash.to_ns, responded(made, crash.from_ns))
    on_its_way_ns = 0 if other.inv_ns > crash.from_ns else made.lease_ns // 20
    first_ns = min(up_ns, crash.from_ns + on_its_way_ns)
    answers = [t_ns for t_ns in waited if t_ns > first_ns]
    refused = other.status in (Status.FAIL, Status.NOT_OWNER)
    if other.status is Status.OK or (
        refused and (other.ret_ns > crash.to_ns or other.inv_ns > up_ns)
    ):
        answers.append(other.ret_ns)
    inside = any(crash.from_ns < t_ns < until_ns for t_ns in answers)
    return inside or (bool(waited) and waited[0] < crash.from_ns and crash.to_ns < until_ns)


def responded(made: Case, after_ns: int) -> int:
    rows = made.history.rows
    calls = [
        int(rows["t_ret"][n])
        for n in made.history.of(Op.ACQUIRE, Op.TRY, Op.RENEW, Op.RELEASE)
        if rows["status"][n] == Status.OK and rows["t_inv"][n] > after_ns
    ]
    asked = [a for a in attempts(made) if a.waitings and a.inv_ns > after_ns]
    last = [int(rows["t_inv"][a.waitings[-1]]) for a in asked]
    return min(calls + last, default=INF)


def test_the_histories_of_the_comparison_have_opportunities_and_have_none() -> None:
    counts = [plainly(random_case(seed)) for seed in range(100)]
    assert 10 < sum(count > 0 for count in counts) < 90


def random_case(seed: int) -> Case:
    """Clients that ask, wait, renew and release at random, with crashes of the only server."""
    rng = random.Random(seed)
    words, now = [], 0.0
    for _ in range(rng.randint(4, 30)):
        client, lock = rng.randrange(3), rng.choice(("", ":x"))
        for _ in range(rng.choice((1, 1, 2))):
            now += rng.choice((0.1, 0.5, 1.5))
            words.append(f"{client}a?{lock}@{now:.2f}")
            if rng.random() < 0.4:
                words.append(f"{client}Q@{now + 0.05:.2f}")
            now += rng.choice((0.1, 2.0))
            words.append(f"{client}a{rng.choice(('+', '+', '-', '~'))}@{now:.2f}")
        if rng.random() < 0.5:
            what = rng.choice("nr")
            words.append(f"{client}{what}?@{now + 0.2:.2f} {client}{what}+@{now + 0.4:.2f}")
            now += 0.5
    crashes = [
        window("kill", "n1", at, at + rng.choice((0.1, 1.0, 6.0)))
        for at in sorted(rng.uniform(0, now) for _ in range(rng.randint(1, 4)))
    ]
    return of(" ".join(words), *crashes)


@pytest.mark.parametrize("seed", range(400))
def test_columns_and_loops_agree(seed: int) -> None:
    made = random_case(seed)
    assert outlived(made, made.windows, of_deciders, NAMES).count == plainly(made)


@pytest.mark.parametrize("seed", range(60))
def test_the_first_response_after_a_time_is_that_of_a_plain_loop(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses, "FIRST_ROWS", 2)
    made, times = random_case(seed), list[tuple[int, int]]()
    answered = {Op.ACQUIRE, Op.TRY, Op.RENEW, Op.RELEASE}
    sent = {int(row["attempt"]): int(row["t_inv"]) for row in made.history.rows[::-1]}
    for row in made.history.rows:
        if row["f"] in answered and row["status"] == Status.OK:
            times.append((int(row["t_inv"]), int(row["t_ret"])))
        elif row["f"] == Op.WAITING:
            times.append((sent[int(row["attempt"])], int(row["t_inv"])))
    for after_ns in sorted({t_ns + by for pair in times for t_ns in pair for by in (-1, 0, 1)}):
        later = [back for call, back in times if call > after_ns]
        assert responses.first_response(made, after_ns) == min(later, default=INF)


def test_tokens_as_counted_plainly() -> None:
    """Random grants, releases and strokes: the last token known before a stroke, and a grant to
    another that was asked for after it."""
    chance, counted = random.Random(7), 0
    for _ in range(60):
        words = []
        for n in range(30):
            at, owner, lock = n + chance.random() / 2, chance.randrange(2), chance.choice("xy")
            granted = f"{owner}a+{n + 1}@{at + 0.3 * chance.random()}"
            words += [f"{owner}a?:{lock}@{at}", granted]
        text = " ".join(words)
        strokes = [window("kill", "n1", t, t + 0.1) for t in sorted(chance.sample(range(30), 6))]
        made = of(text, *strokes)
        found = renumbered(made, made.windows, of_deciders, NAMES)
        grants = [a for a in attempts(made) if a.known_ns < INF]
        plain = 0
        for stroke, key in product(strokes, {a.key for a in grants}):
            mine = [a for a in grants if a.key == key]
            before = [a for a in mine if a.known_ns < stroke.from_ns]
            last = max(before, key=lambda a: a.known_ns, default=None)
            after = [a for a in mine if last and a.inv_ns > stroke.from_ns]
            plain += any(a.process != last.process for a in after if last)
        assert found.count == plain
        counted += plain
    assert counted > 100
