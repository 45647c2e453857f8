"""Faults that wait for an event of the run: counted from rows, awaited by the schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.harness.core.clock import MILLISECOND, SECOND, now_ns
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.fault_traits import Traits
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.ports import Fault
from holdfast.harness.driver.schedule import Schedule
from holdfast.harness.history import live as live_module
from holdfast.harness.history.live import Live
from holdfast.harness.history.so_far import EventCounts, Hold
from holdfast.harness.plans.events import KNOWN, Event, event
from holdfast.harness.plans.plan import armed
from holdfast.harness.recording.segments import Recorder
from holdfast.harness.runs.journal import FaultRow
from tests.harness.test_schedule_traits import Mine, Watched


def test_every_known_event_is_one_and_others_are_not() -> None:
    found = [event(text) for text in KNOWN]
    assert all(isinstance(one, Event) for one in found)
    assert len({(one.ops, one.outcomes) for one in found}) == len(KNOWN)
    with pytest.raises(KeyError):
        event("acquire:granted")


def test_a_row_is_the_event_of_its_call_and_of_its_answer(tmp_path: Path) -> None:
    live = Live(tmp_path, lambda node: 5)
    with Recorder(tmp_path, "c1", {"node": "c1", "processes": [1]}) as recorder:
        acquire = recorder.invoke(Op.ACQUIRE, 1, 0, attempt=5)
        assert live.happened(event("acquire:sent"))[0] == 1
        assert live.happened(event("acquire:ok")) == (0, 0)
        t_ns = recorder.complete(acquire, Status.OK, token=1)
        assert live.happened(event("acquire:ok")) == (1, t_ns + 5)
        assert live.happened(event("acquire:sent"))[0] == 1
        release = recorder.invoke(Op.RELEASE, 1, 0, attempt=5)
        recorder.complete(release, Status.NOT_OWNER)
        recorder.complete(recorder.invoke(Op.LOST, 1, 0, attempt=5), Status.OK)
        assert [live.happened(event(text))[0] for text in ("release:fail", "release:ok")] == [1, 0]
        assert live.happened(event("lost"))[0] == 1
        assert live.ops == 3


def test_a_call_that_waits_does_not_hide_what_its_client_does_meanwhile(tmp_path: Path) -> None:
    live, beats = Live(tmp_path), 2 * live_module.LOOK_ROWS
    with Recorder(tmp_path, "c1", {"node": "c1", "processes": [1]}) as recorder:
        acquire = recorder.invoke(Op.ACQUIRE, 1, 0, attempt=5)
        for _ in range(beats):
            recorder.complete(recorder.invoke(Op.HEARTBEAT, 1, 0), Status.OK)
        assert live.happened(event("heartbeat:ok"))[0] == beats
        recorder.complete(acquire, Status.OK, token=1)
        assert live.grants == 0
        assert [hold.attempt for hold in live.holds()] == [5]
        assert live.ops == beats + 1


@dataclass
class Rows:
    """Rows that a test adds; nobody holds. asked: the schedule waits for the next row."""

    events: EventCounts = field(default_factory=EventCounts)
    added: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    def holds(self) -> Sequence[Hold]:
        return []

    async def news(self) -> None:
        await asyncio.sleep(0)

    def happened(self, what: Event) -> tuple[int, int]:
        return self.events.happened(what)

    async def changes(self) -> None:
        self.added.clear()
        self.asked.set()
        await self.added.wait()

    async def add(self, op: Op, outcome: Status) -> int:
        """Adds one while the schedule waits; its time."""
        await asyncio.wait_for(self.asked.wait(), 60)
        self.asked.clear()
        t_ns = now_ns()
        self.events.add(op, outcome, t_ns)
        self.added.set()
        return t_ns


LASTS_NS = 5 * MILLISECOND


def waiting(within_ns: int, live: Rows, rows: list[FaultRow]) -> Schedule:
    fault = Fault(
        id="f1", do="mine", target="c1", at_ns=0, for_ns=LASTS_NS,
        when="acquire:ok", within_ns=within_ns,
    )  # fmt: skip
    stage = Watched([])
    stage.schedule = Schedule(
        faults=(fault,),
        nemeses={"mine": Mine(Traits(passes=True))},
        seed=1,
        cluster=stage,
        live=live,
        note=rows.append,
    )
    return stage.schedule


def test_a_fault_begins_at_its_event_and_at_no_other_and_none_before() -> None:
    rows: list[FaultRow] = []

    async def run() -> int:
        live = Rows()
        live.events.add(Op.ACQUIRE, Status.OK, now_ns())  # before the fault is armed
        work = asyncio.ensure_future(waiting(60 * SECOND, live, rows).run(now_ns()))
        for op, outcome in ((Op.ACQUIRE, Status.INVOKED), (Op.RELEASE, Status.OK)):
            await live.add(op, outcome)
        await asyncio.wait_for(live.asked.wait(), 60)
        assert [row.event for row in rows] == ["planned"]
        event_ns = await live.add(Op.TRY, Status.OK)
        await asyncio.wait_for(work, 60)
        return event_ns

    event_ns = asyncio.run(run())
    assert [row.event for row in rows] == ["planned", "injected", "healed"]
    assert rows[0].params == {"when": "acquire:ok", "within": "60s"}
    assert rows[1].evidence is not None
    after = rows[1].evidence["after_event_ns"]
    assert isinstance(after, int)
    assert rows[1].before_ns is not None
    assert 0 <= after <= rows[1].before_ns - event_ns
    assert rows[2].t_ns is not None
    assert rows[2].t_ns - event_ns >= LASTS_NS


def test_a_fault_whose_event_never_comes_is_skipped_and_says_so() -> None:
    rows: list[FaultRow] = []

    async def run() -> Schedule:
        schedule = waiting(2 * MILLISECOND, Rows(), rows)
        await asyncio.wait_for(schedule.run(now_ns()), 20)
        return schedule

    assert asyncio.run(run()).done == 1
    assert [row.event for row in rows] == ["planned", "skipped"]
    assert rows[1].reason == "no acquire:ok within 2ms"


def test_what_a_fault_waits_for_is_read_and_mistakes_are_told() -> None:
    given = {"when": "release:sent", "within": "500ms", "target": "leader"}
    assert armed(given) == ("release:sent", 500 * MILLISECOND)
    assert given == {"target": "leader"}
    assert armed({"when": "lost"}) == ("lost", 3 * SECOND)
    assert armed({}) == ("", 0)
    with pytest.raises(UsageError, match=r"^nemesis kill: unknown .* did you mean 'acquire:ok'"):
        armed({"when": "acquire:okay"}, "nemesis kill: ")
    with pytest.raises(UsageError, match=r"^within: invalid duration"):
        armed({"when": "lost", "within": "soon"})
    with pytest.raises(UsageError, match="within without when"):
        armed({"within": "1s"})
