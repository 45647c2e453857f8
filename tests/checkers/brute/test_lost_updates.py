"""Lost updates against what each version of the register really contains."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

import pytest

from holdfast.checkers.facts import resource_log
from holdfast.checkers.properties.no_lost_update import check, lost_updates
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.seeds import stream
from holdfast.harness.core.verdict import Verdict
from tests.checkers.shorthand import case, history, table
from tests.draws import Draws


@dataclass(frozen=True, kw_only=True, slots=True)
class Write:
    """One write in the order of the log; base -1: blind. version: what the resource made of it."""

    op: int
    base: int
    version: int


def writes(rng: random.Random) -> list[Write]:
    """Three clients that mostly build on what is there; some are late, blind, or repeated."""
    made: list[Write] = []
    version = 0
    for op in range(rng.randint(4, 8)):
        base = version
        if rng.random() < 0.12:
            base = rng.randint(0, version)
        elif rng.random() < 0.2:
            base = -1
        if made and rng.random() < 0.06:
            version = rng.randint(0, version - 1)
        repeated = bool(made) and rng.random() < 0.08
        version += 1
        if repeated:
            old = rng.choice(made)
            made.append(Write(op=old.op, base=old.base, version=version))
        else:
            made.append(Write(op=op, base=base, version=version))
    return made


def really_lost(made: list[Write]) -> set[int]:
    """Ops whose effect is not in the last version: every version is the set of ops in it."""
    content: dict[int, frozenset[int]] = {0: frozenset()}
    last = 0
    for write in made:
        content = {v: ops for v, ops in content.items() if v < write.version}
        base = write.base if 0 <= write.base < write.version else write.version - 1
        content[write.version] = content[base] | {write.op}
        last = write.version
    return {write.op for write in made} - content[last]


def told(made: list[Write]) -> Case:
    """A contended run with two owners in turn in which the resource accepted these writes."""
    contended = history("1a?:db@0 1a+1@1 2a?:db@1.5 1r?@2 1r+@3 2a+2@4 2r?@5 2r+@6")
    names = contended.rows.dtype.names or ()
    rows = [dict(zip(names, row.tolist(), strict=True)) for row in contended.rows]
    for n, write in enumerate(made):
        owner = 1 + write.op % 2
        rows.append(
            {
                "f": Op.SERVED_WRITE,
                "process": owner,
                "attempt": owner << 32 | 1,
                "key": 1,
                "token": owner,
                "arg": write.base,
                "res": write.version,
                "op": owner << 32 | write.op,
                "t_inv": 10**10 + n,
                "t_ret": 10**10 + n,
                "status": Status.OK,
                "writer": 9,
                "row": n,
            }
        )
    merged = type(contended)(rows=table(rows), strings=contended.strings, writers=["c"] * 10)
    return case(merged)


def compare(seed: int, n: int) -> Counter[Verdict]:
    rng = stream(seed, "lost updates")
    verdicts: Counter[Verdict] = Counter()
    for _ in range(n):
        made = writes(rng)
        judged = told(made)
        found = {request.name & 0xFFFFFFFF for request, _ in lost_updates(judged)}
        assert found == really_lost(made), made
        verdict = check(judged).verdict
        assert (verdict is Verdict.VIOLATED) == bool(found), made
        verdicts[verdict] += 1
    return verdicts


def test_a_write_is_lost_if_and_only_if_the_last_version_does_not_contain_it(draws: Draws) -> None:
    verdicts = compare(1, draws(2000))
    assert min(verdicts[Verdict.HOLDS], verdicts[Verdict.VIOLATED]) >= draws(400), verdicts


@pytest.mark.power
def test_a_write_is_lost_if_and_only_if_it_is_not_contained_in_very_many_runs() -> None:
    compare(2, 20_000)


def test_the_log_of_these_runs_has_the_order_in_which_they_were_made() -> None:
    made = writes(stream(5, "order"))
    assert [request.version for request in resource_log.requests(told(made))] == [
        write.version for write in made
    ]
