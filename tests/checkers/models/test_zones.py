"""Registers whose read values have one write each: the rule beside every order, and the search."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations_with_replacement, islice

import pytest

from holdfast.checkers.linearizability import kv, registers
from holdfast.checkers.linearizability.registers import RegisterModel
from holdfast.checkers.linearizability.search import linearizable
from holdfast.checkers.linearizability.zones import zoned
from holdfast.harness.core.operations import Status
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.foreign.operations import OPEN, ForeignOp
from tests.checkers.models import brute, histories
from tests.checkers.models.shorthand import drawn
from tests.draws import Draws

Span = tuple[int, int]


def spans(count: int, found: tuple[Span, ...] = (), at: int = 0) -> Iterator[tuple[Span, ...]]:
    """All ways in which `count` intervals may lie, in order of begin; OPEN: it never ends.

    At each edge another operation begins, or one that is open ends.
    """
    if len(found) < count:
        yield from spans(count, (*found, (at, OPEN)), at + 1)
    else:
        yield found
    for n, (begin, end) in enumerate(found):
        if end == OPEN:
            yield from spans(count, (*found[:n], (begin, at), *found[n + 1 :]), at + 1)


def orders(count: int) -> Iterator[tuple[Span, ...]]:
    """As `spans`, but only one of those in which the same operations end before the same others
    begin: 1014 ways of six operations, 5335 of seven.

    Edges lie in groups: some begin, then some end, then others begin. An operation is the pair of
    the groups in which it begins and ends; those in one pair are told apart by their values alone.
    """
    for groups in range(1, count + 1):
        pairs = [(b, e) for b in range(groups) for e in (*range(b, groups), OPEN)]
        for chosen in combinations_with_replacement(pairs, count):
            begun, ended = ({pair[side] for pair in chosen} for side in (0, 1))
            # Two groups with no end between them were one; after the last one nothing has to end.
            if begun == {*range(groups)} and {*range(groups - 1)} <= ended:
                yield tuple(
                    (100 * b + n, OPEN if e == OPEN else 100 * e + 50 + n)
                    for n, (b, e) in enumerate(chosen)
                )


def small(ways: Iterable[tuple[Span, ...]], count: int) -> Iterator[list[ForeignOp]]:
    """All histories of so many writes of different values, and reads of any of them or of nil,
    whose intervals lie in one of these ways."""
    for places in ways:
        for kinds in range(1 << count):
            writes = [n for n in range(count) if kinds >> n & 1]
            reads = [n for n in range(count) if not kinds >> n & 1]
            if any(places[n][1] == OPEN for n in reads):
                continue
            values: list[int | None] = [None, *writes]
            for picked in range(len(values) ** len(reads)):
                ops = [_write(n, places[n]) for n in writes]
                for n in reads:
                    picked, which = divmod(picked, len(values))
                    ops.append(_read(n, places[n], values[which]))
                yield sorted(ops, key=lambda op: op.begin)


def _write(n: int, span: Span) -> ForeignOp:
    status = Status.INFO if span[1] == OPEN else Status.OK
    return _op("write", n, span, status, n, None)


def _read(n: int, span: Span, result: int | None) -> ForeignOp:
    return _op("read", n, span, Status.OK, None, result)


def _op(
    f: str, n: int, span: Span, status: Status, value: int | None, result: int | None
) -> ForeignOp:
    return ForeignOp(
        process=n, f=f, key=None, value=value, result=result, begin=span[0], end=span[1],
        status=status, told_value=result is not None, line=n + 1,
    )  # fmt: skip


def agree(ops: Sequence[ForeignOp]) -> Verdict:
    """The verdict of the rule, which is that of every order tried by hand."""
    decided = zoned(ops)
    assert decided is not None
    expected = brute.explained(ops, "None", brute.register)
    assert (decided[0].verdict is Verdict.HOLDS) is expected, "\n".join(map(str, ops))
    assert bool(decided[0].findings) is not expected
    return decided[0].verdict


def compare(count: int, every: int = 1) -> Counter[Verdict]:
    """Of all ways in which intervals may lie, one of so many."""
    return Counter(map(agree, small(islice(spans(count), 0, None, every), count)))


def compare_orders(count: int, every: int = 1) -> Counter[Verdict]:
    return Counter(map(agree, small(islice(orders(count), 0, None, every), count)))


def test_all_histories_of_up_to_four_operations_agree_with_every_order() -> None:
    found = compare(1) + compare(2) + compare(3) + compare(4)
    assert min(found.values()) > 5000, found


def test_some_of_all_histories_of_five_operations_agree_with_every_order(draws: Draws) -> None:
    assert min(compare(5, 61 * draws.one_in).values()) > draws(2000)


@pytest.mark.power
def test_all_histories_of_five_operations_agree_with_every_order() -> None:
    found = compare(5)
    assert min(found.values()) > 200_000, found


@pytest.mark.power
def test_all_orders_of_six_operations_agree_with_every_order() -> None:
    found = compare_orders(6)
    assert min(found.values()) > 250_000, found


@pytest.mark.power
def test_a_hundredth_of_all_orders_of_seven_operations_agrees_with_every_order() -> None:
    """All of them are 45 million histories, three and a half hours."""
    found = compare_orders(7, 101)
    assert min(found.values()) > 60_000, found


@pytest.mark.parametrize("seed", range(60))
def test_the_rule_agrees_with_the_search_on_longer_histories(seed: int) -> None:
    rng = random.Random(seed)
    play = partial(histories.registers, cas=False, once=True)
    ops = list[ForeignOp]()
    for part in range(4):
        more = histories.drawn(rng, play, "process", 1)
        ops += [
            replace(
                op,
                process=f"{part}.{op.process}",
                begin=op.begin + 90 * part,
                end=op.end if op.end == OPEN else op.end + 90 * part,
                value=None if op.value is None else f"{part}.{op.value}",
                result=None if op.result is None else f"{part}.{op.result}",
            )
            for op in more
        ]
    ops.sort(key=lambda op: op.begin)
    decided = zoned(ops)
    assert decided is not None
    searched = linearizable(ops, RegisterModel(("read", "write")))
    assert decided[0].verdict is searched.verdict is not Verdict.UNKNOWN
    assert registers.register(ops).verdict in (searched.verdict, Verdict.UNKNOWN)


def test_a_write_of_unknown_outcome_took_effect_only_where_it_was_read() -> None:
    writes = ("1 write=a |[--?", "2 write=b |    [-]")
    for reads, verdict in (
        (("3 read->b |        [-]",), Verdict.HOLDS),
        (("3 read->b |        [-]", "3 read->a |            [-]"), Verdict.HOLDS),
        (("3 read->a |[-]", "3 read->b |        [-]", "3 read->a |            [-]"),
         Verdict.VIOLATED),
    ):  # fmt: skip
        ops = drawn(*writes, *reads)
        assert agree(ops) is verdict, reads


def test_the_first_value_has_one_write_before_all() -> None:
    read = "3 read->nil |          [---]"
    judged = registers.register(drawn("1 write=a |[--]", read))
    assert judged.verdict is Verdict.VIOLATED
    assert judged.reason == (
        "the first value was the value from the start to the begin of read by process 3 (line 2),"
        " but write a by process 1 (line 1) falls inside that time"
    )
    assert "zones" in judged.exercised


@pytest.mark.parametrize(
    "more",
    [
        ("1 write=a |                  [-]",),
        ("1 write=a |                  [-?",),
        ("1 write=nil |                  [-]", "2 read->nil |                     [-]"),
    ],
)
def test_a_read_value_with_two_writes_is_left_to_the_search(more: tuple[str, ...]) -> None:
    ops = drawn("1 write=a |[-]", "2 read->a |    [-]", *more)
    if "nil" in more[0]:
        ops = [replace(op, value=None) if op.value == "nil" else op for op in ops]
    assert zoned(ops) is None
    assert "configurations" in registers.register(ops).exercised
    unread = drawn("1 write=a |[-]", "2 read->a |    [-]", "1 write=b |[-]", "1 write=b |  [-?")
    assert zoned(unread) is not None, "a value that nobody read may have any number of writes"


def test_each_key_is_decided_for_itself() -> None:
    ops = drawn("1 write=a |[-]", "2 read->a |    [-]", "1 write=a |        [-]")
    one = [replace(op, key="searched") for op in ops]
    other = [replace(op, key="zoned", process=op.process) for op in ops[:2]]
    judged = registers.register(sorted([*one, *other], key=lambda op: op.begin))
    assert judged.verdict is Verdict.HOLDS
    assert judged.exercised["zones"] == 2 and judged.exercised["configurations"] > 0


def test_a_key_of_a_store_without_appends_is_a_register() -> None:
    puts = ("1 put=a |[--]", "2 put=b |    [--]")
    for got, verdict in (("b", Verdict.HOLDS), ("a", Verdict.VIOLATED)):
        judged = kv.kv(drawn(*puts, f"3 get->{got} |         [-]"))
        assert judged.verdict is verdict and "zones" in judged.exercised
    judged = kv.kv(drawn(*puts, "3 get |         [-]"))
    assert judged.verdict is Verdict.VIOLATED, "no text is the empty text"
    assert "configurations" in kv.kv(drawn(*puts, "3 append=c |      [-]")).exercised


def test_reads_of_two_of_many_concurrent_writes_that_disagree_are_decided_at_once() -> None:
    """Each of fifteen writes may be last, which a search tries in every order."""
    writes = [f"{n} write={n} |[{'-' * n}]" for n in range(1, 16)]
    ops = drawn(*writes, f"1 read->1 |{' ' * 20}[-]", f"2 read->2 |{' ' * 24}[-]")
    begun = time.process_time()
    judged = registers.register(ops)
    assert judged.verdict is Verdict.VIOLATED and "configurations" not in judged.exercised
    assert set(judged.findings[0].witnesses) == {1, 2, 16, 17}
    assert time.process_time() - begun < 1
