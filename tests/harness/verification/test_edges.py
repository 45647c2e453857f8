"""The verifier's conditions on their edges, beside what the checkers make of the same rows.

Each case was found by a change of one comparison, constant or guard that no other test noticed
(benchmarks/results/mutants.md).
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from holdfast import catalogue
from holdfast.checkers.facts.fault_windows import stops_a_minority
from holdfast.checkers.facts.stalls import _disturbed, longest_ns
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Op, Status, Terms
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from holdfast.harness.verification.conditions import Conditions, Row
from holdfast.harness.verification.recorded_rows import SERVED, Rows, Writer, starved_spans
from holdfast.harness.verification.verify import Verifier
from holdfast.harness.verification.waiting import Waits
from tests.checkers.certified import ROW_DTYPE, recorded, verified
from tests.checkers.certified import told as told_of
from tests.checkers.faults import window
from tests.checkers.shorthand import case, history, on


@pytest.mark.parametrize(
    ("arg", "res", "base"), [(-1, 3, 2), (0, 3, 0), (2, 3, 2), (3, 3, 2), (9, 3, 2), (0, 1, 0)]
)
def test_a_write_that_names_no_earlier_version_is_based_on_the_one_before_it(
    arg: int, res: int, base: int
) -> None:
    given = case(f"0a? 0a+1 0w? 0S+={res}")
    served = next(n for n, f in enumerate(given.history.rows["f"]) if f == Op.SERVED_WRITE)
    given.history.rows["arg"][served] = arg
    run = recorded(given)
    (row,) = (Row(run.rows, n) for n in range(run.rows.count) if run.rows.f[n] == Op.SERVED_WRITE)
    assert Conditions(run).names()["base"](row) == base


@pytest.mark.parametrize("minority_s", [-1, 0, 7])
@pytest.mark.parametrize("servers", [3, 5])
def test_both_programs_know_the_same_faults_that_only_stop_a_minority(
    servers: int, minority_s: int
) -> None:
    chance, minorities = random.Random(f"minority {servers}"), 0
    nodes = [f"n{n}" for n in range(1, servers + 1)] + ["c0", "resource"]
    for _ in range(200):
        windows = []
        for _ in range(chance.randint(1, 3)):
            begun = chance.randint(1, 9)
            struck = "+".join(chance.sample(nodes, chance.choice((1, 1, 1, 2, 3))))
            kind = chance.choice(("kill", "pause", "partition"))
            windows.append(window(kind, struck, begun, begun + chance.randint(0, 4)))
        given = case(
            "0a? 0a+1",
            promises={"minority_ns": minority_s * SECOND, "slip_ns": 3},
            windows=windows,
            options={"servers": str(servers)},
        )
        waits = Waits(Conditions(recorded(given)))
        assert waits.longest_ns() == longest_ns(given)
        assert sorted(waits.disturbed()) == sorted(_disturbed(given))
        minorities += sum(stops_a_minority(given, one) for one in windows)
    assert minorities > 30


def test_a_fault_on_a_client_is_no_minority_of_servers() -> None:
    given = case(
        "0a? 0a+1",
        promises={"minority_ns": 0},
        windows=[window("pause", "c0", 1, 2), window("kill", "n1+c0", 3, 4)],
        options={"servers": "3"},
    )
    # Until it is over, 5 s of recovery and a lease of 10 s.
    assert _seconds(Waits(Conditions(recorded(given)))) == [(1, 17), (3, 19)]
    # Of a minority: for a lease from its beginning on, and again from its end on.
    alone = replace(given, windows=(window("kill", "n1", 1, 2),), memo={})
    assert _seconds(Waits(Conditions(recorded(alone)))) == [(1, 11), (2, 17)]


def test_a_kill_of_clients_alone_disturbs_no_service_that_has_servers() -> None:
    given = case("0a? 0a+1", windows=[window("kill", "c0", 1, 2)], options={"servers": "3"})
    assert _seconds(Waits(Conditions(recorded(given)))) == []
    within = replace(given, options={"servers": "0"}, memo={})
    assert _seconds(Waits(Conditions(recorded(within)))) == [(1, 17)]


def _seconds(waits: Waits) -> list[tuple[int, int]]:
    return sorted((begun // SECOND, over // SECOND) for begun, over in waits.disturbed())


@pytest.mark.parametrize(
    ("bound", "others"), [("session", ("expired",)), ("lease", ("session", "closed"))]
)
def test_a_reason_of_another_kind_of_lock_is_no_reason(bound: str, others: tuple[str, ...]) -> None:
    names = Verifier(recorded(case("0a? 0a+1", promises={"bound": bound}))).names
    assert names["other_ends"] == others


def test_renewals_alone_keep_a_claim_from_being_over() -> None:
    words = "0a? 0a+1 0n? 0n{} 0r? 0r+"
    for answer, unrenewed in (("+", False), ("~", True), ("-", True)):
        run = recorded(case(words.format(answer)))
        asked, condition = Row(run.rows, 0), Conditions(run).names()["unrenewed"]
        assert condition(asked, 2 * SECOND) == unrenewed
        # The release that returned later is no renewal.
        assert condition(asked, 3 * SECOND)
        assert condition(asked, 2 * SECOND, sent=True)
        assert condition(asked, SECOND, sent=True) == unrenewed


def test_the_highest_token_is_in_another_column_of_reads_than_of_writes() -> None:
    run = recorded(case("0a? 0a+5 0w? 0S 0w+ 0d? 0D- 0d- 1a? 1a+9 1w? 1S 1w+"))
    highest = Conditions(run).names()["highest"]
    served = [n for n in range(run.rows.count) if run.rows.f[n] in SERVED]
    assert [highest(Row(run.rows, n)) for n in served] == [-1, 5, 5]


def test_a_renewal_and_a_release_have_no_time_to_wait() -> None:
    given = case("0a? 0a+5 0n? 0n+ 0r? 0r+")
    given.history.rows["aux"] = 7
    verifier = Verifier(recorded(given))
    rows = [Row(verifier.rows, n) for n in range(verifier.rows.count)]
    assert [verifier.names["bound_ns"](row) for row in rows] == [7, 0, 0]


def test_a_claim_ends_by_its_own_notice_alone() -> None:
    # Both notices come at one moment, at which the claim of 0 ends.
    given = case("0a?@0 0a+1@1 1a?@2 1a+2@3 0L@5 1L@5")
    verifier = Verifier(recorded(given))
    rows = [Row(verifier.rows, n) for n in range(verifier.rows.count)]
    asks = [row for row in rows if row.f == Op.ACQUIRE]
    notices = [row for row in rows if row.f == Op.LOST]
    ends_by = verifier.names["ends_by"]
    assert [[ends_by(a, notice) for notice in notices] for a in asks] == [
        [True, False], [False, True],
    ]  # fmt: skip


def test_logs_of_two_resource_processes_follow_each_other_in_time() -> None:
    told = history("0a? 0a+1 0w? 0S 0w+ 0w? 0S 0w+")
    served = np.flatnonzero(told.rows["f"] == Op.SERVED_WRITE)
    told.rows["writer"][served[1]] = len(told.writers)
    # By name the second comes first.
    told = replace(told, writers=(*told.writers, "resource-2"))
    run = recorded(case(told))
    at = [n for n in range(run.rows.count) if run.rows.f[n] == Op.SERVED_WRITE]
    first, second = sorted((Row(run.rows, n) for n in at), key=lambda row: row.t_inv)
    assert first.at > second.at
    logged = Conditions(run).names()["logged"]
    assert logged(first, second) and not logged(second, first)


def test_only_spans_of_other_hosts_are_widened(tmp_path: Path) -> None:
    for node in ("driver", "n1"):
        log = tmp_path / "logs" / node / "starved.log"
        log.parent.mkdir(parents=True)
        row = {"node": node, "kind": "delay", "from_ns": 10, "to_ns": 20}
        log.write_text(json.dumps(row) + "\n")
    found = starved_spans(tmp_path, lambda _, from_ns, to_ns: (from_ns - 1, to_ns + 1))
    assert {one.node: (one.from_ns, one.to_ns) for one in found} == {
        "driver": (10, 20), "n1": (9, 21),
    }  # fmt: skip
    assert [one.from_ns for one in starved_spans(tmp_path)] == [10, 10]


@pytest.mark.parametrize(
    ("words", "terms", "wrong"),
    [
        ("0a? 0a+7 0a? 0a+7 0r? 0r+", Terms(reenter=True), False),
        ("0a? 0a+7 0r? 0r~ 0a? 0a+7 0r? 0r+", Terms(reenter=True), False),
        ("0a? 0a+7 0r? 0r+ 0a? 0a+7 0r? 0r+", Terms(reenter=True), True),
        ("0a? 0a+7 0r? 0r+ 0a? 0a+7 0r? 0r+", Terms(), True),
        ("0a? 0a+7 0r? 0r+ 1a? 1a+7 1r? 1r+", Terms(reenter=True), True),
    ],
)
def test_one_token_of_two_owners_is_no_order_of_tokens(
    words: str, terms: Terms, wrong: bool
) -> None:
    given = case(on(history(words), terms), promises={"tokens_unique": False})
    asked = tuple(np.flatnonzero(given.history.rows["f"] == Op.ACQUIRE).tolist())
    verdict = PropertyVerdict(
        property="token-order",
        verdict=Verdict.HOLDS,
        reason="",
        exercised={},
    )
    assert bool(verified(given, told_of(given, verdict, (("db", asked),))).refused) == wrong


def test_kernel_timestamps_narrow_the_side_that_they_are_of_where_they_count_and_fit() -> None:
    # flags: 1 the request's, 2 the response's; the last two do not fit, or came too late to count.
    packed = np.zeros(7, ROW_DTYPE)
    for name, values in {
        "f": Op.RENEW, "status": Status.OK, "t_inv": 100, "t_ret": [200] * 6 + [300],
        "flags": [0, 1, 2, 3, 3, 3, 3], "tx": [7, 7, 7, 7, 91, 92, 7], "rx": 9,
    }.items():  # fmt: skip
        packed[name] = values
    rows = Rows([Writer("c0", "c0", [0], packed.tobytes(), [""], 250)])
    assert list(rows.t_inv) == [100, 107, 100, 107, 191, 100, 100]
    assert list(rows.t_ret) == [200, 200, 191, 191, 191, 200, 300]


def test_a_heartbeat_of_the_next_session_proves_no_broken_lease() -> None:
    words = "0h?@0 0h+/5@0.1 0a?@1 0a+7@1.1 1a?@8 1a+8@8.1 0h?@9 0h+/5@9.1 0q?@20 0q+8@21"
    given = case(words, promises={"bound": "session", "tokens": "none"})
    beats = np.flatnonzero(given.history.rows["f"] == Op.HEARTBEAT)
    given.history.rows["arg"][beats] = 7
    verdict = told_of(given, load(catalogue.CHECKERS["mutual-exclusion"])(given))
    assert len(verdict["verdicts"][0]["findings"]) == 1
    assert not verified(given, verdict).refused
    given.history.rows["arg"][beats[1]] = 8
    assert verified(given, verdict).refused
