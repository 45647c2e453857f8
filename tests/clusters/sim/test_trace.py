"""Traces of the reference service: its own are allowed, those of planted bugs are not."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

import pytest

from holdfast.catalogue.mutants import MUTANTS
from holdfast.clusters.systems.reference.locks.state import Session
from holdfast.clusters.systems.reference.service import tracing
from holdfast.clusters.systems.reference.specification import trace
from holdfast.clusters.systems.reference.specification.replication import Departs, Replication
from holdfast.clusters.systems.reference.specification.validation import validate
from holdfast.engine.seed_search import one_seed
from holdfast.harness.verdicts.judged import Departure
from tests.clusters.sim.longer import one_longer
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]
SEEDS = 20


def departure(name: str, seed: int) -> Departure | None:
    """Of one seed with a planted bug."""
    return one_seed(seed, MUTANTS[name].system, {"mutant": name}, validated=True).departure


@pytest.mark.parametrize("system", ["reference", "chubby"])
@pytest.mark.parametrize("seed", range(40, 48))
def test_every_step_of_the_service_is_allowed(system: str, seed: int) -> None:
    ran = one_seed(seed, system, {}, validated=True)
    assert ran.departure is None
    assert ran.steps > 100


def test_a_leader_that_was_deposed_and_elected_again_begins_its_times_anew() -> None:
    assert one_longer(700826, 3, validated=True).departure is None


def test_a_leader_of_an_earlier_term_need_not_have_what_a_later_one_committed() -> None:
    assert one_longer(309505, 5, validated=True).departure is None


def test_nor_what_a_later_one_committed_of_an_earlier_term() -> None:
    assert one_seed(1105402, "reference", {}, validated=True).departure is None


def _led(log: Replication, node: str, term: int, first: int, voters: str) -> None:
    """A node takes the vote of each voter for a term, and saves the entry that opens it."""
    for voter in voters.split():
        ballot = trace.Save(what="ballot", term=term, vote=node)
        ends = log.disk(node).last, log.disk(node).at(log.disk(node).last)
        ask = trace.Said(what="ask-vote", to="", term=term, at=ends[0], at_term=ends[1])
        give = trace.Said(what="give-vote", to=node, term=term)
        _step(log, voter, (ballot,), (ask,) if voter == node else (give,))
    _step(log, node, (trace.Save(what="entries", first=first, entries=((term, None),)),))


def _step(
    log: Replication,
    node: str,
    saves: tuple[trace.Save, ...],
    said: tuple[trace.Said, ...] = (),
    committed: tuple[tuple[int, int], ...] = (),
) -> None:
    log.step(trace.Step(node, 0, 0, False, saves, said, committed, (), (), ()))


@pytest.mark.parametrize("committed_in", [1, 3])
def test_a_leader_has_what_was_committed_in_earlier_terms_only(committed_in: int) -> None:
    log = Replication(3)
    _led(log, "n1", 1, 1, "n1 n2")
    entry = trace.Save(what="entries", first=1, entries=((1, None),))
    if committed_in == 1:
        _step(log, "n2", (entry,))
        _step(log, "n1", (), (), ((1, 1),))
    # n3 has the votes of term 2 before n1 leads term 3, and makes its first entry only then.
    for node in ("n3", "n2"):
        log.given[2, node] = "n3"
        _step(log, node, (trace.Save(what="ballot", term=2, vote="n3"),))
    if committed_in == 3:
        _led(log, "n1", 3, 2, "n1 n2")
        _step(log, "n2", (trace.Save(what="entries", first=1, entries=((1, None), (3, None))),))
        _step(log, "n1", (), (), ((1, 1), (2, 3)))
    late = (trace.Save(what="entries", first=1, entries=((2, None),)),)
    if committed_in == 3:
        _step(log, "n3", late)
        return
    with pytest.raises(Departs) as found:
        _step(log, "n3", late)
    assert found.value.rule == "a new leader has all that is committed"


def test_a_node_that_gets_three_snapshots_at_once_is_allowed() -> None:
    assert one_longer(2454, 6, validated=True).departure is None


@pytest.mark.parametrize(
    ("name", "workload", "seed", "rule"),
    [
        ("counted-old-terms", "", 39, "a leader counts copies of entries of its own term only"),
        ("names-first", "", 68, "the locks after entry"),
    ],
)
def test_what_no_client_sees_departs(name: str, workload: str, seed: int, rule: str) -> None:
    ran = one_seed(seed, "reference", {"mutant": name}, workload, validated=True)
    assert ran.departure is not None and ran.departure.rule.startswith(rule)
    assert not ran.alarms and not ran.problems
    assert ran.found.startswith("departs from the specification")
    assert one_seed(seed, "reference", {"mutant": name}, workload).found == ""


def test_a_session_that_counts_a_hold_too_many_departs(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Session.dump

    def dump(self: Session) -> list[Any]:
        number, ttl_ns, beat, done, busy, answers = usual(self)
        return [number, ttl_ns, beat, done, busy + 1, answers]

    monkeypatch.setattr(Session, "dump", dump)
    ran = (one_seed(seed, "reference", {}, validated=True) for seed in range(1, 1 + SEEDS))
    found = next(filter(None, (one.departure for one in ran)))
    assert found.rule == "a session counts its holds and waits"
    assert found.allows != found.happened


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "first", "rule"),
    [
        ("unsaved-vote", 1, "a vote is saved before it is given"),
        ("small-quorum", 1, "a quorum is a majority of the servers"),
        ("blind-vote", 8, "a vote goes to a log that is not behind"),
        ("lone-commit", 1, "an entry is committed once a majority has it on disk"),
        ("late-disk", 1, "an acknowledged entry is on the disk"),
        ("token-reset", 1, "a snapshot has the whole table"),
        ("forgotten-answers", 1, "a snapshot has every session and its answers"),
        ("lost-wake-up", 14, "the locks after entry"),
        ("zombie-waiter", 7, "the locks after entry"),
        ("taken-twice", 18, "the answer to entry"),
        ("early-expiry", 3, "an end is decided when its time has passed"),
        ("wall-clock", 1, "an end is decided when its time has passed"),
        ("endless-lease", 3, "an end is decided in the first step after its time"),
        ("age-since-renewal", 5, "the age of a hold counts from its grant"),
        ("wrong-reason", 5, "a notice tells what an applied command did"),
    ],
)
def test_a_planted_bug_departs_in_the_terms_of_the_rule(name: str, first: int, rule: str) -> None:
    # `first` departs today. The next ones are for a day on which seeds have other histories.
    found = next(filter(None, (departure(name, seed) for seed in range(first, first + SEEDS))))
    assert found.rule.startswith(rule)
    assert found.node.startswith("n")
    assert found.before and found.allows != found.happened


@pytest.mark.slow
def test_without_a_trace_nothing_of_it_is_executed() -> None:
    file, met = tracing.__file__, list[str]()

    def seen(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename == file:
            met.append(frame.f_code.co_name)

    one_seed(3, "reference", {})
    sys.setprofile(seen)
    try:
        one_seed(3, "reference", {})
        assert not met
        one_seed(3, "reference", {}, validated=True)
        assert met
    finally:
        sys.setprofile(None)


@pytest.mark.slow
def test_a_trace_changes_nothing_of_the_run() -> None:
    plain, told = (one_seed(5, "reference", {}, validated=on) for on in (False, True))
    assert (plain.digest, plain.events) == (told.digest, told.events)


# The rules about the log, one step each


def saved(node: str, *saves: trace.Save, **more: object) -> trace.Step:
    given: Mapping[str, object] = {"said": (), "committed": (), "done": (), **more}
    rest = (given[name] for name in ("said", "committed", "done"))
    return trace.Step._make([node, 1, 1, False, saves, *rest, (), ()])


def voted(node: str, candidate: str, term: int = 1) -> trace.Step:
    said = trace.Said("give-vote", candidate, term)
    return saved(node, trace.Save("ballot", term, candidate), said=(said,))


def stood(node: str, term: int = 1, last: tuple[int, int] = (0, 0)) -> trace.Step:
    said = trace.Said("ask-vote", "n2", term, at=last[1], at_term=last[0])
    return saved(node, trace.Save("ballot", term, node), said=(said,))


def wrote(node: str, first: int, *terms: int, **more: object) -> trace.Step:
    entries = tuple((term, None) for term in terms)
    return saved(node, trace.Save("entries", first=first, entries=entries), **more)


ELECTED = (stood("n1"), voted("n2", "n1"), wrote("n1", 1, 1))


def rule(*events: trace.Event) -> str:
    found = validate(events, nodes=3, options={})
    return found.rule if found else ""


def test_an_election_and_a_commit_are_allowed() -> None:
    applied = trace.Applied(1, {"is": "noop"}, {})
    assert not rule(
        *ELECTED,
        wrote("n2", 1, 1, said=(trace.Said("has", "n1", 1, 1),)),
        saved("n1", committed=((1, 1),), done=(applied,)),
        saved("n2", committed=((1, 1),)),
    )


@pytest.mark.parametrize(
    ("broken", "events"),
    [
        ("one vote per term", (stood("n1"), voted("n2", "n1"), voted("n2", "n3"))),
        ("a vote is saved", (stood("n1"), saved("n2", said=(trace.Said("give-vote", "n1", 1),)))),
        ("a leader has the votes", (stood("n1"), wrote("n1", 1, 1))),
        ("one leader per term", (*ELECTED, wrote("n2", 1, 1, 1))),
        ("a log has no gaps", (*ELECTED, wrote("n2", 2, 1))),
        ("an acknowledged entry", (*ELECTED, saved("n2", said=(trace.Said("has", "n1", 1, 1),)))),
        ("an entry is committed once", (*ELECTED, saved("n1", committed=((1, 1),)))),
        (
            "a leader counts copies of entries of its own term",
            (*ELECTED, wrote("n2", 1, 1), stood("n1", 2, (1, 1)), saved("n1", committed=((1, 1),))),
        ),
        (
            "a vote goes to a log that is not behind",
            (*ELECTED, wrote("n2", 1, 1), stood("n3", 2), voted("n2", "n3", 2)),
        ),
        (
            "entries are applied in order",
            (
                *ELECTED,
                wrote("n1", 2, 1),
                wrote("n2", 1, 1, 1),
                saved("n1", committed=((2, 1),)),
            ),
        ),
        (
            "committed commands are applied once",
            (*ELECTED, wrote("n2", 1, 1, done=(trace.Applied(1, {"is": "noop"}, {}),))),
        ),
        (
            "a committed entry stays",
            (
                *ELECTED,
                wrote("n2", 1, 1),
                saved("n1", committed=((1, 1),)),
                stood("n3", 2),
                saved("n2", trace.Save("entries", first=1)),
            ),
        ),
    ],
)
def test_a_step_against_a_rule_is_refused(broken: str, events: tuple[trace.Event, ...]) -> None:
    assert not rule(*events[:-1])
    assert rule(*events).startswith(broken)


def test_a_node_that_was_away_may_load_several_snapshots_in_one_step() -> None:
    others = (
        *ELECTED,
        wrote("n1", 2, 1, 1, 1),
        wrote("n2", 1, 1, 1, 1, 1),
        saved("n1", committed=((1, 1), (2, 1), (3, 1), (4, 1))),
    )
    loads = [trace.Save("all", term=1, base=base, base_term=1) for base in (2, 4)]
    assert not rule(*others, saved("n3", *loads, committed=((2, 1), (4, 1))))
    for few, taken in ((loads[1:], ((2, 1), (4, 1))), (loads, ((3, 1), (4, 1)))):
        assert rule(*others, saved("n3", *few, committed=taken)) == "entries are applied in order"


# In the command


def test_a_departure_has_a_section_of_its_own_and_is_no_violation(capsys: Capture) -> None:
    words = ("sim", "--mutant", "unsaved-vote", "--seeds", "2", "-j", "1")
    said = holdfast(capsys, *words)
    assert said.code == 1
    assert "departs from the specification" in said.out.splitlines()[0]
    assert "the implementation departs from its specification in 1 of 1 seeds" in said.out
    assert "  again: holdfast sim --mutant unsaved-vote --first-seed 1 --seeds 1" in said.out
    told = json.loads(holdfast(capsys, *words, "--json").out)
    assert [row["rule"] for row in told["departures"]] == ["a vote is saved before it is given"]
    assert told["alarms"] == [] and told["steps"] > 100
    off = holdfast(capsys, *words, "--no-trace", "--json")
    assert off.code == 3
    assert json.loads(off.out)["departures"] == [] and json.loads(off.out)["steps"] == 0
