"""Stale writes against every instant at which each grant may have been made."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from itertools import product

import pytest

from holdfast.checkers.facts.admissions import stale_refused, stale_writes
from holdfast.checkers.properties.no_stale_write import check
from holdfast.harness.core.case import Case, History
from holdfast.harness.core.operations import NO_TOKEN, Op, Status, attempt_id
from holdfast.harness.core.seeds import stream
from holdfast.harness.core.verdict import Verdict
from tests.checkers.shorthand import case, table
from tests.draws import Draws


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """An acquire; its grant was made strictly between inv and ret, in ticks."""

    process: int
    n: int
    inv: int
    ret: int
    token: int
    status: Status

    def instants(self) -> list[float]:
        """Every moment at which it may have been granted, two to a tick."""
        return [tick / 4 for tick in range(4 * self.inv + 1, 4 * self.ret)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One request in the order of the resource's log."""

    grant: Grant
    op: Op
    accepted: bool
    highest: int


def grants(rng: random.Random) -> list[Grant]:
    """Three clients with one to three acquires each; tokens mostly in the order of the grants."""
    spans = []
    for process in range(3):
        at = rng.randint(0, 4)
        for n in range(rng.randint(1, 3)):
            ret = at + rng.randint(1, 5)
            spans.append((process, n + 1, at, ret, at + rng.random() * (ret - at)))
            at = ret + rng.randint(0, 3)
    order = sorted(range(len(spans)), key=lambda n: spans[n][4])
    if rng.random() < 0.4:
        rng.shuffle(order)
    tokens = {n: token for token, n in enumerate(order)}
    made = []
    for number, (process, n, inv, ret, _) in enumerate(spans):
        status = Status.INFO if rng.random() < 0.2 else Status.OK
        token = tokens[number] if status is Status.OK and rng.random() < 0.95 else NO_TOKEN
        made.append(Grant(process=process, n=n, inv=inv, ret=ret, token=token, status=status))
    return made


def requests(rng: random.Random, made: list[Grant]) -> list[Request]:
    """What reaches the resource, in any order; it is fenced, fenced badly, or not at all."""
    kind = rng.choice(("fenced", "leaky", "leaky"))
    log, highest = [], NO_TOKEN
    sent = [grant for grant in made if grant.status is Status.OK for _ in range(rng.randint(0, 2))]
    sent.sort(key=lambda grant: grant.ret + rng.choice((0, 0, 3, 9)))
    for grant in sent:
        accepted = grant.token >= highest or (kind == "leaky" and rng.random() < 0.6)
        op = rng.choice((Op.SERVED_WRITE, Op.SERVED_WRITE, Op.SERVED_READ))
        log.append(Request(grant=grant, op=op, accepted=accepted, highest=highest))
        highest = max(highest, grant.token) if accepted else highest
    return log


def later(b: Grant, a: Grant, ordered: bool) -> bool:
    """Whether b was granted after a: in every pair of instants, else by the tokens."""
    orders = {gb > ga for ga, gb in product(a.instants(), b.instants()) if ga != gb}
    if len(orders) == 1:
        return orders == {True}
    return ordered and a.token != NO_TOKEN and b.token > a.token


def stale(log: list[Request], ordered: bool) -> list[int]:
    """Places in the log of accepted writes that follow an accepted request of a newer grant."""
    return [
        n
        for n, request in enumerate(log)
        if request.accepted and request.op is Op.SERVED_WRITE and behind(log, n, ordered)
    ]


def behind(log: list[Request], n: int, ordered: bool) -> bool:
    """Whether a request of a newer grant of another process was accepted before."""
    mine = log[n].grant
    return any(
        before.accepted
        and before.grant.process != mine.process
        and later(before.grant, mine, ordered)
        for before in log[:n]
    )


def refused(log: list[Request], ordered: bool) -> list[int]:
    """Places of requests that were refused for their token, and not to the rightful owner."""
    outdated = [n for n, r in enumerate(log) if not r.accepted and r.grant.token < r.highest]
    return [n for n in outdated if behind(log, n, ordered)]


def contradicted(made: list[Grant]) -> bool:
    """Whether a grant that surely came after another's carries no larger token."""
    sure = [grant for grant in made if grant.status is Status.OK and grant.token != NO_TOKEN]
    return any(
        a.ret < b.inv and (b.token < a.token or (b.token == a.token and a.process != b.process))
        for a, b in product(sure, sure)
    )


def expected(made: list[Grant], log: list[Request], ordered: bool) -> Verdict:
    """By counting, as the law has it."""
    if stale(log, ordered):
        return Verdict.VIOLATED
    met = any(
        a is not b and b.status is Status.OK and b.ret < a.ret for a, b in product(made, made)
    )
    owners = {(r.grant.process, r.grant.n) for r in log}
    tried = bool(refused(log, ordered))
    return Verdict.HOLDS if met and tried and len(owners) > 1 else Verdict.UNKNOWN


def told(made: list[Grant], log: list[Request], ordered: bool) -> Case:
    """The same as a case; nobody ever releases."""
    rows = [
        {
            "f": Op.ACQUIRE,
            "process": grant.process,
            "attempt": attempt_id(grant.process, grant.n),
            "key": 1,
            "token": grant.token,
            "t_inv": grant.inv,
            "t_ret": grant.ret,
            "status": grant.status,
            "writer": grant.process,
            "row": grant.n,
        }
        for grant in made
    ]
    for n, request in enumerate(log):
        write = request.op is Op.SERVED_WRITE
        rows.append(
            {
                "f": request.op,
                "process": request.grant.process,
                "attempt": attempt_id(request.grant.process, request.grant.n),
                "key": 1,
                "token": request.grant.token,
                "arg": -1 if write else request.highest,
                "aux": request.highest if write else 0,
                "op": n,
                "t_inv": 100 + n,
                "t_ret": 100 + n,
                "status": Status.OK if request.accepted else Status.FAIL,
                "writer": 9,
                "row": n,
            }
        )
    promises = {"bound": "none", "tokens": "ordered" if ordered else "unordered"}
    recorded = History(rows=table(rows), strings=("", "db"), writers=("w",) * 10)
    return case(recorded, promises=promises)


def compare(seed: int, n: int) -> Counter[Verdict]:
    rng = stream(seed, "stale writes")
    verdicts: Counter[Verdict] = Counter()
    for _ in range(n):
        made = grants(rng)
        log = requests(rng, made)
        ordered = rng.random() < 0.8
        judged = told(made, log, ordered)
        ordered = ordered and not contradicted(made)
        first = len(made)
        found = [request.row - first for request, *_ in stale_writes(judged)]
        assert found == stale(log, ordered), (made, log, ordered)
        tried = [row - first for row in stale_refused(judged).tolist()]
        assert tried == refused(log, ordered), (made, log, ordered)
        verdict = check(judged).verdict
        assert verdict is expected(made, log, ordered), (made, log, ordered)
        verdicts[verdict] += 1
    return verdicts


def test_a_write_is_stale_if_and_only_if_no_instants_of_the_grants_excuse_it(draws: Draws) -> None:
    verdicts = compare(1, draws(2000, least=400))
    assert min(verdicts[verdict] for verdict in Verdict) >= draws(300), verdicts


@pytest.mark.power
def test_a_write_is_stale_if_and_only_if_no_instants_excuse_it_in_very_many_runs() -> None:
    compare(2, 20_000)
