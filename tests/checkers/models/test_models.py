"""What each model accepts and what it refuses, on histories short enough to read."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import pytest

from holdfast import catalogue
from holdfast.checkers.linearizability import kv, locks, read_write, reentrant, registers, semaphore
from holdfast.checkers.linearizability.judgement import Budget, Model
from holdfast.checkers.linearizability.search import TOLD, linearizable
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.foreign.operations import ForeignOp
from tests.checkers.models.shorthand import drawn

HOLDS, VIOLATED, UNKNOWN = Verdict.HOLDS, Verdict.VIOLATED, Verdict.UNKNOWN

APART = (
    "1 acquire |[--]",
    "1 release |    [---]",
    "2 acquire |     [----]",
    "2 release |            [--]",
)
TOGETHER = (
    "1 acquire |[--]",
    "2 acquire |    [--]",
    "1 release |         [--]",
)


@pytest.mark.parametrize("model", [locks.mutex, locks.owner_mutex, locks.lease_mutex])
def test_a_grant_may_come_while_the_release_is_under_way(model: Model) -> None:
    assert model(drawn(*APART)).verdict is HOLDS


@pytest.mark.parametrize("model", [locks.mutex, locks.owner_mutex, locks.lease_mutex])
def test_a_grant_inside_a_hold_is_a_second_holder(model: Model) -> None:
    judged = model(drawn(*TOGETHER))
    assert judged.verdict is VIOLATED
    assert judged.findings[0].witnesses
    assert "process 2" in judged.reason


def test_the_sentence_names_both_holders_and_their_lines() -> None:
    judged = locks.owner_mutex(drawn(*TOGETHER))
    assert judged.reason == (
        "acquire by process 2 (line 2) was granted while acquire by process 1"
        " (line 1) had not been released"
    )
    assert set(judged.findings[0].witnesses) == {1, 2, 3}


def test_an_unanswered_acquire_proves_nothing() -> None:
    ops = drawn("1 acquire |[---?", "2 acquire |  [--]", "2 release |       [--]")
    assert locks.owner_mutex(ops).verdict is HOLDS


def test_an_unanswered_acquire_whose_release_was_ok_did_hold() -> None:
    held = ("2 acquire |[-]", "2 release |                  [-]")
    ops = drawn(*held, "1 acquire |    [---?", "1 release |         [-]")
    judged = locks.lease_mutex(ops)
    assert judged.verdict is VIOLATED
    assert "covered" not in judged.reason and "process 1" in judged.reason


def test_an_unanswered_release_may_have_freed_the_lock() -> None:
    ops = drawn("1 acquire |[-]", "1 release |   [---?", "2 acquire |          [-]")
    assert locks.owner_mutex(ops).verdict is HOLDS
    assert locks.mutex(ops).verdict is HOLDS


LOCKS = {
    "mutex": locks.mutex,
    "owner-mutex": locks.owner_mutex,
    "fenced": locks.fenced,
    "lease-mutex": locks.lease_mutex,
    "reentrant": reentrant.reentrant,
    "semaphore:1": semaphore.semaphore("1"),
    "rw": read_write.read_write,
}
RENEWED: tuple[str, ...] = ("1 acquire:1 |[-]", "1 renew |   [-]", "1 release |      [-]")
RENEWED_LATER: tuple[str, ...] = ("2 acquire:2 |         [-]", "2 renew |            [-]")
RENEWED_LATER += ("2 release |               [-]",)


@pytest.mark.parametrize("name", LOCKS)
@pytest.mark.parametrize("named", [False, True], ids=["processes", "attempts"])
@pytest.mark.parametrize("searched", [False, True], ids=["exact", "by search"])
def test_no_model_of_a_lock_judges_a_renewal(name: str, named: bool, searched: bool) -> None:
    """A second process that goes on after an unknown outcome leaves `searched` to the search."""
    ops = drawn(*RENEWED, *RENEWED_LATER)
    if searched:
        more = ("3 acquire |                  [---?", "3 acquire:3 |                      [-]")
        ops = drawn(*RENEWED, *RENEWED_LATER, *more)
    if named:
        ops = [replace(op, attempt=f"{op.process} {op.line == 8}") for op in ops]
    judged = LOCKS[name](ops)
    assert judged.verdict is HOLDS, judged.reason


@pytest.mark.parametrize("name", ["mutex", "fenced"])
def test_a_renewal_that_begins_before_its_grant_is_known_is_no_hold_of_its_own(name: str) -> None:
    """As exported runs have it: every row carries an attempt, and calls may overlap."""
    ops = drawn("1 acquire:1 |[---]", "2 renew | [-]", "3 release |  [---]")
    ops = [replace(op, attempt=7) for op in ops]
    assert LOCKS[name](ops).verdict is HOLDS


def test_a_release_by_another_frees_a_mutex_without_owners_only() -> None:
    ops = drawn("1 acquire |[-]", "2 release |   [--]", "3 acquire |        [-]")
    assert locks.mutex(ops).verdict is HOLDS
    assert locks.owner_mutex(ops).verdict is VIOLATED


def test_a_hold_without_an_ok_release_proves_nothing_of_a_lease() -> None:
    ops = drawn("1 acquire |[-]", "2 acquire |   [--]", "2 release |        [-]")
    assert locks.lease_mutex(ops).verdict is HOLDS
    assert locks.owner_mutex(ops).verdict is VIOLATED


def test_a_later_grant_with_a_smaller_token_is_out_of_order() -> None:
    grants = ("1 acquire:{} |[-]", "1 release   |    [-]", "2 acquire:{} |        [-]")
    text = "\n".join(grants)
    assert locks.fenced(drawn(*text.format(4, 5).splitlines())).verdict is HOLDS
    judged = locks.fenced(drawn(*text.format(5, 5).splitlines()))
    assert [finding.kind for finding in judged.findings] == ["token-order"]


def test_a_fenced_history_without_tokens_is_refused() -> None:
    with pytest.raises(UsageError, match="owner-mutex"):
        locks.fenced(drawn(*APART))


def test_a_reentrant_lock_is_free_after_as_many_releases() -> None:
    nested = (
        "1 acquire |[-]",
        "1 acquire |    [-]",
        "1 release |        [-]",
        "1 release |                   [-]",
    )
    early = drawn(*nested, "2 acquire |            [--]")
    late = drawn(*nested, "2 acquire |            [--------]")
    assert reentrant.reentrant(late).verdict is HOLDS
    assert reentrant.reentrant(early).verdict is VIOLATED


def test_a_semaphore_has_as_many_permits_as_it_says() -> None:
    ops = drawn("1 acquire |[-]", "2 acquire |   [-]", "3 acquire |      [-]")
    assert semaphore.semaphore("3")(ops).verdict is HOLDS
    judged = semaphore.semaphore("2")(ops)
    assert judged.verdict is VIOLATED and len(judged.findings) == 1


@pytest.mark.parametrize("permits", ["", "0", "-1", "many", "9" * 40])
def test_a_semaphore_of_no_number_is_refused(permits: str) -> None:
    with pytest.raises(UsageError, match="semaphore:3"):
        semaphore.semaphore(permits)


def test_readers_go_together_and_a_writer_goes_alone() -> None:
    readers = ("1 acquire* |[-]", "2 acquire* |   [-]")
    assert read_write.read_write(drawn(*readers)).verdict is HOLDS
    ops = drawn(*readers, "3 acquire |      [-]")
    assert read_write.read_write(ops).verdict is VIOLATED


def test_a_register_reads_what_was_written_last() -> None:
    writes = ("1 write=a |[--]", "2 write=b |     [--]")
    assert registers.register(drawn(*writes, "3 read->a |    [---]")).verdict is HOLDS
    judged = registers.register(drawn(*writes, "3 read->a |          [---]"))
    assert judged.verdict is VIOLATED
    assert judged.reason == (
        "a was the value from the end of write a by process 1 (line 1) to the begin of read -> a by"
        " process 3 (line 3), but write b by process 2 (line 2) falls inside that time"
    )
    again = drawn(*writes, "3 read->a |          [---]", "1 write=a |      [------]")
    assert registers.register(again).verdict is HOLDS
    again = drawn(*writes, "3 read->a |          [---]", "1 write=a |               [------]")
    judged = registers.register(again)
    assert judged.verdict is VIOLATED
    assert "could only be b" in judged.reason


def test_a_value_is_not_read_before_anybody_writes_it() -> None:
    ops = drawn("1 read->a |[--]", "2 write=a |     [--]", "3 read->z |         [-]")
    judged = registers.register(ops)
    assert judged.verdict is VIOLATED
    assert [finding.witnesses for finding in judged.findings] == [(1,), (3,)]


def test_an_empty_register_reads_nil() -> None:
    read = "3 read->nil |          [---]"
    assert registers.register(drawn(read)).verdict is HOLDS
    assert registers.register(drawn("1 write=a |[--]", read)).verdict is VIOLATED


def test_a_store_got_every_text_that_was_appended() -> None:
    appends = ("1 append=a |[--]", "2 append=b |[--]")
    assert kv.kv(drawn(*appends, "3 get->ba |     [-]")).verdict is HOLDS
    assert kv.kv(drawn(*appends, "3 get->a |     [-]")).verdict is VIOLATED


class Counter:
    """A specification as a user may write one: a counter that is added to and read."""

    initial: Hashable = 0

    def command(self, op: ForeignOp) -> Hashable:
        return ("add", 1) if op.f == "add" else ("read", int(str(op.result)))

    def step(self, state: Hashable, command: Hashable) -> Hashable | None:
        assert isinstance(state, int) and isinstance(command, tuple)
        if command[0] == "add":
            return state + 1
        return state if state == command[1] else None

    def reads(self, command: Hashable) -> bool:
        return isinstance(command, tuple) and command[0] == "read"


def test_a_user_describes_an_object_in_four_short_methods() -> None:
    adds = ("1 add |[--]", "2 add |  [------]", "3 add |   [---?")
    for seen, verdict in (("1", HOLDS), ("3", HOLDS), ("4", VIOLATED), ("0", VIOLATED)):
        ops = drawn(*adds, f"4 read->{seen} |     [--]")
        assert linearizable(ops, Counter()).verdict is verdict, seen


def test_a_search_that_runs_out_says_how_far_it_got() -> None:
    writes = [f"{n} write={n} |[-------]" for n in range(1, 9)]
    # A value with two writes, which is read, is left to the search.
    writes += [f"{n} write=1 |[-------]" for n in range(11, 13)]
    ops = drawn(*writes, "9 read->1 |          [-]", "9 read->2 |              [-]")
    told = list[tuple[int, int, int]]()
    judged = registers.register(ops, Budget(configurations=2))
    assert judged.verdict is UNKNOWN
    assert "stopped after 2 configurations" in judged.reason and "line" in judged.reason
    many = [f"{n} write={n} |[-------]" for n in range(1, 16)]
    many += ["16 write=1 |[-------]", "17 read->1 |          [-]", "17 read->2 |              [-]"]
    limit = 2 * TOLD + 5
    ask = Budget(configurations=limit, tell=lambda *far: told.append((far[0], far[1], far[2])))
    judged = registers.register(drawn(*many), ask)
    assert judged.verdict is UNKNOWN and judged.exercised["configurations"] == limit
    assert [visited for visited, _, _ in told] == [TOLD, 2 * TOLD]
    assert all(explained < responses == 18 for _, explained, responses in told)


def test_a_history_in_which_nothing_was_answered_shows_nothing_and_says_so() -> None:
    ops = drawn("1 acquire |[--?", "2 acquire |  [---?")
    for model in (locks.owner_mutex, locks.mutex):
        judged = model(ops)
        assert judged.verdict is UNKNOWN
        assert "there is nothing to check" in judged.reason


def test_an_operation_that_a_model_does_not_know_is_refused_with_its_line() -> None:
    with pytest.raises(UsageError, match="line 1: 'write'"):
        locks.mutex(drawn("1 write=a |[--]"))
    with pytest.raises(UsageError, match="line 1: 'acquire'"):
        registers.register(drawn("1 acquire |[--]"))


HEADINGS = ("Claims:", "Assumes:", "Blind to:", "Cost:")


@pytest.mark.parametrize("name", catalogue.MODELS)
def test_every_model_says_what_it_claims_and_what_it_cannot_see(name: str) -> None:
    import importlib

    row = catalogue.MODELS[name]
    assert callable(load(row.entry))
    text = importlib.import_module(row.entry.partition(":")[0]).__doc__ or ""
    assert all(f"\n{heading}" in text for heading in HEADINGS)


WRITES: tuple[str, ...] = ("1 acquire |[-]", "1 release |            [-]")
READS: tuple[str, ...] = ("1 acquire* |      [-]", "1 release* |                  [-]")


def as_processes(ops: list[ForeignOp]) -> list[ForeignOp]:
    """The history as it is."""
    return ops


def as_attempts(ops: list[ForeignOp]) -> list[ForeignOp]:
    """The same history with an attempt for each hold, as Curator's two locks have."""
    return [replace(op, attempt=f"{op.process} {op.shared}") for op in ops]


