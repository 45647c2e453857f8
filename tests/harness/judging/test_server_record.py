"""The servers' record against the responses, on histories and records written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.harness.core.errors import UsageError
from holdfast.harness.judging.server_record import compared
from holdfast.harness.recording.server_record import RecordEvent
from holdfast.harness.runs import server_record
from holdfast.harness.runs.directory import RunDir
from tests.checkers.shorthand import case
from tests.harness.judging.records import comparison, events, kinds

CALM = "0a?@1 0a+1@2 0r?@3 0r+@4 1a?@3 1a+3@5 1r?@6 1r+@7"
SEEN = "+0@2 -0@4 +1@5 -1@7 !9"


def test_a_correct_lock_has_no_difference() -> None:
    told = comparison(CALM, SEEN)
    assert (told.granted, told.matched, told.total, told.whole) == (2, 2, 0, True)
    assert (told.events, told.holds, told.strangers) == (4, 2, 0)


def test_a_grant_that_the_record_does_not_have() -> None:
    told = comparison(CALM, "+0@2 -0@4 !9")
    assert [one.kind for one in told.differences] == ["granted-not-recorded"]
    assert told.differences[0].sentence == (
        "c1, acquire 1, was granted db, but the record has no such hold"
    )
    assert (told.granted, told.matched, told.uncovered) == (2, 1, 0)


@pytest.mark.parametrize("text", ["+0@2 -0@4 ?4-6 !9", "+0@2 -0@4", "+0@2 -0@4 !4", "?0-9 !9"])
def test_nothing_is_said_of_a_grant_in_a_gap_or_after_the_end_of_the_record(text: str) -> None:
    told = comparison(CALM, text)
    assert told.total == 0
    assert told.uncovered == told.granted - told.matched > 0


def test_a_record_that_ends_early_covers_what_was_done_before_its_last_event() -> None:
    # The hold of c2 was made after its call at 8 s: by then the grant of c1 would be in the record.
    told = "1a?@1 1a+@2 2a?@8 2a+@9"
    assert kinds(told, "+2@9") == ["granted-not-recorded"]


def test_a_grant_before_its_hold_begins() -> None:
    history = "0a?@1 0a+1@2 1a?@3 1a+2@4 0r?@8 0r+@9"
    assert kinds(history, "+0#1@2 +1#2@4 s@7 -0#1@9 !10") == ["granted-early"]
    # Without the bound the end of the first hold may be before the response at 4 s.
    assert kinds(history, "+0#1@2 +1#2@4 -0#1@9 !10") == []


def test_a_refused_acquire_that_holds_afterwards() -> None:
    history = "0a?@1 0a-@2"
    assert kinds(history, "+0@2 !9") == ["refused-but-held"]
    assert kinds(history, "+0@2 s@3 -0@4 !9") == ["refused-but-held"]
    told = comparison(history, "+0@2 -0@4 !9")
    assert (told.total, told.undone) == (0, 1)


def test_a_release_that_the_record_does_not_have() -> None:
    history = "0a?@1 0a+1@2 0r?@3 0r+@4"
    assert kinds(history, "+0@2 !9") == ["released-but-held"]
    assert kinds(history, "+0@2 s@5 -0@6 !9") == ["released-but-held"]
    assert kinds(history, "+0@2 -0@6 !9") == []
    assert kinds(history, "+0@2 s@5 x0@6 !9") == []
    assert kinds(history, "+0@2 !9", release_once=False) == []
    assert kinds(history, "+0@2") == []
    assert kinds(history, "+0@2 ?3-6 =0@6 !9") == ["released-but-held"]
    assert kinds(history, "+0@2 ?3-6 =@6 !9") == []


def test_a_client_that_is_told_not_to_be_the_owner_and_is() -> None:
    assert kinds("0a?@1 0a+1@2 0n?@3 0n!@4", "+0@2 !9") == ["not-owner-but-held"]
    assert kinds("0a?@1 0a+1@2 0n?@3 0n!@4", "+0@2 x0@5 !9") == []


@pytest.mark.parametrize(("call", "kind"), [("n", "renewed-not-held"), ("r", "released-not-held")])
def test_a_call_that_is_acknowledged_after_the_hold_ended(call: str, kind: str) -> None:
    history = f"0a?@1 0a+1/2@2 0{call}?/0.5@6 0{call}+@7"
    assert kinds(history, "+0@2 -0@5 !9") == [kind]
    assert kinds(history, "+0@2 -0@7 !9") == []
    assert kinds(history, "+0@2 -0@5 !9", renew_proves=False, release_proves=False) == []


def test_a_hold_that_ends_before_its_lease_and_without_a_release() -> None:
    history = "0a?@1 0a+1/4@2 0n?@3 0n!@9"
    assert kinds(history, "+0@2 -0@4 !9") == ["lost"]
    assert kinds(history, "+0@2 ?2-4 =@4 !9") == ["lost"]
    assert kinds(history, "+0@2 -0@5 !9") == []
    assert kinds(history, "+0@2 ?2-4 !9") == []
    assert kinds(history, "+0@2 -0@4 !9", slip_ns=2_000_000_000) == []
    assert kinds(history, "+0@2 -0@4 !9", bound="session") == []


def test_a_hold_that_was_renewed_ends_later() -> None:
    assert kinds("0a?@1 0a+1/2@2 0n?@3 0n+/4@4 2a?@9 2a-@9", "+0@2 -0@6 !9") == ["lost"]
    assert kinds("0a?@1 0a+1/2@2 0n?@3 0n+/2@4 2a?@9 2a-@9", "+0@2 -0@6 !9") == []


def test_a_release_or_an_operator_may_have_ended_a_hold() -> None:
    assert kinds("0a?@1 0a+1/9@2 0r?@3 0r~@8", "+0@2 -0@4 !9") == []
    assert kinds("0a?@1 0a+1/9@2 1f?@3 1f+@8", "+0@2 -0@4 !9") == []
    assert kinds("0a?@1 0a+1/9@2 1f?@5 1f+@8", "+0@2 -0@4 !9") == ["lost"]


def test_tokens_that_differ() -> None:
    told = comparison("0a?@1 0a+7@2", "+0@2 !9")
    assert [one.sentence for one in told.differences] == [
        "c0, acquire 1, was granted db with token 7, which is 1 in the record (place 1 in the"
        " record)"
    ]


def test_two_holders_in_the_record_itself() -> None:
    told = comparison("0a?@1 0a+1@2 1a?@1 1a+2@3", "+0@2 +1@3 !9")
    assert "two-holders" in [one.kind for one in told.differences]
    assert "the record gives db to c1 while c0 holds it (place 2)" in [
        one.sentence for one in told.differences
    ]


def test_unknown_outcomes_are_resolved() -> None:
    history = "0a?@1 0a~@2 1a?@2 1a~@3 2a?@3"
    told = comparison(history, "+0@2 x0@4 +2@5 !9")
    assert (told.unknown, told.took_effect, told.no_effect, told.undecided) == (3, 2, 1, 0)
    told = comparison(history, "+0@2 x0@4 +2@5 ?6-7 !9")
    assert (told.unknown, told.took_effect, told.no_effect, told.undecided) == (3, 2, 0, 1)
    assert told.total == 0


def test_holds_of_others_are_counted_and_not_compared() -> None:
    told = comparison("0a?@1 0a+1@2 0r?@3 0r+@4", "+0@2 -0@4 +5@5 !9")
    assert (told.strangers, told.total) == (1, 0)


LINE = b'{"event": "put", "t_ns": 5, "at": 1, "lock": "db", "owner": "1"}'


def test_a_line_is_read_as_it_was_written() -> None:
    assert server_record.parsed(LINE) == RecordEvent(
        event="put", t_ns=5, at=1, lock="db", owner="1"
    )


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[]", "not a JSON object"),
        (b"{", "Expecting"),
        (b'{"event": "put"}', "t_ns is missing"),
        (b'{"event": "own", "t_ns": 5}', "event is 'own'"),
        (b'{"event": "put", "t_ns": "5"}', "t_ns is '5'"),
        (b'{"event": "put", "t_ns": true}', "t_ns is 'True'"),
        (b'{"event": "put", "t_ns": 5, "lock": 7}', "lock is '7'"),
        (b'{"event": "put", "t_ns": -5}', "from_ns is 0, t_ns -5"),
        (b'{"event": "gap", "t_ns": 5, "from_ns": 6}', "from_ns is 6, t_ns 5"),
        (b'{"event": "put", "t_ns": 5, "at": 9e99}', "at is"),
        (b'{"event": "put", "t_ns": 99999999999999999999999}', "t_ns is"),
        (b'{"event": "put", "t_ns": 5, "lock": "' + b"x" * 5000 + b'"}', "more than the limit"),
    ],
)
def test_a_damaged_line_is_refused(line: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        server_record.parsed(line)


def test_a_damaged_record_is_said_and_changes_nothing_else(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    assert compared(run, case(CALM)) is None
    run.server_record.write_bytes(LINE + b'\n{"event": 5}\n')
    told = compared(run, case(CALM))
    assert told is not None
    assert told.problem.endswith("server-record.jsonl, line 2: damaged: t_ns is missing")
    assert told.total == told.matched == 0
    with pytest.raises(UsageError):
        list(server_record.events(run))


def test_an_incomplete_last_line_is_not_read(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    run.server_record.write_bytes(LINE + b'\n{"event": "pu')
    assert len(list(server_record.events(run))) == 1


def test_every_kind_of_event_has_a_word() -> None:
    told = [one.event for one in events("+0@1 -0@2 ?2-3 =0@3 s@3 !4")]
    assert told == ["put", "gone", "gap", "state", "seen", "ended"]
