"""Pairing of events: random histories beside a plain reading, and each impossible order."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from holdfast.harness.core.operations import NO_TOKEN, Status
from holdfast.harness.foreign.operations import OPEN, Event, ForeignOp, Malformed, Pairing

KINDS = {"ok": Status.OK, "fail": Status.FAIL, "info": Status.INFO}


def paired(*events: Event) -> list[ForeignOp]:
    pairing = Pairing()
    for event in events:
        pairing.add(event)
    return list(pairing.close("x").ops)


def refused(*events: Event) -> tuple[int, str]:
    with pytest.raises(Malformed) as told:
        paired(*events)
    return told.value.line, told.value.reason


def event(line: int, kind: str = "invoke", process: int | str = 1, f: str = "acquire") -> Event:
    return Event(line=line, process=process, kind=kind, f=f)


def some(rng: random.Random) -> list[Event]:
    """A possible order of events of up to four processes, with all fields."""
    busy, found = dict[int, Event](), list[Event]()
    for line in range(1, rng.randrange(2, 30)):
        process = rng.randrange(4)
        asked = busy.pop(process, None)
        if asked is None:
            made = Event(
                line=line, process=process, kind="invoke", f=rng.choice(["acquire", "release"]),
                key=rng.choice([None, "a", "b"]), value=rng.choice([None, line]), time=line,
                token=rng.choice([NO_TOKEN, 7]), attempt=rng.choice([None, 3]),
                shared=rng.random() < 0.5,
            )  # fmt: skip
            busy[process] = made
        else:
            keyed = rng.random() < 0.5
            made = Event(
                line=line, process=process, kind=rng.choice(list(KINDS)), f=asked.f, keyed=keyed,
                key=asked.key if keyed else "ignored", value=rng.choice([None, -line]), time=line,
                token=rng.choice([NO_TOKEN, 9]), attempt=rng.choice([None, 4]),
                not_owner=rng.random() < 0.3,
            )  # fmt: skip
        found.append(made)
    return found


def plainly(events: list[Event]) -> list[ForeignOp]:
    """Each invocation with the next event of its process."""
    found = []
    for begin, asked in enumerate(events):
        if asked.kind != "invoke":
            continue
        later = ((n, e) for n, e in enumerate(events) if n > begin and e.process == asked.process)
        end, told = next(later, (OPEN, None))
        status = KINDS[told.kind] if told else Status.INFO
        if told and told.not_owner and status is Status.FAIL:
            status = Status.NOT_OWNER
        token = told.token if told and told.token != NO_TOKEN else asked.token
        attempt = told.attempt if told and told.attempt is not None else asked.attempt
        found.append(ForeignOp(
            process=asked.process, f=asked.f, key=asked.key, value=asked.value, begin=begin,
            result=told.value if told else None, end=OPEN if status is Status.INFO else end,
            status=status, told_value=told is not None and told.value is not None, token=token,
            attempt=attempt, shared=asked.shared, line=asked.line,
            end_line=told.line if told else 0,
        ))  # fmt: skip
    return found


def test_random_events_are_paired_as_a_plain_reading_pairs_them() -> None:
    seen = set[Status]()
    for seed in range(120):
        events = some(random.Random(seed))
        found = paired(*events)
        assert found == plainly(events), seed
        seen |= {op.status for op in found}
    assert seen == {*KINDS.values(), Status.NOT_OWNER}


@pytest.mark.parametrize(
    ("events", "line", "reason"),
    [
        ([event(3), event(8)], 8, "process 1 invokes acquire while its acquire of line 3 is still"
         " open: two concurrent invocations"),
        ([event(2, "ok")], 2, "process 1 completes acquire: a completion without invocation"),
        ([event(1), event(2, "info"), event(3, "ok")], 3,
         "process 1 completes acquire: a completion without invocation"),
        ([event(1), event(4, "ok", f="release")], 4,
         "process 1 completes release, but line 1 invoked acquire"),
        ([replace(event(1), key="a"), replace(event(2, "ok"), key="b", keyed=True)], 2,
         "process 1 completes acquire of b, but line 1 invoked acquire of a"),
        ([replace(event(1), key="a"), replace(event(2, "ok"), keyed=True)], 2,
         "process 1 completes acquire, but line 1 invoked acquire of a"),
        ([replace(event(1, process="c\n1"), time=5), replace(event(2, "ok", "c\n1"), time=4)], 2,
         "time goes backwards: process 'c\\n1' is at 4, and was at 5 on line 1"),
        ([], 1, "no operation of a client"),
    ],
)  # fmt: skip
def test_an_impossible_order_of_events_is_told_with_both_lines(
    events: list[Event], line: int, reason: str
) -> None:
    assert refused(*events) == (line, reason)


def test_time_may_stand_still_be_unknown_and_differ_between_processes() -> None:
    events = [
        replace(event(1), time=5), replace(event(2, process=2), time=1), event(3, "ok"),
        replace(event(4), time=5), replace(event(5, "ok", 2), time=1),
    ]  # fmt: skip
    assert [op.begin for op in paired(*events)] == [0, 1, 3]
    assert refused(*events, replace(event(6, "ok"), time=4)) == (
        6, "time goes backwards: process 1 is at 4, and was at 5 on line 4"
    )  # fmt: skip