@pytest.mark.parametrize("named", [False, True], ids=["processes", "attempts"])
def test_a_writer_may_become_a_reader_before_it_releases(named: bool) -> None:
    made = as_attempts if named else as_processes
    for writer, verdict, findings in (
        ("2 acquire |                        [-]", HOLDS, 0),
        ("2 acquire |    [-----------------------]", HOLDS, 0),
        ("2 acquire |               [-]", VIOLATED, 1),
        ("2 acquire |         [-]", VIOLATED, 2),
    ):
        judged = read_write.read_write(made(drawn(*WRITES, *READS, writer)))
        assert judged.verdict is verdict, writer
        assert len(judged.findings) == findings, writer
    for reader, verdict in (
        ("2 acquire* |               [-]", HOLDS),
        ("2 acquire* |         [-]", VIOLATED),
        ("2 acquire* |         [------]", HOLDS),
    ):
        judged = read_write.read_write(made(drawn(*WRITES, *READS, reader)))
        assert judged.verdict is verdict, reader


@pytest.mark.parametrize("named", [False, True], ids=["processes", "attempts"])
def test_a_shared_hold_inside_an_exclusive_one_changes_nothing(named: bool) -> None:
    inner = ("1 acquire* |   [-]", "1 release* |      [-]")
    made = as_attempts if named else as_processes
    for writer, verdict in (
        ("2 acquire |           [---]", HOLDS),
        ("2 acquire |         [-]", VIOLATED),
    ):
        ops = made(drawn(*WRITES, *inner, writer))
        assert read_write.read_write(ops).verdict is verdict


