"""The single lease server and the vote over several: what they do, and where they break."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.clusters.systems.majority.system import SYSTEM as MAJORITY
from holdfast.clusters.systems.reference.wire.frames import Frame
from holdfast.clusters.systems.single.client import poll_s
from holdfast.clusters.systems.single.system import SYSTEM as SINGLE
from holdfast.clusters.systems.single.table import Table
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import Op, Status
from holdfast.harness.core.ports import System
from tests.clusters.live import SECOND, Live


def acquire(table: Table, now_ns: int, attempt: int, ttl_ns: int = 10) -> Frame:
    """An acquire of lock "a"."""
    asked = {"op": "acquire", "lock": "a", "attempt": attempt, "ttl_ns": ttl_ns, "owner": "c"}
    return table.answer(now_ns, asked)


def release(table: Table, now_ns: int, attempt: int, call: int = 1) -> Frame:
    """A release of lock "a"."""
    asked = {"op": "release", "lock": "a", "attempt": attempt, "call": call}
    return table.answer(now_ns, asked)


def test_a_waiting_client_polls_as_often_as_its_option_says() -> None:
    assert poll_s({}) == (0.02, 0.1)
    assert poll_s({"poll_ms": "100"}) == (0.02, 0.1)
    assert poll_s({"poll_ms": "1000"}) == (0.2, 1.0)
    plain, slow = SINGLE.promises({}), SINGLE.promises({"poll_ms": "1000"})
    assert (plain.recovery_ns, slow.recovery_ns) == (2 * SECOND, 2_900_000_000)


@pytest.mark.parametrize("text", ["0", "9", "10001", "1.5", "fast", ""])
def test_a_wrong_poll_is_refused_before_the_run(text: str) -> None:
    with pytest.raises(UsageError, match=r"poll_ms=.*expected a whole number, 10 to 10000"):
        SINGLE.promises({"poll_ms": text})


def test_a_lease_ends_at_its_time_and_not_before() -> None:
    table = Table("n1")
    assert acquire(table, 0, 1) == {"is": "granted", "token": 1}
    assert acquire(table, 9, 2)["is"] == "held"
    assert acquire(table, 10, 2) == {"is": "granted", "token": 2}


def test_a_renewal_starts_the_lease_again_but_revives_nothing() -> None:
    table = Table("n1")
    acquire(table, 0, 1)
    renew = {"op": "renew", "lock": "a", "attempt": 1, "ttl_ns": 10}
    assert table.answer(9, renew)["is"] == "renewed"
    assert acquire(table, 18, 2)["is"] == "held"
    assert table.answer(19, renew) == {"is": "not-holder", "reason": "expired"}


def test_the_same_attempt_gets_the_same_grant_without_more_lease() -> None:
    table = Table("n1")
    acquire(table, 0, 1)
    assert acquire(table, 5, 1) == {"is": "granted", "token": 1}
    assert acquire(table, 10, 1)["is"] == "stale"


def test_a_release_is_repeated_to_its_own_call_only() -> None:
    table = Table("n1")
    acquire(table, 0, 1)
    assert release(table, 1, 1, call=7)["is"] == "released"
    assert release(table, 2, 1, call=7)["is"] == "released"
    assert release(table, 2, 1, call=8)["is"] == "not-holder"


def test_an_acquire_that_arrives_after_it_was_given_up_is_refused() -> None:
    table = Table("n1")
    assert release(table, 0, 1)["is"] == "not-holder"
    assert acquire(table, 1, 1)["is"] == "stale"


def test_nobody_releases_for_another() -> None:
    table = Table("n1")
    acquire(table, 0, 1)
    assert release(table, 1, 2)["is"] == "not-holder"
    assert acquire(table, 2, 3)["is"] == "held"


@pytest.mark.parametrize("system", [SINGLE, MAJORITY], ids=["single", "majority"])
def test_a_lock_is_granted_refused_lost_and_released(system: System, tmp_path: Path) -> None:
    async def main() -> None:
        await live.ready()
        async with live.user(1) as one, live.user(2, SECOND // 2) as two:
            yes, grant = await one.acquire("a")
            assert yes.outcome is Status.OK
            no, _ = await two.acquire("a", wait_s=0.2)
            assert no.outcome is Status.FAIL
            assert (await one.renew(grant)).outcome is Status.OK
            assert (await one.release(grant)).outcome is Status.OK
            assert (await one.release(grant)).outcome is Status.NOT_OWNER
            yes, grant = await two.acquire("a", wait_s=1)
            assert yes.outcome is Status.OK
            yes, _ = await one.acquire("a", wait_s=2)
            assert yes.outcome is Status.OK
            await two.hears(Op.LOST, within_s=2)
            assert two.lost() == [(grant.attempt, "expired")]
            assert (await two.renew(grant)).outcome is Status.NOT_OWNER

    with Live(system, tmp_path) as live:
        asyncio.run(main())


def test_a_single_server_forgets_its_holds_and_tokens_when_it_dies(tmp_path: Path) -> None:
    async def main() -> None:
        await live.ready()
        async with live.user(1, 30 * SECOND) as one, live.user(2) as two:
            first, grant = await one.acquire("a")
            live.kill("n1")
            down, _ = await two.acquire("b")
            assert down.outcome in (Status.FAIL, Status.INFO)
            live.start("n1")
            await live.ready()
            second, _ = await two.acquire("a")
            assert second.outcome is Status.OK, "granted to two at once"
            assert second.token <= first.token
            assert (await one.renew(grant)).outcome is Status.NOT_OWNER
            assert [attempt for attempt, _ in one.lost()] == [grant.attempt]

    with Live(SINGLE, tmp_path, nodes=1) as live:
        asyncio.run(main())


def test_a_vote_needs_a_quorum_and_no_more(tmp_path: Path) -> None:
    async def main() -> None:
        await live.ready()
        async with live.user(1) as one:
            live.kill("n3")
            yes, grant = await one.acquire("a")
            assert yes.outcome is Status.OK
            assert (await one.release(grant)).outcome is Status.OK
            live.kill("n2")
            no, _ = await one.acquire("a")
            assert no.outcome is Status.FAIL
            live.start("n2")
            await live.ready()
            yes, _ = await one.acquire("a", wait_s=3)
            assert yes.outcome is Status.OK, "what a failed round won was given back"

    with Live(MAJORITY, tmp_path) as live:
        asyncio.run(main())


def test_a_voter_that_restarts_lets_two_hold_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        await live.ready()
        async with live.user(1, 30 * SECOND) as one, live.user(2) as two:
            live.kill("n3")
            first, _ = await one.acquire("a")
            live.kill("n2")
            live.start("n2")
            live.start("n3")
            await live.ready()
            second, _ = await two.acquire("a", wait_s=3)
            assert (first.outcome, second.outcome) == (Status.OK, Status.OK)

    with Live(MAJORITY, tmp_path) as live:
        asyncio.run(main())
