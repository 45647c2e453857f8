"""Server records short enough to read: `record("+0@1 -0@2 !5")`.

Words stand for events of the lock db, in the order of their places 1, 2, ...; `@` says when each
was read, in seconds.

+0@1     an entry of process 0's first attempt (`+0.2@1`: of its second); `#7`: with this rank
-0@2     it is deleted; `x0@2`: its lease was over by then
=0@3     what the lock has after a gap; `=@3`: nothing
s@1      what comes later in the record was done after that time
?2-3     a gap from 2 s to 3 s
!5       everything until 5 s is in the record
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.harness.core.case import Case
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.operations import attempt_id
from holdfast.harness.judging.recorded_holds import RecordedHolds, derived
from holdfast.harness.judging.server_record import attempts_of, compare
from holdfast.harness.recording.server_record import (
    ENDED,
    EXPIRED,
    GAP,
    GONE,
    PUT,
    SEEN,
    STATE,
    RecordEvent,
)
from holdfast.harness.verdicts.judged import ServerRecord
from tests.checkers.shorthand import case

KINDS = {"+": PUT, "-": GONE, "x": GONE, "=": STATE, "s": SEEN}
WORD = re.compile(
    r"(?P<kind>[-+x=s])((?P<process>\d+)(\.(?P<n>\d+))?)?(#(?P<rank>\d+))?@(?P<at>.+)"
)


def events(text: str) -> Iterator[RecordEvent]:
    """The events that the words tell."""
    for at, word in enumerate(text.split(), 1):
        if word.startswith("!"):
            yield RecordEvent(event=ENDED, t_ns=_ns(word[1:]))
        elif word.startswith("?"):
            begin, _, end = word[1:].partition("-")
            yield RecordEvent(event=GAP, t_ns=_ns(end), from_ns=_ns(begin), reason="cut")
        else:
            yield _event(word, at)


def _event(word: str, at: int) -> RecordEvent:
    found = WORD.fullmatch(word)
    assert found, f"{word!r} is no word of a record"
    kind, process = found["kind"], found["process"]
    put = kind in "+="
    owner = str(attempt_id(int(process), int(found["n"] or 1))) if process and put else ""
    return RecordEvent(
        event=KINDS[kind],
        t_ns=_ns(found["at"]),
        at=at,
        lock="" if kind == "s" else "db",
        rank=int(found["rank"] or 0),
        owner=owner,
        token=at if put else -1,
        reason=EXPIRED if kind == "x" else "",
    )


def record(text: str, told: Case | None = None) -> RecordedHolds:
    """The holds of a record."""
    attempts = attempts_of(told) if told else []
    return derived(events(text), {str(one.id): one.acquire.from_ns for one in attempts})


def comparison(history: str, text: str, **changes: object) -> ServerRecord:
    """A history against a record; `changes` alter the promises."""
    told = case(history, promises=changes)
    return compare(record(text, told), attempts_of(told), told)


def kinds(history: str, text: str, **changes: object) -> list[str]:
    """The kinds of difference between a history and a record."""
    return [one.kind for one in comparison(history, text, **changes).differences]


def _ns(seconds: str) -> int:
    return int(float(seconds) * SECOND)
