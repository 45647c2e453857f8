"""The reference service as three real processes, one of which dies, stops or is fed garbage."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.clusters.systems.reference.system import SYSTEM, status
from holdfast.harness.core.operations import Op, Status
from tests.clusters.live import SECOND, Live


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Three nodes, shared by the tests that leave them as they were."""
    with Live(SYSTEM, tmp_path_factory.mktemp("reference")) as cluster:
        asyncio.run(cluster.ready())
        yield cluster


def test_a_lock_is_granted_refused_renewed_and_released(shared: Live) -> None:
    async def main() -> None:
        async with shared.user(1) as one, shared.user(2) as two:
            yes, grant = await one.acquire("plain")
            assert yes.outcome is Status.OK
            no, _ = await two.acquire("plain")
            assert no.outcome is Status.FAIL
            assert (await one.renew(grant)).outcome is Status.OK
            assert (await one.release(grant)).outcome is Status.OK
            again, _ = await two.acquire("plain")
            assert again.outcome is Status.OK
            assert again.token > yes.token
            assert (await one.release(grant)).outcome is Status.NOT_OWNER

    asyncio.run(main())


def test_a_holder_is_told_of_its_loss_and_the_first_waiter_follows(shared: Live) -> None:
    async def main() -> None:
        async with shared.user(1, SECOND // 2) as one, shared.user(2) as two:
            _, grant = await one.acquire("lost")
            began = time.monotonic()
            yes, _ = await two.acquire("lost", wait_s=3)
            assert 0.4 < time.monotonic() - began < 2
            assert yes.outcome is Status.OK
            assert one.lost() == [(grant.attempt, "expired")]
            assert Op.WAITING in [op for op, _, _ in two.told]
            assert (await one.renew(grant)).outcome is Status.NOT_OWNER

    asyncio.run(main())


def test_a_wait_that_ends_leaves_no_waiter_behind(shared: Live) -> None:
    async def main() -> None:
        async with shared.user(1) as one, shared.user(2) as two:
            _, grant = await one.acquire("brief")
            no, _ = await two.acquire("brief", wait_s=0.1)
            assert no.outcome is Status.FAIL
            await one.release(grant)
            yes, _ = await one.acquire("brief")
            assert yes.outcome is Status.OK

    asyncio.run(main())


def test_a_cancelled_call_takes_its_waiter_away(shared: Live) -> None:
    async def main() -> None:
        async with shared.user(1) as one, shared.user(2) as two:
            _, grant = await one.acquire("cancelled")
            call = asyncio.create_task(two.acquire("cancelled", wait_s=30))
            await two.hears(Op.WAITING)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
            # Its next call is numbered after the one it gave up.
            await two.acquire("another")
            await one.release(grant)
            yes, _ = await one.acquire("cancelled")
            assert yes.outcome is Status.OK

    asyncio.run(main())


@pytest.mark.parametrize(
    ("garbage", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "over the limit"),
        (b"\0\0\0\4nope", "not JSON"),
        (b"\0\0\0\x09[", "bytes into a frame"),
    ],
)
def test_garbage_ends_one_connection_and_is_logged(
    shared: Live, garbage: bytes, reason: str
) -> None:
    async def main() -> None:
        async with shared.user(1) as one:
            for node in shared.nodes:
                with socket.create_connection((node.address, 7400), timeout=5) as wire:
                    wire.sendall(garbage)
                    wire.shutdown(socket.SHUT_WR)
                    assert wire.recv(1) == b""
            yes, grant = await one.acquire("calm")
            assert yes.outcome is Status.OK
            await one.release(grant)

    asyncio.run(main())
    for node in shared.nodes:
        assert reason in shared.log(node.name)


