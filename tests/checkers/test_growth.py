"""What a checker costs grows with the rows, not with their square: by calls, on hostile shapes.

Calls are counted, Python's and those into numpy; a pass over an array is one call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import catalogue
from holdfast.checkers.linearizability import locks, registers
from holdfast.checkers.properties import wait_cycles
from holdfast.harness.core.case import Case
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.foreign.operations import OPEN, ForeignOp
from tests.checkers.shorthand import case, history

SMALL, TIMES = 40, 4
MOST = 6.5
"""of 4 n to n; n log n is below 5.5, a square 16"""

Shape = Callable[[int], Case]


def in_turn(n: int) -> Case:
    """Each client after the other."""
    return case(" ".join(f"{p}a? {p}a+{p + 1} {p}n? {p}n+ {p}r? {p}r+" for p in range(n)))


def never_released(n: int) -> Case:
    """Everybody is granted, nobody gives back, and only a release would free the lock."""
    text = " ".join(f"{p}a? {p}a+{p + 1} {p}w? {p}S+ {p}w+" for p in range(n))
    return case(text, promises={"bound": "none"})


def never_released_leases(n: int) -> Case:
    """The same with leases that run out, so that claims go on and holds do not."""
    text = " ".join(f"{p}a?/1 {p}a+{p + 1} {p}Q" for p in range(n))
    return case(text)


def all_at_once(n: int) -> Case:
    """All ask, then all are granted, renew and give back."""
    words = [f"{p}a? {p}Q" for p in range(n)]
    words += [f"{p}a+{n - p}/9999" for p in range(n)]
    words += [f"{p}n? {p}n+" for p in range(n)]
    words += [f"{p}r? {p}r+" for p in range(n)]
    return case(" ".join(words))


def overtaken(n: int) -> Case:
    """Who asks first is granted last."""
    words = [f"{p}a? {p}Q" for p in range(n)]
    words += [f"{p}a+{n - p} {p}r? {p}r+" for p in reversed(range(n))]
    return case(" ".join(words))


def unanswered(n: int) -> Case:
    """Nothing but one hold is ever answered."""
    words = ["0a? 0a+1", *(f"{p}a? {p}a~ {p}n? {p}n~ {p}r? {p}r~" for p in range(1, n))]
    return case(" ".join(words), promises={"bound": "none"})


def asked_about(n: int) -> Case:
    """Every hold is asked about, and every place in the queue."""
    words = ["0a? 0a+1"]
    for p in range(1, n):
        words.append(f"{p}a? {p}Q 0n? 0n+ {p}q? {p}q+1={p} {p}k? {p}k+={p - 1} 0c? 0c+")
    return case(" ".join(words))


def upgrading(n: int) -> Case:
    """Readers of one lock that all ask to write it."""
    words = [f"{p}a?:x/9999 {p}a+{p + 1}:x/9999" for p in range(n)]
    words += [f"{p}a?:x {p}Q:x" for p in range(n)]
    words += [f"{p}a-:x@{9000 + p}" for p in range(n)]
    told = history(" ".join(words))
    first = (told.rows["f"] == Op.ACQUIRE) & (told.rows["status"] == 2)
    told.rows["mode"][first] = 1
    return case(told)


def lost(n: int) -> Case:
    """Everybody is told of a loss, with a reason."""
    words = [f"{p}a? {p}a+{p + 1} {p}L {p}n? {p}n!" for p in range(n)]
    told = history(" ".join(words))
    told.strings.append("expired")  # type: ignore[attr-defined]
    told.rows["res"][told.rows["f"] == Op.LOST] = len(told.strings) - 1
    return case(told, promises={"reasons": True})


def refused(n: int) -> Case:
    """Tries that are refused while one holds, and after."""
    words = ["0a? 0a+1", *(f"{p}t? {p}t-" for p in range(1, n)), "0r? 0r+"]
    words += [f"{p}t? {p}t-" for p in range(1, n)]
    return case(" ".join(words))


def renewed(n: int) -> Case:
    """One hold of very many renewals, asked about after each."""
    words = ["0a? 0a+1", *("0n? 0n+ 1q? 1q+1=" + str(k + 1) for k in range(n))]
    return case(" ".join(words))


def lengths_asked(n: int) -> Case:
    """All wait, and each asks how long the queue is: half are told one too few, half too many."""
    words = ["0a? 0a+1/99999", *(f"{p}a? {p}Q" for p in range(1, n))]
    words += [f"{p}l? {p}l+={n - 2 if p % 2 else n}" for p in range(1, n)]
    words += [f"{p}k? {p}k+={p - 1}" for p in range(1, n)]
    return case(" ".join(words))


def reentered(n: int) -> Case:
    """One owner goes in so often, and each release says that it was the last."""
    words = ["0a? 0a+1/99999"] * n
    words += [f"0.{k}r? 0.{k}r+=0" for k in range(1, n + 1)]
    return case(" ".join(words))


SHAPES: dict[str, Shape] = {
    shape.__name__: shape
    for shape in (
        in_turn,
        never_released,
        never_released_leases,
        all_at_once,
        overtaken,
        unanswered,
        asked_about,
        upgrading,
        lost,
        refused,
        renewed,
        lengths_asked,
        reentered,
    )
}


def calls(check: Callable[[Any], Any], run: Any) -> int:
    """How many functions are called, ours and others'."""
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        check(run)
    finally:
        sys.setprofile(None)
    return count


PAIRS = sorted((p, s) for p in catalogue.CHECKERS for s in SHAPES)


@pytest.mark.parametrize(("prop", "shape"), PAIRS)
def test_a_checker_calls_no_more_than_in_proportion(
    prop: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waits of all for all are as many as the square: there is a bound to those."""
    monkeypatch.setattr(wait_cycles, "MOST_EDGES", 300)
    monkeypatch.setattr(wait_cycles, "MOST_STEPS", 3_000)
    check = load(catalogue.CHECKERS[prop])
    check(SHAPES[shape](4))
    few = calls(check, SHAPES[shape](SMALL))
    many = calls(check, SHAPES[shape](TIMES * SMALL))
    assert many <= MOST * few, f"{few} calls for {SMALL}, {many} for {TIMES * SMALL}"


def answered_in_part(f: tuple[str, str], n: int) -> list[ForeignOp]:
    """Calls one after the other; beside every fourth one that is never answered."""
    ops = list[ForeignOp]()
    for k in range(n):
        lost = k % 5 == 4
        what = f[0] if lost else f[k % 5 % 2]
        ops.append(
            ForeignOp(
                process=f"lost {k}" if lost else 0,
                f=what,
                key=None,
                value=k if what == "write" else None,
                result=k - 1 if what == "read" else None,
                begin=2 * k,
                end=OPEN if lost else 2 * k + 1,
                status=Status.INFO if lost else Status.OK,
                told_value=what == "read",
                line=k + 1,
            )
        )
    return ops


@pytest.mark.parametrize("name", ["mutex", "register"])
def test_a_search_calls_no_more_than_in_proportion_to_unknown_outcomes(name: str) -> None:
    judge = locks.mutex if name == "mutex" else registers.register
    f = ("acquire", "release") if name == "mutex" else ("write", "read")
    assert judge(answered_in_part(f, 20)).verdict is Verdict.HOLDS
    few, many = (calls(judge, answered_in_part(f, n)) for n in (200, 800))
    assert many <= MOST * few, (few, many)
