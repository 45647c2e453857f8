"""Sockets with kernel timestamps behave as plain ones do, and give none where they are unsure."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable

import pytest

from holdfast.harness.core.ports import CALL, CLIENT
from holdfast.harness.recording import timestamped_socket
from holdfast.harness.recording.timestamped_socket import (
    LONGEST_SEND,
    NO_EDGES,
    SO_TIMESTAMPING,
    Edges,
    Span,
    StampedSocket,
    WideSpan,
    span,
)
from tests.harness.test_stamping import WARM_NS, connected, warm
from tests.harness.test_stamping import echo as _echo

echo = _echo


class Plug:
    """A socket of which a test says what the kernel told."""

    def __init__(self, arrived: int = 0, spoilt: bool = False) -> None:
        self.arrived, self.spoilt = arrived, spoilt


@pytest.mark.parametrize(
    ("plugs", "edges"),
    [
        ([], Edges(7, 0)),
        ([Plug(0)], Edges(7, 0)),
        ([Plug(9), Plug(12), Plug(11)], Edges(7, 12)),
        ([Plug(9), Plug(0)], Edges(7, 9)),
        ([Plug(9), Plug(-1)], Edges(7, 0)),
        ([Plug(-1), Plug(12)], Edges(7, 0)),
        ([Plug(9, spoilt=True), Plug(12)], NO_EDGES),
    ],
)
def test_an_op_ends_with_the_last_arrival_on_sockets_that_are_all_reliable(
    plugs: list[StampedSocket], edges: Edges
) -> None:
    seen = span(CALL)
    seen.sent, seen.sockets = 7, [*plugs]
    assert seen.edges() == edges


@pytest.mark.parametrize(
    ("closed", "sent", "edges"),
    [
        ([], 7, Edges(7, 0)),
        ([], 0, NO_EDGES),
        ([Plug(0)], 7, Edges(7, 0)),
        ([Plug(9), Plug(12), Plug(11)], 7, Edges(7, 12)),
        ([Plug(-1), Plug(12)], 7, Edges(7, 0)),
        ([Plug(-1, spoilt=True)], 7, NO_EDGES),
        ([Plug(12), Plug(12, spoilt=True)], 7, NO_EDGES),
        ([Plug(12)], 0, NO_EDGES),
    ],
)
def test_an_op_of_a_client_counts_sockets_that_were_closed_before_it_ended(
    closed: list[StampedSocket], sent: int, edges: Edges, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timestamped_socket, "_plugs", set())
    seen = span(CLIENT)
    assert isinstance(seen, WideSpan)
    seen.sent = sent
    for plug in closed:
        seen.ended(plug)
    assert seen.edges() == edges


def received(plug: StampedSocket, count: int) -> bytes:
    """That many bytes."""
    found = b""
    while len(found) < count:
        data = plug.recv(count - len(found))
        assert data, "closed"
        found += data
    return found


def test_sockets_that_carry_no_stream_over_ip_are_as_they_were() -> None:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    kinds = [(socket.AF_UNIX, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM)]
    plain = StampedSocket(fileno=left.detach())
    with plain, right:
        assert plain.send(b"ab") == 2
        plain.sendall(b"cd")
        assert right.recv(9) == b"abcd"
        right.sendall(b"efgh")
        space = bytearray(2)
        assert (plain.recv(2), plain.recv_into(space), bytes(space)) == (b"ef", 2, b"gh")
    for family, kind in kinds:
        with StampedSocket(family, kind) as plug:
            assert plug.getsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING) == 0


def test_timestamps_begin_with_the_first_byte_and_not_before(echo: tuple[str, int]) -> None:
    with connected(echo) as plug:
        assert plug.getsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING) == 0
        plug.sendall(b"x")
        wanted = timestamped_socket.WANTED
        assert plug.getsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING) == wanted


@pytest.mark.parametrize("send", ["send", "sendall"])
@pytest.mark.parametrize("read", ["recv", "recv_into"])
def test_bytes_arrive_whole_however_they_are_sent_and_read(
    echo: tuple[str, int], send: str, read: str
) -> None:
    with connected(echo) as plug:
        for n in range(1, 40):
            data = bytes([n]) * n
            told = getattr(plug, send)(data)
            assert told == (n if send == "send" else None)
            if read == "recv":
                assert received(plug, n) == data
                continue
            space, got = bytearray(b"." * (n + 3)), 0
            while got < n:
                got += plug.recv_into(memoryview(space)[got:], n - got)
            assert bytes(space) == data + b"...", "no more than was asked for"


def test_what_is_only_looked_at_stays_and_is_no_arrival(echo: tuple[str, int]) -> None:
    with connected(echo) as plug:
        warm(plug)
        plug.arrived = 0
        plug.sendall(b"xy")
        assert plug.recv(2, socket.MSG_PEEK | socket.MSG_WAITALL) == b"xy"
        space = bytearray(2)
        assert plug.recv_into(space, 2, socket.MSG_PEEK) == 2 and plug.arrived == 0
        assert received(plug, 2) == b"xy" and plug.arrived > 0


def test_the_end_of_a_connection_is_no_arrival(echo: tuple[str, int]) -> None:
    with connected(echo) as plug:
        warm(plug)
        plug.shutdown(socket.SHUT_WR)
        before, space = plug.arrived, bytearray(1)
        assert plug.recv(1) == b"" and plug.recv_into(space) == 0
        assert plug.arrived == before > 0


@pytest.mark.parametrize(("size", "known"), [(LONGEST_SEND, True), (LONGEST_SEND + 1, False)])
def test_only_a_send_that_leaves_in_one_packet_has_the_time_of_its_first_byte(
    echo: tuple[str, int], size: int, known: bool
) -> None:
    with connected(echo) as plug:
        warm(plug)
        with span(CALL) as seen:
            plug.sendall(b"x" * size)
            received(plug, size)
        assert bool(seen.sent) is known


def sent_in(plug: StampedSocket) -> Callable[[Span], int]:
    """Sends a byte and gets it back within an op; when it left."""

    def act(seen: Span) -> int:
        with seen:
            plug.sendall(b"x")
            received(plug, 1)
        return seen.sent

    return act


def test_each_op_has_the_time_of_its_own_first_send_on_any_socket(echo: tuple[str, int]) -> None:
    with connected(echo) as one, connected(echo) as other:
        warm(one)
        warm(other)
        times = [sent_in(plug)(span(CALL)) for plug in (one, other, one, one, other)]
        assert times == sorted(set(times)) and times[0] > 0
        with span(CALL) as seen:
            one.sendall(b"x")
            received(one, 1)
            first = seen.sent
            other.sendall(b"x")
            received(other, 1)
        assert seen.sent == first and seen.edges() == Edges(first, other.arrived)
        assert other.arrived > one.arrived and seen.sockets == [one, other]


def test_ops_inside_each_other_count_for_the_inner_one_and_for_that_of_the_client(
    echo: tuple[str, int],
) -> None:
    with connected(echo) as plug:
        warm(plug)
        with span(CLIENT) as whole, span(CALL) as outer:
            with span(CALL) as inner:
                plug.sendall(b"x")
                received(plug, 1)
            assert outer.sent == 0 and not outer.sockets
            assert inner.sent == whole.sent > 0
            plug.sendall(b"y")
            received(plug, 1)
        assert outer.sent > inner.sent == whole.sent
        assert sent_in(plug)(span(CALL)) > outer.sent, "no op is left behind"


def test_two_threads_that_send_at_once_spoil_a_socket(echo: tuple[str, int]) -> None:
    with connected(echo) as plug:
        warm(plug)
        inside, go_on = threading.Event(), threading.Event()

        def send(one: socket.socket, data: bytes, flags: int) -> int:
            inside.set()
            assert go_on.wait(20)
            return len(data)

        first = threading.Thread(target=lambda: plug._stamped(send, b"x", 0))
        first.start()
        assert inside.wait(20)
        assert not plug.spoilt
        plug.sendall(b"y")
        go_on.set()
        first.join(20)
        assert plug.spoilt and received(plug, 1) == b"y"


def test_a_send_that_was_cut_short_spoils_and_a_whole_one_does_not(echo: tuple[str, int]) -> None:
    for sent, spoilt in ((3, False), (2, True), (0, True)):
        with connected(echo) as plug:
            warm(plug)
            assert plug._stamped(lambda one, data, flags, n=sent: n, b"abc", 0) == sent
            assert plug.spoilt is spoilt


@pytest.mark.parametrize(
    "use",
    [
        lambda plug: plug.recvfrom(1),
        lambda plug: plug.recvfrom_into(bytearray(1)),
        lambda plug: plug.recvmsg(1),
        lambda plug: plug.recvmsg_into([bytearray(1)]),
        lambda plug: plug.sendmsg([b"z"]),
        lambda plug: plug.sendto(b"z", plug.getpeername()),
        lambda plug: plug.dup().close(),
    ],
)
def test_every_other_way_to_use_a_socket_works_and_spoils_it(
    echo: tuple[str, int], use: Callable[[StampedSocket], object]
) -> None:
    with connected(echo) as plug:
        warm(plug)
        plug.sendall(b"x")
        assert not plug.spoilt
        use(plug)
        assert plug.spoilt


def test_code_that_takes_the_descriptor_gets_it_without_timestamps(echo: tuple[str, int]) -> None:
    plug = connected(echo)
    warm(plug)
    taken = socket.socket(fileno=plug.detach())
    with taken:
        taken.settimeout(WARM_NS / 1e9)
        assert taken.getsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING) == 0
        taken.sendall(b"xy")
        assert taken.recv(2, socket.MSG_WAITALL) == b"xy"
    assert plug.fileno() == -1
    unused = StampedSocket(socket.AF_INET, socket.SOCK_STREAM)
    socket.socket(fileno=unused.detach()).close()


def test_tls_over_such_a_socket_narrows_nothing_and_ends_with_its_own_error(
    echo: tuple[str, int],
) -> None:
    plug = connected(echo)
    warm(plug)
    with span(CALL) as seen, pytest.raises(ssl.SSLError):
        # The echo of a greeting is no greeting.
        ssl.create_default_context().wrap_socket(plug, server_hostname="localhost")
    assert seen.edges() == NO_EDGES


def test_a_socket_that_was_closed_may_be_closed_and_dropped_again(echo: tuple[str, int]) -> None:
    plug = connected(echo)
    warm(plug)
    number = plug.fileno()
    plug.close()
    with socket.create_server(("127.0.0.1", 0)) as other:
        # The number is free, and usually this socket's.
        plug.close()
        del plug
        assert other.fileno() >= 0 and other.getsockname()[1] > 0
    with pytest.raises(OSError, match="Bad file descriptor"):
        socket.socket(fileno=number)


def test_every_library_of_a_process_gets_such_sockets(
    echo: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socket", socket.socket)  # undone after the test
    timestamped_socket.install()
    with socket.create_connection(echo) as plug:
        assert isinstance(plug, StampedSocket)
        warm(plug)
        with span(CALL) as seen, contextlib.closing(plug.makefile("rwb")) as file:
            file.write(b"line\n")
            file.flush()
            assert file.readline() == b"line\n"
        assert seen.edges().arrived >= seen.sent > 0
