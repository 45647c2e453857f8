"""A mistake that one checker has made is made by none of the others.

Each test changes histories so that they allow more than before, or that an assumption falls, and
puts them before every checker: what was no violation stays none.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from holdfast import catalogue
from holdfast.checkers.holds import contradictions, token_order
from holdfast.checkers.holds.statements import FIFO, RELEASES, RENEWALS, TOKENS, UNIQUE
from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status, Terms
from tests.checkers.correct_services.histories import case_of, tell
from tests.checkers.correct_services.kinds import SERVICES, Service
from tests.checkers.correct_services.world import Faults
from tests.checkers.examples import Specimen
from tests.checkers.neighbours import ASKS, MOMENTS, SERVED, in_order
from tests.checkers.shorthand import case, history, on
from tests.checkers.test_assumptions import CONTRADICTED
from tests.draws import Draws
from tests.harness.verification.specimens import SPECIMENS
from tests.harness.verification.test_forged import INNOCENT, calm

CHECKERS = {prop: load(entry) for prop, entry in catalogue.CHECKERS.items()}
ANSWERS = (Status.OK, Status.FAIL, Status.NOT_OWNER)


def violated(given: Case) -> set[tuple[str, str]]:
    """Properties that are violated, with the kinds of their findings."""
    return {(prop, f.kind) for prop, check in CHECKERS.items() for f in check(given).findings}


def correct(service: Service) -> Case:
    """One history of a correct service."""
    return case_of(service, [tell(service, "siblings", Faults(), 0)], Faults())


# What may have happened is not certain.


def unanswered(given: Case) -> Iterator[Case]:
    """Each answer in turn is lost: what it said may have happened at any time, or never."""
    rows = given.history.rows
    told = np.isin(rows["status"], ANSWERS) & ~np.isin(rows["f"], (*SERVED, *MOMENTS))
    for at in np.flatnonzero(told):
        lost = rows.copy()
        lost["status"][at], lost["res"][at] = Status.INFO, 0
        if lost["f"][at] in ASKS:
            lost["token"][at] = NO_TOKEN
        yield in_order(given, lost)


def with_row(given: Case, **columns: int) -> Case:
    """The case with a call that its client gave up at once, by a writer of its own."""
    rows = np.zeros(len(given.history.rows) + 1, given.history.rows.dtype)
    rows[:-1] = given.history.rows
    told = {"status": Status.INFO, "token": NO_TOKEN, "writer": len(given.history.writers)}
    for column, value in {**told, "t_ret": columns["t_inv"] + 1, **columns}.items():
        rows[column][-1] = value
    writers = (*given.history.writers, "another")
    nodes = {**given.nodes, 99: "another"}
    more = replace(given, history=replace(given.history, writers=writers), nodes=nodes)
    return in_order(more, rows)


def unlocked(given: Case) -> Iterator[Case]:
    """An operator ends whatever holds, at each time of the history, and has no answer."""
    rows = given.history.rows
    for n, t_ns in enumerate(np.unique(rows["t_inv"]).tolist()):
        key = int(rows["key"][np.isin(rows["f"], ASKS)][0])
        yield with_row(given, f=Op.FORCE_UNLOCK, process=99, key=key, t_inv=t_ns + n % 2)


def renewed(given: Case) -> Iterator[Case]:
    """Each holder asks for a lease of a second, or of a day, and has no answer."""
    rows = given.history.rows
    for at in np.flatnonzero(np.isin(rows["f"], ASKS) & (rows["status"] == Status.OK)):
        one = rows[at]
        mine = (rows["attempt"] == one["attempt"]) & (rows["f"] == Op.RELEASE)
        until = int(rows["t_inv"][mine].min(initial=int(one["t_ret"]) + SECOND))
        for t_ns in (int(one["t_ret"]) + 1, until):
            same = {name: int(one[name]) for name in ("process", "attempt", "key", "token")}
            for ttl_ns in (SECOND, 86_400 * SECOND):
                yield with_row(given, f=Op.RENEW, t_inv=t_ns, arg=ttl_ns, **same)


DOUBTS = (unanswered, unlocked, renewed)


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: doubt.__name__)
@pytest.mark.parametrize("innocent", INNOCENT, ids=lambda one: one[0][:60])
def test_no_checker_takes_what_may_have_happened_for_certain(innocent: Any, doubt: Any) -> None:
    given = calm(*innocent)
    assert violated(given) == set()
    for n, more in enumerate(doubt(given)):
        assert violated(more) == set(), n


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: doubt.__name__)
@pytest.mark.parametrize("service", SERVICES, ids=lambda one: one.name)
def test_the_same_for_histories_of_correct_services(
    service: Service, doubt: Any, draws: Draws
) -> None:
    given = correct(service)
    before = violated(given)
    doubtful = list(doubt(given))
    chosen = random.Random(1).sample(doubtful, min(12, len(doubtful)))
    for n, more in enumerate(chosen[: draws(12)]):
        assert violated(more) <= before, n


# Holds within holds, and holds of no length.

AGAIN = Terms(reenter=True)
READER = Terms(mode=Mode.SHARED)
SHORT: tuple[tuple[str, tuple[Terms, ...]], ...] = (
    # Re-entered and left again, while others wait, ask who holds, and come next.
    ("0a? 0a+1 1a? 1Q 0a? 0a+1 2q? 2q+1=0 0.2r? 0.2r+=1 0.1r? 0.1r+=0 1a+2 1r? 1r+", (AGAIN,)),
    ("0a? 0a+1 0a? 0a+1 1t? 1t- 0.2r? 0.2r+ 1t? 1t- 0w? 0S+ 0w+ 0.1r? 0.1r+ 1t? 1t+2", (AGAIN,)),
    ("0a? 0a+1 0a? 0a~ 0.1n? 0.1n+ 1a? 1Q 0.1r? 0.1r+ 1a+2 1r? 1r+", (AGAIN,)),
    # Given back in the moment in which it was known; two such holds in one moment.
    ("0a?@0 0a+1@1 0r?@1 0r+@2 1a?@1 1a+2@2 1r?@2 1r+@3 9p?@4 9p+3@5", ()),
    ("0a?@0 1a?@0 0a+1@2 0r?@2 1a+2@2 1r?@2 0r+@3 1r+@3 2q?@4 2q+@5 2l?@5 2l+=0@6", ()),
    ("0a?@0 1a?@0 0a+1@2 1a+1@2 0r?@2 1r?@2 0r+@3 1r+@3 2a?@4 2a+2@5", (READER, READER)),
    # A lease of no time left: renewed in its last moment, and lost in it.
    ("0a?@0 0a+1/2@1 0n?@2 0n+/2@2 1a?@2 1a+2@4 0L@4 1r?@5 1r+@6", ()),
)


@pytest.mark.parametrize("short", SHORT, ids=lambda one: one[0][:60])
def test_no_checker_stumbles_over_re_entry_or_holds_of_no_length(short: Any) -> None:
    text, terms = short
    assert violated(case(on(history(text), *terms))) == set()


# An assumption that the run contradicts.

UNDECLARED: dict[str, tuple[dict[str, Any], set[str]]] = {
    # assumption: promises without it, and the properties, or kinds of finding, that it is
    TOKENS: (
        {"tokens": "none"},
        {"token-order", "token-after-power-loss", "token-after-operation"},
    ),
    UNIQUE: ({"tokens_unique": False}, {"token-order"}),
    RENEWALS: ({"renew_proves": False}, {"ownership", "revived-hold"}),
    RELEASES: (
        {"release_proves": False, "release_once": False},
        {"ownership", "revived-hold"},
    ),
    FIFO: ({"order": "racing"}, {"bounded-bypass", "bounded-wait"}),
}


def later(text: str, by_s: int = 1000) -> str:
    """The same words of other clients, so much later, with larger tokens."""
    text = re.sub(r"\+(\d+)", lambda m: f"+{int(m[1]) + 100}", text)
    words = [re.sub(r"@([\d.]+)", lambda m: f"@{float(m[1]) + by_s}", w) for w in text.split()]
    words[0] += "" if "@" in words[0] else f"@{by_s}"
    return " ".join(re.sub(r"^(\d+)", lambda m: str(int(m[1]) + 20), word) for word in words)


def contradicting(assumption: str, specimen: Specimen) -> Iterator[Case]:
    """A violation, followed by rows that contradict an assumption."""
    for text in (t for t, (name, _) in CONTRADICTED.items() if name == assumption and "~" not in t):
        given = replace(specimen, text=f"{specimen.text} {later(text)}").case()
        if any(assumption in told for told in contradictions.fallen(given).values()):
            yield replace(given, memo={})


def only_with(assumption: str, given: Case) -> set[tuple[str, str]]:
    """What is found of other properties only by a promise that the run contradicts."""
    without, own = UNDECLARED[assumption]
    plain = replace(given, promises=replace(given.promises, **without), memo={})
    return {one for one in violated(given) - violated(plain) if own.isdisjoint(one)}


def relies_on_nothing(assumption: str, cases: Iterable[Case]) -> None:
    for given in cases:
        assert only_with(assumption, given) == set()


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda one: one.rule)
@pytest.mark.parametrize("assumption", UNDECLARED)
def test_no_checker_relies_on_what_the_run_contradicts(
    assumption: str, specimen: Specimen, draws: Draws
) -> None:
    every = list(contradicting(assumption, specimen))
    chance = random.Random(f"{assumption} {specimen.rule}")
    relies_on_nothing(assumption, chance.sample(every, draws(len(every))))


@pytest.mark.parametrize("assumption", UNDECLARED)
def test_a_checker_that_relied_on_it_would_be_seen(
    assumption: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here, or by the verifier, which is asked about every finding."""
    cases = [given for one in SPECIMENS for given in contradicting(assumption, one)]
    monkeypatch.setattr(contradictions, "against", lambda case, name: {})
    monkeypatch.setattr(token_order, "against_order", lambda case: {})
    with pytest.raises(AssertionError):
        relies_on_nothing(assumption, cases)