@pytest.mark.parametrize("named", [False, True], ids=["processes", "attempts"])
@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("1 acquire* |[-]", "1 acquire |   [-]"), "is an upgrade"),
        (("1 acquire |[-]", "1 acquire |   [-]"), "is a reentry"),
        (("1 acquire |[-]", "1 acquire* |   [-]", "1 acquire |      [-]"), "is an upgrade"),
    ],
)
def test_what_a_read_write_lock_is_not_assumed_to_do_is_refused_with_the_operation(
    lines: tuple[str, ...], said: str, named: bool
) -> None:
    ops = drawn("2 acquire* |                 [-]", *lines)
    if named:
        ops = [replace(op, attempt=op.line) for op in ops]
    with pytest.raises(UsageError, match=f"line {len(lines) + 1}: acquire by process 1 .*{said}"):
        read_write.read_write(ops)


def test_a_release_of_unknown_outcome_is_no_upgrade() -> None:
    """The process goes on with its lock: it may have been released, as far as anybody knows."""
    again = ("1 acquire* |[-]", "1 release* |   [-?", "1 acquire |       [-]")
    assert read_write.read_write(drawn(*again)).verdict is HOLDS
    ops = [replace(op, attempt=1 + (op.line == 3)) for op in drawn(*again)]
    assert read_write.read_write(ops).verdict is HOLDS
    ops = drawn(*again, "1 release* |           [-]")
    ops = [replace(op, attempt=1 + (op.line == 3)) for op in ops]
    with pytest.raises(UsageError, match="is an upgrade"):
        read_write.read_write(ops)
