"""Kernel stamps narrow an op to what lay between its request's leaving and its answer's coming."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from holdfast.harness.core.clock import MILLISECOND, now_ns
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.operations import CAME, LEFT, Op, Status
from holdfast.harness.core.ports import CALL, CLIENT
from holdfast.harness.history import reader as history
from holdfast.harness.history.calls import share
from holdfast.harness.recording import clock_sync, segments, timestamped_socket
from holdfast.harness.recording.clock_sync import Mirror, MonitoredOffset
from holdfast.harness.recording.timestamped_socket import Edges, StampedSocket, span
from tests.front.aborted import wait_for

SECOND_NS = 1_000_000_000
WARM_NS = 10 * SECOND_NS
PLAIN_SOCKET = socket.socket


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that sends back what it gets, in a thread and without stamps."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(peer,), daemon=True).start()

    def answer(peer: socket.socket) -> None:
        with peer, contextlib.suppress(ConnectionError):
            while data := peer.recv(4096):
                peer.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def connected(address: tuple[str, int]) -> StampedSocket:
    plug = StampedSocket(socket.AF_INET, socket.SOCK_STREAM)
    plug.settimeout(5)
    plug.connect(address)
    return plug


def exchange(plug: StampedSocket) -> None:
    plug.sendall(b"x")
    plug.recv(1)


def warm(plug: StampedSocket) -> None:
    """Until arrivals carry stamps: the kernel begins with that some time after the first asks."""
    until_ns = now_ns() + WARM_NS
    while now_ns() < until_ns:
        exchange(plug)
        if plug.arrived > 0:
            return
    pytest.fail("this kernel stamps no arrivals")


def bounds() -> tuple[int, int]:
    mirror = Mirror()
    try:
        return mirror.look(300)
    finally:
        mirror.close()


def test_an_op_lies_between_its_sending_and_its_answer_and_inside_the_call(
    echo: tuple[str, int],
) -> None:
    low, high = bounds()
    with connected(echo) as plug:
        warm(plug)
        for _ in range(200):
            inv = now_ns()
            with span(CALL) as seen:
                plug.sendall(b"question")
                assert plug.recv(64) == b"question"
            ret = now_ns()
            edges = seen.edges()
            assert inv <= edges.sent - low and edges.sent <= edges.arrived
            assert edges.arrived - high <= ret


def test_several_requests_narrow_to_the_first_sent_and_the_last_received(
    echo: tuple[str, int],
) -> None:
    with connected(echo) as plug:
        warm(plug)
        with span(CALL) as seen:
            plug.sendall(b"one")
            plug.recv(64)
            first = seen.edges()
            plug.send(b"two")
            plug.recv_into(bytearray(64))
        assert seen.edges().sent == first.sent
        assert seen.edges().arrived > first.arrived


def test_what_another_thread_sends_counts_for_a_client_but_for_no_call(
    echo: tuple[str, int],
) -> None:
    with connected(echo) as plug:
        warm(plug)
        for wire, known in ((CALL, False), (CLIENT, True)):
            with span(wire) as seen:
                thread = threading.Thread(target=exchange, args=(plug,))
                thread.start()
                thread.join()
            assert bool(seen.edges().sent) is known
            assert bool(seen.edges().arrived) is known


def test_a_client_may_close_its_connection_before_its_call_is_over(echo: tuple[str, int]) -> None:
    with connected(echo) as plug:
        warm(plug)
        with span(CLIENT) as seen:
            with connected(echo) as brief:
                exchange(brief)
                arrived = brief.arrived
            del brief
            assert seen.edges().sent <= arrived == seen.edges().arrived
            assert seen.edges().sent > 0
            with connected(echo) as unsure:
                unsure.sendall(b"x")
                unsure.recvmsg(1)
            del unsure
            assert seen.edges() == timestamped_socket.NO_EDGES


def test_asyncio_streams_are_stamped_without_being_touched(
    echo: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socket", StampedSocket)

    async def ask() -> Edges:
        reader, writer = await asyncio.open_connection(*echo)
        found, until_ns = timestamped_socket.NO_EDGES, now_ns() + WARM_NS
        while now_ns() < until_ns:
            with span(CALL) as seen:
                writer.write(b"question")
                await reader.readexactly(8)
            found = seen.edges()
            if found.sent > 0 and found.arrived > 0:
                break
        writer.close()
        return found

    edges = asyncio.run(ask())
    assert 0 < edges.sent <= edges.arrived


@pytest.mark.parametrize("use", ["recvmsg", "sendmsg", "long", "cut"])
def test_a_socket_that_was_used_otherwise_narrows_nothing(echo: tuple[str, int], use: str) -> None:
    with connected(echo) as plug:
        warm(plug)
        with span(CALL) as seen:
            plug.sendall(b"x" * (2000 if use == "long" else 1))
            if use == "recvmsg":
                plug.recvmsg(16)
            elif use == "sendmsg":
                plug.sendmsg([b"y"])
            elif use == "cut":
                plug.setblocking(False)
                while not plug.spoilt:
                    try:
                        plug.send(b"z" * 1_000_000)
                    except BlockingIOError:
                        continue
        assert seen.edges().sent == 0


def test_a_socket_that_is_dropped_unclosed_closes_its_own_number_only(
    echo: tuple[str, int],
) -> None:
    plug = connected(echo)
    warm(plug)
    number = plug.fileno()
    del plug
    with pytest.raises(OSError, match="Bad file descriptor"):
        PLAIN_SOCKET(fileno=number)
    with connected(echo) as other:
        warm(other)


class Clocks:
    """A wall clock that somebody sets, and bounds of it as a mirror would find them."""

    def __init__(self) -> None:
        self.ahead, self.now_ns, self.looks = 10**18, 0, 0

    def look(self, times: int, enough_ns: int) -> tuple[int, int]:
        self.looks += 1
        return self.ahead - 500, self.ahead + 500

    def now(self) -> int:
        self.now_ns += 1000
        return self.now_ns


def test_stamps_around_a_step_of_the_wall_clock_are_dropped() -> None:
    clocks, good, bad = Clocks(), list[int](), list[int]()
    steady = MonitoredOffset(clocks.look, good.append, bad.append, clocks.now)
    real = Edges(clocks.ahead + 5000, clocks.ahead + 9000)
    assert steady.edges(real, 0, 20_000, steady.steps) == (4500, 9500)
    begun = steady.steps
    steady.check()
    clocks.ahead += SECOND_NS
    steady.check()
    assert bad == good == [2000]
    real = Edges(clocks.ahead + 5000, clocks.ahead + 9000)
    assert steady.edges(real, 0, 20_000, steady.steps) == (0, 0), "not settled yet"
    steady.check()
    assert steady.edges(real, 0, 20_000, steady.steps) == (4500, 9500)
    assert steady.edges(real, 0, 20_000, begun) == (0, 0), "it began before the step"
    assert bad == [2000, 2000]
    assert good == [2000, 4000]


def test_a_client_that_waits_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_sync, "EVERY_S", 0.001)
    clocks, good = Clocks(), list[int]()
    steady = MonitoredOffset(clocks.look, good.append, lambda at: None, clocks.now)

    def parked() -> bool:
        return steady._idle and not steady._used

    def covered(at: int) -> bool:
        return bool(good) and good[-1] > at

    steady.start()
    wait_for(parked, 20, "measured although there was no op")
    assert clocks.looks == 1, "the first one only"
    for ops in (1, 2, 3):
        at = clocks.now()
        steady.used()
        wait_for(partial(covered, at), 20, "an op is not covered")
        wait_for(parked, 20, "it goes on without an op")
        assert clocks.looks == 1 + ops
    steady.close()


def test_a_step_is_settled_although_no_op_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_sync, "EVERY_S", 0.001)
    clocks, good, bad = Clocks(), list[int](), list[int]()
    steady = MonitoredOffset(clocks.look, good.append, bad.append, clocks.now)
    clocks.ahead += SECOND_NS
    steady.start()
    steady.used()
    wait_for(lambda: len(bad) == 2 and len(good) == 1, 20, "not settled")
    steady.close()


def test_a_sample_that_is_tight_enough_is_the_last() -> None:
    mirror, sent = Mirror(), 0

    def now() -> int:
        nonlocal sent
        sent += 1
        return now_ns()

    mirror._now = now
    mirror.look(20, 1 << 62)
    assert sent == 2
    mirror.look(20, 0)
    mirror.close()
    assert sent == 42


def test_an_arrival_before_the_sending_is_no_answer() -> None:
    clocks = Clocks()
    steady = MonitoredOffset(clocks.look, lambda at: None, lambda at: None, clocks.now)
    stale = Edges(clocks.ahead + 5000, clocks.ahead + 4000)
    assert steady.edges(stale, 0, 20_000, 0) == (4500, 0)
    assert steady.edges(Edges(0, clocks.ahead + 9000), 0, 20_000, 0) == (0, 0)
    late = Edges(clocks.ahead + 90_000, clocks.ahead + 99_000)
    assert steady.edges(late, 0, 20_000, 0) == (0, 0)


def recorded(folder: Path, statuses: tuple[Status, ...], good_ns: int) -> history.Recording:
    with segments.Recorder(folder, "w", {"node": "c1", "processes": [1]}) as record:
        for status in statuses:
            row = record.invoke(Op.TRY, 1, record.intern("db"), attempt=1)
            until_ns = now_ns() + MILLISECOND // 10
            while now_ns() < until_ns:
                pass
            record.complete(row, status, stamped=lambda inv, ret: (inv + 3000, ret - 2000))
        record.stamps_good(good_ns)
    return history.load(folder)


def test_a_history_is_narrowed_and_says_where(tmp_path: Path) -> None:
    statuses = (Status.OK, Status.FAIL, Status.NOT_OWNER, Status.INFO)
    rows = recorded(tmp_path, statuses, 1 << 60).history.rows
    assert [int(row["flags"]) for row in rows] == [LEFT | CAME, LEFT, LEFT | CAME, LEFT]
    assert [(int(row["tx"]), int(row["rx"])) for row in rows] == [
        (3000, 2000),
        (3000, 0),
        (3000, 2000),
        (3000, 0),
    ]
    assert all(row["t_ret"] + row["rx"] - row["t_inv"] + row["tx"] >= 100_000 for row in rows)
    told = plain(share(rows))
    assert (told["calls"], told["narrowed"], told["lock_calls"]) == (2, 2, 2)
    assert told["why"] == ""


@pytest.mark.parametrize(
    ("of_lock", "of_resource", "why"),
    [
        ((0, 0), 0, "their kernel provides none"),
        ((0, 0), LEFT | CAME, "the lock's client hides its sockets"),
        ((LEFT, LEFT | CAME), LEFT | CAME, "1 of 2 lock responses have no kernel timestamp"),
        ((LEFT | CAME, LEFT | CAME), 0, ""),
    ],
)
def test_why_calls_keep_their_edges_is_told(
    of_lock: tuple[int, int], of_resource: int, why: str
) -> None:
    rows = np.zeros(3, dtype=history.ROW_DTYPE)
    rows["f"], rows["status"] = (Op.TRY, Op.RELEASE, Op.WRITE), Status.OK
    rows["flags"] = (*of_lock, of_resource)
    said = share(rows).why
    assert why in said
    assert bool(why) is bool(said)


def test_stamps_that_no_measurement_confirmed_do_not_count(tmp_path: Path) -> None:
    rows = recorded(tmp_path, (Status.OK,), 0).history.rows
    assert not rows["flags"].any() and not rows["tx"].any() and not rows["rx"].any()


def test_dropped_stamps_do_not_count(tmp_path: Path) -> None:
    with segments.Recorder(tmp_path, "w", {"node": "c1", "processes": [1]}) as record:
        for _ in range(2):
            row = record.invoke(Op.TRY, 1, 0, attempt=1)
            last = record.complete(row, Status.OK, stamped=lambda inv, ret: (inv, ret))
        record.drop_stamps(last)
        record.stamps_good(1 << 60)
    assert [int(f) for f in history.load(tmp_path).history.rows["flags"]] == [LEFT | CAME, 0]


def test_stamps_that_contradict_their_call_leave_its_edges(tmp_path: Path) -> None:
    with segments.Recorder(tmp_path, "w", {"node": "c1", "processes": [1]}) as record:
        row = record.invoke(Op.TRY, 1, 0, attempt=1)
        ret = record.complete(row, Status.OK, stamped=lambda inv, ret: (ret, inv))
        record.stamps_good(1 << 60)
    (found,) = history.load(tmp_path).history.rows
    assert (int(found["flags"]), int(found["t_ret"])) == (0, ret)


def test_the_distance_of_the_clocks_is_known_closely() -> None:
    mirror = Mirror()
    widths = [high - low for low, high in (mirror.look(50) for _ in range(40))]
    mirror.close()
    assert min(widths) < 50_000
