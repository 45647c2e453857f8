"""Hung requests against a count of the ticks in which the client could have had its answer."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from holdfast.checkers.properties.no_hung_request import check, hung
from holdfast.harness.core.case import Case, History, Window
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import DELAY, PRESSURE, Op, Starved, Status, attempt_id
from holdfast.harness.core.seeds import stream
from holdfast.harness.core.verdict import Verdict
from tests.checkers.faults import window
from tests.checkers.shorthand import case, table
from tests.draws import Draws

SLACK = 9
END = 45
OPS = (Op.ACQUIRE, Op.TRY, Op.PROBE, Op.RENEW, Op.RELEASE)


def faults(rng: random.Random) -> list[Window]:
    """Up to three faults, on clients and servers, that may overlap."""
    drawn = []
    for _ in range(rng.randint(0, 3)):
        begin = rng.randint(1, 30)
        do = rng.choice(("pause", "clock", "partition", "kill"))
        nodes = rng.choice(("c0", "c1", "n1", "c0+c1"))
        drawn.append(window(do, nodes, begin, begin + rng.randint(1, 15)))
    return drawn


def call(rng: random.Random, n: int) -> dict[str, int]:
    """One request of client 0 or 1; one in five never returned."""
    inv = rng.randint(1, 25)
    op = rng.choice(OPS)
    ret = min(inv + rng.choice((1, 3, 5, 8, 12, 18)), END)
    never = rng.random() < 0.2
    process = rng.randint(0, 1)
    return {
        "f": op,
        "process": process,
        "attempt": attempt_id(process, n),
        "key": 1,
        "aux": rng.choice((-1, 0, 2, 5)) * SECOND if op in OPS[:3] else 0,
        "t_inv": inv * SECOND,
        "t_ret": 0 if never else ret * SECOND,
        "status": Status.INVOKED if never else rng.choice((Status.OK, Status.FAIL, Status.INFO)),
        "writer": process,
        "row": n,
    }


def own(one: Starved, row: dict[str, int]) -> bool:
    """Whether a span is of the process itself that sent this request."""
    return one.kind == DELAY and one.node == f"c{row['process']}"


def waiter() -> list[dict[str, int]]:
    """An acquire that was told to wait and then granted, without which nothing was exercised."""
    same = {"process": 3, "attempt": attempt_id(3, 1), "key": 1, "writer": 3, "status": Status.OK}
    return [
        same | {"f": Op.ACQUIRE, "t_inv": 0, "t_ret": SECOND, "aux": SECOND},
        same | {"f": Op.WAITING, "t_inv": 1, "t_ret": 1, "aux": 0},
    ]


def starving(rng: random.Random) -> list[Starved]:
    """Up to three spans without a processor, of clients, of others and of whole hosts."""
    found = []
    for _ in range(rng.choice((0, 0, 1, 2, 3))):
        begin = rng.randint(0, 30)
        found.append(
            Starved(
                node=rng.choice(("c0", "c1", "driver")),
                kind=rng.choice((DELAY, PRESSURE)),
                from_ns=begin * SECOND,
                to_ns=(begin + rng.randint(1, 15)) * SECOND,
            )
        )
    return found


def hangs(row: dict[str, int], drawn: list[Window], spans: list[Starved]) -> bool:
    """Tick by tick: is there more time in which the client ran than its bound and the slack?"""
    node = f"c{row['process']}"
    back = row["t_ret"] or END * SECOND
    if not row["t_ret"] and any(
        w.do == "kill" and node in w.nodes and w.to_ns >= row["t_inv"] for w in drawn
    ):
        return False
    ran = 0
    for tick in range(row["t_inv"], back, SECOND):
        ran += not any(
            w.do in ("pause", "clock") and node in w.nodes and w.from_ns <= tick < w.to_ns
            for w in drawn
        ) and not any(one.from_ns <= tick < one.to_ns for one in spans)
    return row["aux"] >= 0 and ran > row["aux"] // SECOND + SLACK


def told(rows: list[dict[str, int]], drawn: list[Window], spans: list[Starved]) -> Case:
    recorded = History(rows=table(rows), strings=("", "db"), writers=("w",) * 10)
    nodes = {0: "c0", 1: "c1"}
    return case(recorded, windows=tuple(drawn), end_ns=END * SECOND, nodes=nodes, starved=spans)


def compare(seed: int, n: int) -> Counter[Verdict]:
    rng = stream(seed, "hung requests")
    verdicts: Counter[Verdict] = Counter()
    for _ in range(n):
        drawn = faults(rng)
        calls = [call(rng, n) for n in range(rng.randint(1, 2))]
        waited = rng.random() < 0.5
        rows = sorted(calls + waiter() * waited, key=lambda row: row["t_inv"])
        spans = starving(rng)
        judged = told(rows, drawn, spans)
        found = [row for row, _ in hung(judged)]
        seen = [n for n, row in enumerate(rows) if hangs(row, drawn, spans)]
        assert found == seen, (rows, drawn, spans)
        verdict = check(judged).verdict
        excused = [
            n
            for n, row in enumerate(rows)
            if n not in seen and hangs(row, drawn, [s for s in spans if own(s, row)])
        ]
        passed = Verdict.UNKNOWN if excused else Verdict.HOLDS if waited else verdict
        assert verdict is (Verdict.VIOLATED if found else passed), (rows, drawn)
        verdicts[verdict] += 1
    return verdicts


def test_a_request_hangs_if_and_only_if_its_client_ran_too_long_without_an_answer(
    draws: Draws,
) -> None:
    verdicts = compare(1, draws(2000))
    assert min(verdicts[verdict] for verdict in Verdict) >= draws(400), verdicts


@pytest.mark.power
def test_a_request_hangs_if_and_only_if_its_client_ran_too_long_in_very_many_runs() -> None:
    compare(2, 20_000)
