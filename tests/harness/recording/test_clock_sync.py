"""Which ops of a worker are timestamped, and how long measurements of the clocks go on."""

from __future__ import annotations

import queue
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.harness.core.operations import LEFT, Op, Status
from holdfast.harness.core.ports import CALL, CLIENT
from holdfast.harness.history import reader
from holdfast.harness.recording import clock_sync
from holdfast.harness.recording.clock_sync import (
    Mirror,
    MonitoredOffset,
    kernel_stamps,
)
from holdfast.harness.recording.segments import Recorder
from tests.harness.test_stamping import connected
from tests.harness.test_stamping import echo as _echo

echo = _echo


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    monkeypatch.setattr(socket, "socket", socket.socket)  # undone after the test
    with Recorder(tmp_path, "c1", {"node": "c1", "processes": [1]}) as made:
        yield made


@pytest.mark.parametrize(
    ("alone", "wire", "known"),
    [(True, CALL, True), (True, CLIENT, True), (False, CALL, True), (False, CLIENT, False)],
)
def test_sockets_of_several_clients_are_told_apart_by_their_calls_only(
    recorder: Recorder, alone: bool, wire: str, known: bool
) -> None:
    stamps = kernel_stamps(recorder, alone=alone)
    assert stamps is not None
    with stamps.watch(wire) as stamped:
        assert (stamped is not None) is known
    stamps.close()


def test_an_op_that_was_sent_over_a_socket_has_the_time_of_its_send(
    recorder: Recorder, echo: tuple[str, int], tmp_path: Path
) -> None:
    stamps = kernel_stamps(recorder, alone=True)
    assert stamps is not None
    with connected(echo) as plug:
        for sends in (True, False):
            row = recorder.invoke(Op.TRY, 1, 0, attempt=1)
            with stamps.watch(CALL) as stamped:
                if sends:
                    plug.sendall(b"x")
                    plug.recv(1)
                recorder.complete(row, Status.OK, stamped=stamped)
    stamps.close()
    sent, silent = reader.load(tmp_path).history.rows
    assert sent["flags"] & LEFT and sent["tx"] > 0 and sent["t_inv"] < sent["t_ret"]
    assert silent["flags"] == 0


def test_a_kernel_without_timestamps_leaves_the_edges_of_calls(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = socket.socket
    monkeypatch.setattr(clock_sync, "SO_TIMESTAMPING", 9999)
    assert kernel_stamps(recorder, alone=True) is None
    assert socket.socket is plain, "sockets stay as they are"


def test_the_clocks_are_compared_again_and_again_while_there_are_ops_and_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clock_sync, "EVERY_S", 0.001)
    measured: queue.Queue[int] = queue.Queue()
    agreed: list[int] = []

    def look(times: int, enough_ns: int) -> tuple[int, int]:
        measured.put(times)
        steady.used()
        return 10, 20

    steady = MonitoredOffset(lambda times, enough_ns: (10, 20), agreed.append, lambda at: None)
    steady._look = look
    steady.used()
    steady.start()
    assert [measured.get(timeout=20) for _ in range(4)] == [clock_sync.AGAIN] * 4
    steady.close()
    taken = measured.qsize()
    assert taken >= 1 and len(agreed) == 4 + taken and agreed == sorted(agreed)
    assert steady._thread is not None and not steady._thread.is_alive()


def test_the_tightest_of_all_samples_bounds_the_distance_of_the_clocks() -> None:
    def looked(*readings: int) -> tuple[int, int]:
        times = iter(readings)
        mirror = Mirror(lambda: next(times))
        try:
            return mirror.look(len(readings) // 2)
        finally:
            mirror.close()

    slack = 2 * clock_sync.SLACK_NS
    for readings, width in (
        ((0, 900), 900),
        ((0, 900, 1000, 1040), 40),
        ((0, 40, 1000, 1900), 40),
        ((0, 500, 600, 603, 700, 9000), 3),
    ):
        low, high = looked(*readings)
        assert high - low == width + slack
