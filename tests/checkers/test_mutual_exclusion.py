"""Mutual exclusion: what convicts a lock, and what only looks as if it did."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from holdfast.checkers.holds.derive import attempts
from holdfast.checkers.properties import mutual_exclusion, token_order
from holdfast.harness.core.case import History
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import NO_TOKEN, Op, Status, attempt_id
from holdfast.harness.core.verdict import PropertyVerdict, Verdict
from tests import needs
from tests.checkers.faults import window
from tests.checkers.shorthand import case, history, table

ETCD = Path(__file__).parents[3] / "shared" / "histories" / "knossos" / "mutex" / "bad" / "etcd.edn"
ONLY_RELEASE = {"bound": "none", "tokens": "none"}


def judged(text: str, **changes: Any) -> PropertyVerdict:
    """The verdict on a history."""
    return mutual_exclusion.check(case(text, **changes))


def kinds(verdict: PropertyVerdict) -> list[str]:
    """The kinds of its findings, in order."""
    return [finding.kind for finding in verdict.findings]


def test_one_owner_after_the_other_holds() -> None:
    assert judged("0a? 0a+7 1a? 0r? 0r+ 1a+8 1r? 1r+").verdict is Verdict.HOLDS


def test_where_nobody_waited_nothing_is_said() -> None:
    verdict = judged("0a? 0a+7 0r? 0r+ 1a? 1a+8 1r? 1r+")
    assert verdict.verdict is Verdict.UNKNOWN
    assert verdict.reason.startswith(
        "no acquire waited: 0 of 2; no other client asked during a hold"
    )


def test_a_grant_amid_a_proved_hold_is_a_double_grant() -> None:
    verdict = judged("0a? 0a+7 1a? 1a+8 0n? 0n+")
    assert verdict.verdict is Verdict.VIOLATED
    (finding,) = verdict.findings
    assert finding.kind == "double-grant"
    assert finding.witnesses == (0, 2, 1)
    assert finding.sentence == (
        "c1 was granted 'db' (token 8) at 3.000 s while c0 (token 7) still held it: c0's renewal,"
        " sent at 4.000 s, returned ok, so it had held without interruption since 1.000 s"
    )


def test_a_grant_inside_a_promised_lease_is_a_broken_lease() -> None:
    verdict = judged("0a? 0a+7 0n?@2 0n+ 1a?@5 1a+8 1r? 1r+")
    (finding,) = verdict.findings
    assert finding.kind == "broken-lease"
    assert finding.sentence == (
        "c1 was granted 'db' (token 8) at 6.000 s while c0 (token 7) still held it: c0's lease of"
        " 10.000 s, renewed at 2.000 s, could not end before 12.000 s"
    )
    assert finding.spans == (
        (SECOND, 8 * SECOND, "c0 (token 7)", 0),
        (6 * SECOND, 7 * SECOND, "c1 (token 8)", 2),
    )


def test_a_grant_just_as_the_lease_ends_is_right() -> None:
    assert kinds(judged("0a? 0a+7 1a?@9 1a+8@10")) == []
    assert kinds(judged("0a? 0a+7 1a?@9 1a+8@9.999")) == ["broken-lease"]


def test_clock_error_between_writers_excuses_an_overlap() -> None:
    text = "0a? 0a+7 1a?@8 1a+8@9"
    assert kinds(judged(text)) == ["broken-lease"]
    assert kinds(judged(text, error_ns=SECOND)) == []


def test_two_claims_convict_only_where_nothing_but_a_release_frees_the_lock() -> None:
    text = "0a? 0a+ 1a?@20 1a+ 0r? 0r!"
    assert kinds(judged(text, promises={"tokens": "none"})) == []
    verdict = judged(text, promises=ONLY_RELEASE)
    assert kinds(verdict) == ["double-holder"]
    assert "c0 released it only at 22.000 s, and nothing else frees" in verdict.findings[0].sentence


def test_a_paused_owner_who_still_believes_is_a_note_and_no_violation() -> None:
    verdict = judged("0a? 0a+7 1a? 1a+8@20 0r?@23 0r! 1r? 1r+")
    assert verdict.verdict is Verdict.HOLDS
    (note,) = verdict.notes
    assert note.kind == "stale-belief"
    assert "c0 still acted as owner of 'db' 3.000 s after c1 was granted it" in note.sentence


def test_tokens_alone_convict_nobody_of_two_owners_at_once() -> None:
    """c0's answer came late, after c1's hold: either its token is wrong, or both held at once."""
    text = "0a? 1a? 1a+8 0a+7 0n? 0n+"
    assert kinds(judged(text, promises={"bound": "connection", "tokens": "none"})) == []
    verdict = judged(text, promises={"bound": "connection"})
    assert (verdict.verdict, verdict.findings) == (Verdict.UNKNOWN, ())
    assert verdict.reason.startswith(
        "the tokens of 'db' are out of order, or two held it at once: token 7 was still"
        " held after token 8 was granted"
    )
    (finding,) = token_order.check(case(text, promises={"bound": "connection"})).findings
    assert finding.kind == "token-inversion"
    assert finding.sentence.endswith("its token is out of order, or both held at once")


def test_tokens_tell_nothing_where_their_order_is_not_promised() -> None:
    """A server that counts anew after its death: the simulator found it, seed 10067 of `single`."""
    text = "0a? 1a? 1a+8 0a+7 0n? 0n+"
    promises = {"bound": "connection", "keeps": {"token-order": ("pause",)}}
    paused = judged(text, promises=promises, windows=(window("pause", "n1", 0, 1),))
    assert "the tokens of 'db' are out of order" in paused.reason
    killed = judged(text, promises=promises, windows=(window("kill", "n1", 0, 1),))
    assert "tokens" not in killed.reason and killed.findings == ()


def test_tokens_that_contradict_the_order_of_grants_prove_nothing() -> None:
    text = "0a? 1a? 1a+8 0a+7 0n? 0n+ 0r? 0r+ 2a? 2a+1 2r? 2r+"
    assert kinds(judged(text, promises={"bound": "connection"})) == []


def test_tokens_that_contradict_the_order_of_grants_do_not_say_who_came_first() -> None:
    """A counter that began again: c1 came into the hold of c0, whatever their tokens say."""
    text = "0a?@1 0a+40@2 1a?@4 1a+4@5 0n?@6 0n+@6.5 1n?@7 1n+@7.5 0r?@8 0r+@8.5 1r?@9 1r+@9.5"
    (finding,) = judged(text).findings
    assert finding.kind == "double-grant"
    told = "c1 was granted 'db' (token 4) at 5.000 s while c0 (token 40)"
    assert finding.sentence.startswith(told)


def test_a_grant_to_an_attempt_that_had_been_told_its_loss_is_dead() -> None:
    text = "0a? 0L 1a?@5 1a+7 1r? 1r+ 0a+8"
    assert kinds(judged(text)) == ["dead-grant"]
    assert kinds(judged(text, promises={"order": "racing"})) == []


def test_a_grant_after_a_hold_that_was_proved_past_the_notice_is_dead() -> None:
    text = "0a? 0a+7 1a? 1L 0n? 0n+ 0r? 0r+ 1a+8"
    verdict = judged(text)
    assert kinds(verdict) == ["dead-grant"]
    assert "the smaller token 7 was still held at" in verdict.findings[0].sentence
    assert kinds(judged("0a? 0a+7 1a? 0r? 0r+ 1L 1a+8")) == [], "the answer may just be late"
    shared = case(text)
    shared.history.rows["mode"] = 1
    assert mutual_exclusion.check(shared).findings == (), "readers hold together"


def test_an_unanswered_acquire_that_was_renewed_amid_another_hold_convicts() -> None:
    verdict = judged("0a? 0a+7 1a? 1a~ 1n? 1n+ 0n? 0n+", promises={"tokens": "none"})
    assert kinds(verdict) == ["double-grant"]
    assert "though its acquire had no response" in verdict.findings[0].sentence


def test_readers_share() -> None:
    told = case("0a? 0a+7 1a? 1a+8 0n? 0n+")
    told.history.rows["mode"] = 1
    assert mutual_exclusion.check(told).findings == ()


def test_a_log_with_a_hole_still_convicts_by_what_is_in_it() -> None:
    hole = ["writer c1: rows 3 to 5 are missing"]
    proved = mutual_exclusion.check(case(history("0a? 0a+7 1a? 1a+8 0n? 0n+", problems=hole)))
    assert proved.verdict is Verdict.VIOLATED
    lease = mutual_exclusion.check(case(history("0a? 0a+7 1a? 1a+8", problems=hole)))
    assert lease.verdict is Verdict.UNKNOWN


def test_every_grant_into_a_hold_is_its_own_finding() -> None:
    verdict = judged("0a? 0a+7 1a? 1a+8 1r? 1r+ 2a? 2a+9 0n? 0n+ 0r? 0r+ 2r? 2r+")
    assert kinds(verdict) == ["double-grant", "double-grant"]


def test_releases_that_found_no_lease_do_not_show_that_it_was_held() -> None:
    told = etcd()
    verdict = mutual_exclusion.check(told)
    assert (verdict.verdict, verdict.findings) == (Verdict.HOLDS, ())
    assert sum(attempt.certain is not None for attempt in attempts(told)) == 132


def etcd() -> Any:
    """A recorded history of a lease lock without tokens, whose leases we do not know."""
    functions = {"acquire": Op.ACQUIRE, "release": Op.RELEASE}
    word = r":type :(\w+), :f :(\w+), :process (\d+), :time (\d+)"
    rows: list[dict[str, int]] = []
    open_calls: dict[str, dict[str, int]] = {}
    attempt: dict[str, int] = {}
    held: dict[str, int] = {}
    for kind, function, process, time in re.findall(word, needs.file(ETCD).read_text()):
        if kind == "invoke":
            if function == "acquire":
                attempt[process] = attempt.get(process, 0) + 1
            row = {
                "f": functions[function],
                "process": int(process),
                "attempt": attempt_id(
                    int(process), (attempt if function == "acquire" else held).get(process, 0)
                ),
                "key": 1,
                "token": NO_TOKEN,
                "t_inv": int(time),
                "status": Status.INVOKED,
            }
            rows.append(row)
            open_calls[process] = row
        else:
            row = open_calls.pop(process)
            outcome = {"ok": Status.OK, "info": Status.INFO}.get(kind, Status.FAIL)
            refused = outcome is Status.FAIL and function == "release"
            row["status"] = Status.NOT_OWNER if refused else outcome
            if function == "acquire" and outcome is not Status.FAIL:
                held[process] = attempt[process]
            row["t_ret"] = int(time)
    told = History(rows=table(rows), strings=("", "lock"), writers=("jepsen",))
    return case(told, promises={"tokens": "none", "release_once": False})


UNCONDITIONAL = {"tokens": "none", "order": "racing"}
"""A lock whose releases are answered ok, whoever has it: 0's lease of 2 s is over when 1 is
granted, 0's late release frees 1's hold, and 2 is granted it."""
LATE_RELEASE = "0a? 0a+/2@1 1a?@4 1a+@5 0r?@6 0r+@7 2a?@8 2a+@8.5 1r?@9 1r+@10 2r? 2r+"


def test_a_release_that_freed_another_hold_is_named_before_the_grant_that_took_it() -> None:
    first, second = judged(LATE_RELEASE, promises=UNCONDITIONAL).findings
    assert (first.kind, first.cause) == ("double-grant", "late-release")
    assert first.sentence.startswith(
        "c0's release of 'db', sent at 6.000 s, returned ok and may have freed a hold that was not"
        " its own: c0's lease of 2.000 s, requested at 0.000 s, may have expired before the next"
        " grant. If not, c1 was granted 'db' at 5.000 s while c0 still held it:"
    )
    assert (second.kind, second.cause) == ("double-grant", "foreign-release")
    assert second.sentence.startswith(
        "c0's release of 'db', sent at 6.000 s, returned ok and freed a hold that was not its own:"
        " c1 had been granted the lock by 5.000 s. So c2 was granted 'db' at 8.500 s while c1"
    )
    assert second.witnesses == (0, 2, 1, 4, 3)


def test_a_lease_broken_by_a_foreign_release_names_it_too() -> None:
    deaf = {**UNCONDITIONAL, **dict.fromkeys(("release_proves", "release_once"), False)}
    (finding,) = judged(LATE_RELEASE, promises=deaf).findings
    assert (finding.kind, finding.cause) == ("broken-lease", "foreign-release")


def test_the_owner_of_a_lease_that_runs_on_is_not_blamed_for_its_release() -> None:
    """0's lease of 30 s cannot be over: 1's grant is the mistake, whatever 0 released."""
    own = LATE_RELEASE.replace("0a+/2", "0a+/30")
    found = judged(own, promises=UNCONDITIONAL).findings
    assert [(f.kind, f.cause) for f in found] == [("double-grant", "")] * 2
    renewed = "0a? 0a+/2@1 1a?@4 1a+@5 0n?@5.5 0n+/9@5.8 0r?@6 0r+@7"
    assert [f.cause for f in judged(renewed, promises=UNCONDITIONAL).findings] == [""]


def test_a_release_before_the_grant_that_was_met_frees_nothing_of_it() -> None:
    early = "0a? 0a+/2@1 0r?@3 0r+@3.5 1a?@4 1a+@5 2a?@8 2a+@8.5 1r?@9 1r+@10"
    assert [f.cause for f in judged(early, promises=UNCONDITIONAL).findings] == [""]


@pytest.mark.parametrize(("session", "found"), [(7, ["broken-lease"]), (8, [])])
def test_a_session_that_ended_unnoticed_is_not_kept_alive_by_the_next_one(
    session: int, found: list[str]
) -> None:
    told = history("0h?@0 0h+/5@0.1 0a?@1 0a+7@1.1 1a?@8 1a+8@8.1 0h?@9 0h+/5@9.1 0q?@20 0q+8@21")
    beats = np.flatnonzero(told.rows["f"] == Op.HEARTBEAT)
    told.rows["arg"][beats] = 7, session
    given = case(told, promises={"bound": "session", "tokens": "none"})
    assert kinds(mutual_exclusion.check(given)) == found
