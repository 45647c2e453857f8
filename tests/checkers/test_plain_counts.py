"""What a run exercised is counted by columns as plain loops count it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from holdfast.checkers.coverage.requirements import NEEDS, exercise
from holdfast.checkers.facts.fault_windows import coverage
from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.operations import Op
from tests.checkers.faults import window
from tests.checkers.neighbours import ASKS, neighbours
from tests.checkers.plain_counts import PLAIN, Counts
from tests.checkers.shorthand import case
from tests.checkers.small_histories import TICK, small
from tests.checkers.test_near_misses import later, of_every_rule

KINDS = ("kill", "pause", "partition")
TARGETS = (
    "holder", "one", "leader", "minority", "majority", "all", "clients", "holder|leader",
    "leader|follower", "resource",
)  # fmt: skip
NODES = ("c0", "c1", "n1", "n2", "n1+n2", "n2+n3", "n1+n2+n3", "n4", "c0+n1")
EXERCISED = (
    # Older owners' requests, refused and not; the newer one reads.
    "0a? 0a+1 0w? 0w? 1a? 1a+2 1w? 1S+ 1w+ 0S-1 0w- 1d? 1D+ 1d+",
    "0a? 0a+2 0w? 0S-2 0w- 0d? 1a? 1a+3 1d? 1D+ 1d+ 0D-2 0d- 1w? 1S-3 1w-",
    # Jobs of two locks: done by one client, found by another, by itself, by both.
    "0a?:x 0a+1 0w?:x#0 0S+=1 0w+=1 1a?:x 1a+2 1d?:x#0 1D+=1 1d+=1 0d?:x#0 0D+=1 0d+=1",
    "0a?:x 0a+1 0w?:x#0 0S+=1 0w+=1 0w?:y#1 0S+=1 0w+=1 1d?:y#1 1D+=1 1d+=1 1d?:x#0 1D+=1 1d~",
    "0a? 0a+1 0w?:x 0S+=1 0w+=1 1d?:x 1D+=1 1d+=1 1w?:x#1 1S+=1 1w+=1 1d?:x#1 1D+=1 1d+=1",
    # Three clients, each waiting for the next one's lock; and two who only seem to.
    "0a?:x 0a+1 1a?:y 1a+1 2a?:z 2a+1 0a?:y 0Q 1a?:z 1Q 2a?:x 2Q 2a- 0a- 1a-",
    "0a?:x 0a+1 1a?:y 1a+1 0a?:y 0Q 0a- 1a?:x 1Q 1a- 0a?:z 0a+1 0a?:y 0Q",
    # Holder, place and length, each answered and not.
    "0a? 0a+1 1a? 1Q 2q? 2q+1=0 1k? 1k+=0 2l? 2l+=1 2q? 2q+ 1k? 1k+=-1 2l? 2l+=0",
    "0a? 0a+1 1a? 1Q 2q? 2q+1=0 1k? 1k+=0",
    "0a? 0a+1 1a? 1Q 2q? 2q+1=0 1k? 1k+=0 2l? 2l+=0",
    "0a? 0a+1 0w? 0S+ 0w+ 1a? 1a+2 1w? 1S+ 1w+ 1w? 1w+",
    "0a? 0a+1 0w?=0 0S+=1 0w+=1 1a? 1a+2 1w?=1 1S-2 1w- 1w? 1S+=2 1w+=2 0d? 0D+ 0d+",
    "0a? 0a+1 1a? 1Q 0r? 0r+ 1a+2 2q? 2q+2=0 2q? 2q~ 0c? 0c- 1c? 1c+ 1r? 1r+ 1c? 1c-",
    "0a? 0a+1 0a? 0a+1 0.2r? 0.2r+=1 0.1r? 0.1r+=0",
    # Probes of paths, of a lock that no client asked for, and of one on top of another.
    "0a?:/x/y 0a+1 1a?:/z 1a+2 9p?:/x 9p+3 9p?:/z/y 9p-",
    "0a?:/x 0a+1 1a?:/x/y 1a+2 9p?:/x 9p+3",
)


def again(given: Case, chance: random.Random) -> Case:
    """Some writes were sent more than once; some owners ask for a lock that they have."""
    rows = given.history.rows
    for at in range(len(rows)):
        if rows["f"][at] == Op.WRITE and chance.random() < 0.3:
            rows["aux"][at] = 1
        if rows["f"][at] in ASKS and chance.random() < 0.05:
            rows["op"][at] |= 1
    return given


def struck(given: Case, chance: random.Random) -> Case:
    """The same with faults at random, some from the moment of a row to that of another."""
    rows, faults = given.history.rows, list[Window]()
    moments = sorted({int(t) for name in ("t_inv", "t_ret") for t in rows[name] if t})
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        one = window(
            chance.choice(KINDS), chance.choice(NODES), 1, 2,
            target=chance.choice(TARGETS), effective=chance.random() < 0.9,
        )  # fmt: skip
        begin = chance.choice(moments)
        lasts = chance.choice((0, 1, TICK, given.lease_ns, given.lease_ns + given.promises.slip_ns))
        until = chance.choice((begin + lasts, begin + lasts + 1, chance.choice(moments)))
        holder = chance.choice(("", "c0", "c1")) if one.target == "holder" else ""
        begin, until = max(1, min(begin, until)), max(1, begin, until)
        faults.append(replace(one, from_ns=begin, to_ns=until, holder=holder))
    options = {
        "resource": chance.choice(("fenced", "strict", "unfenced")),
        "servers": chance.choice(("0", "1", "2", "3", "5")),
    }
    kinds = tuple(kind for kind in KINDS if chance.random() < 0.8)
    return replace(given, windows=tuple(faults), kinds=kinds, options=options, memo={})


def histories(chance: random.Random) -> Iterator[Case]:
    for _ in range(500):
        yield struck(small(chance), chance)
    told = (later(case(text, promises={"subtrees": True})) for text in EXERCISED)
    for old in (*told, *(one for _, one in of_every_rule())):
        yield old
        for near in neighbours(old, chance, 2):
            yield near if near.windows else struck(again(near, chance), chance)


@pytest.mark.slow
def test_what_was_exercised_is_counted_as_plain_loops_count_it() -> None:
    met, lacked = Counter[str](), Counter[str]()
    for given in histories(random.Random("plain counts")):
        plainly = Counts(given)
        for need, count in PLAIN.items():
            counts, enough = count(plainly)
            found = exercise(given, needs=(need,))
            assert found.counts == counts, need
            reasons = (*found.missing, *found.doubts)
            assert (not reasons) == enough, (need, counts, reasons)
            (met if enough else lacked)[need] += 1
        for kind in given.kinds:
            counts, lacks = plainly.kind(kind)
            of_kind = coverage(given)[kind]
            assert of_kind.counts == counts, kind
            told = [f"{why} {kind}" if " during" in why else why for why in lacks]
            told = [why.replace("during ", "during a ") for why in told]
            assert len(of_kind.missing) == len(told), (of_kind.missing, told)
            for reason, why in zip(of_kind.missing, told, strict=True):
                assert reason.startswith(why), (of_kind.missing, told)
            for why in lacks or ("enough",):
                lacked[why] += 1
    assert {*NEEDS} == {*PLAIN, "faults"} == {*met, "faults"}
    assert {*lacked} >= {*PLAIN, "enough", "no acquire", "no grant during", "no grant after"}