def test_a_stopped_leader_is_replaced_and_grants_nothing_when_it_wakes(shared: Live) -> None:
    async def main() -> None:
        leader = await shared.leader()
        async with shared.user(1, 10 * SECOND) as one, shared.user(2) as two:
            first, grant = await one.acquire("stopped")
            process = shared.running[leader]
            os.kill(process.pid, signal.SIGSTOP)
            try:
                began = time.monotonic()
                other, _ = await two.acquire("elsewhere", wait_s=5)
                assert other.outcome is Status.OK
                assert other.token > first.token
                assert time.monotonic() - began < 4
            finally:
                os.kill(process.pid, signal.SIGCONT)
            no, _ = await two.acquire("stopped")
            assert no.outcome is Status.FAIL
            assert (await one.renew(grant)).outcome is Status.OK

    asyncio.run(main())


def test_holds_and_tokens_survive_the_death_of_the_leader_and_of_all(tmp_path: Path) -> None:
    async def main() -> None:
        await live.ready()
        async with live.user(1, 30 * SECOND) as one, live.user(2) as two:
            first, grant = await one.acquire("kept")
            assert first.outcome is Status.OK
            dead = await live.leader()
            live.kill(dead)
            no, _ = await two.acquire("kept")
            assert no.outcome is Status.FAIL, "the hold has survived its leader"
            assert (await one.renew(grant)).outcome is Status.OK
            other, _ = await two.acquire("other")
            assert other.token > first.token

            for name in list(live.running):
                live.kill(name)
            for node in live.nodes:
                live.start(node.name)
            await live.ready()
            no, _ = await two.acquire("kept", wait_s=1)
            assert no.outcome is Status.FAIL, "the hold has survived them all"
            assert (await one.release(grant)).outcome is Status.OK
            yes, _ = await two.acquire("kept")
            assert yes.outcome is Status.OK
            assert yes.token > other.token
            said = [await status(node.address) for node in live.nodes]
            assert all(said), "the node that died first is back"

    with Live(SYSTEM, tmp_path, options={"snapshot_every": "10"}) as live:
        asyncio.run(main())


def test_a_client_that_falls_silent_loses_its_session_and_its_locks(tmp_path: Path) -> None:
    async def main() -> None:
        await live.ready()
        async with live.user(2) as two:
            one = live.user(1)
            await one.client.open()
            yes, _ = await one.acquire("mine")
            assert yes.outcome is Status.OK
            no, _ = await two.acquire("mine", wait_s=1)
            assert no.outcome is Status.FAIL, "heartbeats keep it"
            assert Op.HEARTBEAT in [op for op, _, _ in one.told]
            await one.client.close()
            yes, _ = await two.acquire("mine", wait_s=2)
            assert yes.outcome is Status.OK

    with Live(SYSTEM, tmp_path, nodes=1, options={"session_ms": "500"}) as live:
        asyncio.run(main())


def test_a_race_is_won_by_somebody_and_nobody_is_left_out(tmp_path: Path) -> None:
    async def work(user_number: int) -> list[int]:
        tokens = []
        async with live.user(user_number) as user:
            for _ in range(3):
                yes, grant = await user.acquire("race", wait_s=10)
                assert yes.outcome is Status.OK
                tokens.append(yes.token)
                assert (await user.release(grant)).outcome is Status.OK
        return tokens

    async def main() -> None:
        await live.ready()
        tokens = await asyncio.gather(*(work(n) for n in range(1, 5)))
        every = [token for some in tokens for token in some]
        assert sorted(every) == list(range(1, 13))

    with Live(SYSTEM, tmp_path, nodes=1, options={"queue": "racing"}) as live:
        asyncio.run(main())


def test_a_damaged_disk_stops_a_node_with_a_reason(tmp_path: Path) -> None:
    with Live(SYSTEM, tmp_path, nodes=1) as live:
        asyncio.run(live.ready())
        live.kill("n1")
        log = tmp_path / "data" / "n1" / "log"
        log.write_bytes(b"0" + log.read_bytes()[1:] + log.read_bytes())
        live.start("n1")
        assert live.running["n1"].wait(timeout=10) == 1
        assert "the checksum does not match" in live.log("n1")
