"""What a client with further abilities requests, gets, and records: terms, queries, entries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.harness.client.context import Context
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.operations import (
    NO_TOKEN,
    PLAIN,
    Answer,
    Grant,
    Mode,
    Op,
    Status,
    Terms,
    carried,
    spent,
)
from holdfast.harness.core.ports import Queried
from tests.harness.test_client import GRANTED, Lock, granted, record, statuses

HELD = Grant(lock="db", attempt=3 << 32 | 1, token=7, ttl_ns=SECOND, granted_at_ns=0)


class Able(Lock):
    """A lock client with all abilities, which answers everything with what a test says."""

    def __init__(self, said: Any) -> None:
        super().__init__(granted)
        self.said = said
        self.asked: list[dict[str, Any]] = []

    async def acquire(self, lock: str, **asked: Any) -> Answer:
        self.asked.append({"lock": lock, **asked})
        return GRANTED

    async def acquire_on(self, lock: str, **asked: Any) -> Answer:
        return await self.acquire(lock, **asked)

    async def release(self, grant: Grant) -> Answer:
        assert isinstance(self.said, Answer)
        return self.said

    async def query(self, lock: str, *, attempt: int) -> Queried:
        self.asked.append({"lock": lock, "attempt": attempt})
        assert isinstance(self.said, Queried)
        return self.said

    async def check(self, grant: Grant) -> Answer:
        return await self.release(grant)

    async def force(self, lock: str, *, token: int) -> Answer:
        self.asked.append({"lock": lock, "token": token})
        return await self.release(HELD)


def row_of(tmp_path: Path, said: Any, op: Op, story: Any) -> tuple[dict[str, int], str, Able]:
    """The one row of a kind that a story leaves, its error text, and the client that was asked."""
    lock = Able(said)
    found = record(tmp_path, lock, story)
    (n,) = found.of(op)
    row = found.rows[n]
    columns = {name: int(row[name]) for name in ("attempt", "token", "res", "spent", "status")}
    return columns, found.strings[int(row["err"])], lock


@pytest.mark.parametrize(
    ("said", "answer", "row", "text"),
    [
        (
            Queried(outcome=Status.OK, token=7, renewals=2, held_ns=9_000, metadata="mine"),
            7,
            {"token": 7, "res": 2, "spent": spent(9_000, None), "status": Status.OK},
            "mine",
        ),
        (
            Queried(outcome=Status.OK, left_ns=4_000),
            NO_TOKEN,
            {"token": NO_TOKEN, "res": 0, "spent": spent(None, 4_000), "status": Status.OK},
            "",
        ),
        (
            Queried(outcome=Status.INFO, token=7, metadata="mine", error="timed out"),
            None,
            {"token": 7, "res": 0, "spent": 0, "status": Status.INFO},
            "timed out",
        ),
    ],
    ids=["held", "free", "no response"],
)
def test_the_holder_is_recorded_as_the_service_names_it(
    tmp_path: Path, said: Queried, answer: int | None, row: dict[str, int], text: str
) -> None:
    async def story(ctx: Context) -> None:
        assert await ctx.holder("db") == answer

    found, err, lock = row_of(tmp_path, said, Op.HOLDER, story)
    assert (found, err) == ({"attempt": 0, **row}, text)
    assert lock.asked == [{"lock": "db", "attempt": 0}]


@pytest.mark.parametrize(
    ("outcome", "place", "answer"),
    [(Status.OK, 3, 3), (Status.OK, 0, 0), (Status.OK, -1, -1), (Status.INFO, 3, None)],
)
def test_a_place_in_the_queue_is_that_of_the_latest_attempt(
    tmp_path: Path, outcome: Status, place: int, answer: int | None
) -> None:
    async def story(ctx: Context) -> None:
        for _ in range(2):
            await ctx.acquire("db", wait_ns=0)
        assert await ctx.place("db") == answer

    said = Queried(outcome=outcome, place=place, length=9, renewals=9, token=9)
    row, _, lock = row_of(tmp_path, said, Op.PLACE, story)
    assert lock.asked[-1] == {"lock": "db", "attempt": 3 << 32 | 2}
    wanted = {"attempt": 3 << 32 | 2, "token": NO_TOKEN, "res": place, "spent": 0}
    assert row == {**wanted, "status": outcome}


@pytest.mark.parametrize(
    ("outcome", "length", "answer", "recorded"),
    [
        (Status.OK, 2, 2, Status.OK),
        (Status.OK, 0, 0, Status.OK),
        (Status.OK, -1, None, Status.INFO),
        (Status.INFO, 2, None, Status.INFO),
    ],
)
def test_a_service_that_does_not_report_the_length_of_its_queue_leaves_it_unknown(
    tmp_path: Path, outcome: Status, length: int, answer: int | None, recorded: Status
) -> None:
    async def story(ctx: Context) -> None:
        assert await ctx.length("db") == answer

    said = Queried(outcome=outcome, place=9, length=length)
    row, _, lock = row_of(tmp_path, said, Op.LENGTH, story)
    assert (row["res"], row["status"], row["attempt"]) == (length, recorded, 0)
    assert lock.asked == [{"lock": "db", "attempt": 0}]


@pytest.mark.parametrize(
    ("outcome", "in_force", "ended"),
    [
        (Status.OK, True, True),
        (Status.FAIL, False, False),
        (Status.INFO, None, False),
        (Status.NOT_OWNER, None, False),
    ],
)
def test_whether_a_hold_is_in_force_and_whether_it_was_ended_is_the_services_word(
    tmp_path: Path, outcome: Status, in_force: bool | None, ended: bool
) -> None:
    async def story(ctx: Context) -> None:
        assert await ctx.check(HELD) is in_force
        assert await ctx.force_unlock("db", token=7) is ended

    lock = Able(Answer(outcome=outcome))
    found = record(tmp_path, lock, story)
    assert lock.asked == [{"lock": "db", "token": 7}]
    seen = [(row["f"], row["attempt"], row["token"], row["status"]) for row in found.rows]
    assert seen == [(Op.CHECK, HELD.attempt, 7, outcome), (Op.FORCE_UNLOCK, 0, 7, outcome)]


@pytest.mark.parametrize(
    ("outcome", "left", "released", "res"),
    [
        (Status.OK, 0, True, 1),
        (Status.OK, 2, False, 3),
        (Status.OK, -1, None, 0),
        (Status.INFO, 0, None, 1),
        (Status.NOT_OWNER, -1, None, 0),
    ],
)
def test_an_entry_that_is_released_says_whether_it_was_the_last(
    tmp_path: Path, outcome: Status, left: int, released: bool | None, res: int
) -> None:
    async def story(ctx: Context) -> None:
        assert await ctx.release_reentrant(HELD) is released

    row, _, _ = row_of(tmp_path, Answer(outcome=outcome, left=left), Op.RELEASE, story)
    assert (row["res"], row["status"], row["token"]) == (res, outcome, 7)


@pytest.mark.parametrize(
    ("terms", "asked"),
    [
        (PLAIN, {"mode": Mode.EXCLUSIVE}),
        (Terms(), {"mode": Mode.EXCLUSIVE}),
        (Terms(mode=Mode.SHARED), {"terms": Terms(mode=Mode.SHARED)}),
        (Terms(newest=0), {"terms": Terms(newest=0)}),
        (
            Terms(priority=3, metadata="any"),
            {"terms": Terms(priority=3, metadata=carried(3 << 32 | 1))},
        ),
    ],
    ids=["usual", "equal to the usual", "shared", "conditional", "with metadata"],
)
def test_only_terms_beyond_the_usual_ones_need_a_client_with_the_ability(
    tmp_path: Path, terms: Terms, asked: dict[str, Any]
) -> None:
    async def story(ctx: Context) -> None:
        assert await ctx.acquire("db", wait_ns=-1, ttl_ns=5, terms=terms) is not None

    lock = Able(None)
    (row,) = record(tmp_path, lock, story).rows
    common = {"lock": "db", "attempt": 3 << 32 | 1, "ttl_ns": 5, "wait_ns": -1}
    assert lock.asked == [{**common, **asked}]
    assert (row["mode"], row["op"]) == (terms.mode, terms.packed())
    assert (row["arg"], row["aux"]) == (5, -1)


@pytest.mark.parametrize(
    ("due_ns", "late_us"), [(0, 0), (5 * SECOND, 2_000_000), (6_999_999_000, 1), (8 * SECOND, 0)]
)
def test_a_call_is_late_by_what_passed_since_it_was_due(
    tmp_path: Path, due_ns: int, late_us: int
) -> None:
    async def story(ctx: Context) -> None:
        await ctx.try_acquire("db", due_ns=due_ns)

    (row,) = record(tmp_path, Able(None), story, now=lambda: 7 * SECOND).rows
    assert (row["f"], row["late"]) == (Op.TRY, late_us)


def test_a_grant_without_a_token_leaves_the_column_of_tokens_empty(tmp_path: Path) -> None:
    async def tokenless() -> Answer:
        return Answer(outcome=Status.OK, ttl_ns=3 * MILLISECOND, spent=11)

    async def story(ctx: Context) -> None:
        grant = await ctx.try_acquire("db", ttl_ns=9)
        assert grant is not None and grant.token == NO_TOKEN
        assert grant.ttl_ns == 3 * MILLISECOND

    found = record(tmp_path, Lock(tokenless), story)
    (row,) = found.rows
    assert (row["token"], row["res"], row["arg"], row["aux"]) == (NO_TOKEN, 3 * MILLISECOND, 9, 0)
    assert row["spent"] == 11 and statuses(found, Op.TRY) == [Status.OK]
