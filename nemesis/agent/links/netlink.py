"""Netlink messages to netfilter: a packet queue answered by this process, and a rule that fills it.

The rule is for hosts whose nftables has no `queue` statement. Numbers are those of
linux/netfilter/{nfnetlink,nfnetlink_queue,nf_tables,nf_tables_compat}.h.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

from holdfast.nemesis.agent.nft import NetworkFailed

NETFILTER, REQUEST, ACK, CREATE, APPEND = 12, 1, 4, 0x400, 0x800
ERROR = 2
BATCH_BEGIN, BATCH_END, NEW_RULE = 0x10, 0x11, 10 << 8 | 6
PACKET, VERDICT, CONFIG = 3 << 8, 3 << 8 | 1, 3 << 8 | 2
SOL_NETLINK, NO_ENOBUFS = 270, 5
TABLES, IPV4 = 10, socket.AF_INET
NESTED = 0x8000
HEADER_BYTES = 20
"""Copied of each packet: its IPv4 header."""
MOST_QUEUED = 16384
BUFFER_BYTES = 1 << 20
BOUND_S = 1.0


def attribute(kind: int, data: bytes) -> bytes:
    """One attribute, padded to 4 bytes."""
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def message(kind: int, flags: int, body: bytes, *, family: int = 0, resource: int = 0) -> bytes:
    """One message to a netfilter subsystem. `resource`: a queue's number, for one."""
    content = struct.pack(">BBH", family, 0, resource) + body
    return struct.pack("=IHHII", 16 + len(content), kind, REQUEST | flags, 0, 0) + content


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(kind, content) of each attribute."""
    for kind, content in _parts(data, "=HH"):
        yield kind & 0x3FFF, content


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(kind, content) of each message of a datagram."""
    return _parts(data, "=IHHII")


def _parts(data: bytes, header: str) -> Iterator[tuple[int, bytes]]:
    """(kind, content) of parts that begin with their length and kind, padded to 4 bytes each."""
    at, begin = 0, struct.calcsize(header)
    while at + begin <= len(data):
        length, kind, *_ = struct.unpack_from(header, data, at)
        if length < begin:
            return
        yield kind, data[at + begin : at + length]
        at += length + -length % 4


def opened() -> socket.socket:
    """A socket to netfilter in the network of the calling thread. Errors: NetworkFailed."""
    try:
        made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETFILTER)
        made.bind((0, 0))
        # A lost message would be a packet that stays in the queue.
        made.setsockopt(SOL_NETLINK, NO_ENOBUFS, 1)
        with suppress(OSError):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    except OSError as failure:
        raise NetworkFailed(f"netlink: {failure.strerror}") from failure
    made.settimeout(BOUND_S)
    return made


def bind_queue(plug: socket.socket, number: int) -> None:
    """Packets of this queue come to the socket, as many bytes of each as its IPv4 header has.

    A full queue lets packets through; large packets are not segmented. Errors: NetworkFailed.
    """
    bind = attribute(1, struct.pack(">BBH", 1, 0, IPV4))
    copy = attribute(2, struct.pack(">IB", HEADER_BYTES, 2))
    longest = attribute(3, struct.pack(">I", MOST_QUEUED))
    fail_open, whole = 1, 4
    flags = attribute(5, struct.pack(">I", fail_open | whole))
    mask = attribute(4, struct.pack(">I", fail_open | whole))
    for body in (bind, copy + longest + flags + mask):
        plug.send(message(CONFIG, ACK, body, resource=number))
        _acknowledged(plug, f"queue {number}")


def packet(body: bytes) -> tuple[int, str, int]:
    """(id, source address, length) of a queued packet."""
    fields = dict(attributes(body[4:]))
    header = fields.get(10, b"")
    source = socket.inet_ntoa(header[12:16]) if len(header) >= HEADER_BYTES else ""
    length = struct.unpack(">I", fields[13])[0] if 13 in fields else len(header)
    return struct.unpack_from(">I", fields[1])[0], source, length


def accepted(number: int, packet_id: int) -> bytes:
    """The message that lets a queued packet through."""
    return message(VERDICT, 0, attribute(2, struct.pack(">II", 1, packet_id)), resource=number)


def queue_rule(table: str, chain: str, source: str, number: int) -> bytes:
    """The messages that add the rule `ip saddr SOURCE counter` and the queue of xtables.

    The rule passes packets on if no process reads the queue.
    """
    expressions = (
        _expression("payload", {1: _u32(1), 2: _u32(1), 3: _u32(12), 4: _u32(4)}),
        _expression("cmp", {1: _u32(1), 2: _u32(0), 3: attribute(1, socket.inet_aton(source))}),
        _expression("counter", {}),
        _expression(
            "target",
            {1: b"NFQUEUE\0", 2: _u32(3), 3: struct.pack("=HHHxx", number, 1, 1)},
        ),
    )
    body = attribute(1, table.encode() + b"\0") + attribute(2, chain.encode() + b"\0")
    body += attribute(4 | NESTED, b"".join(expressions))
    return (
        message(BATCH_BEGIN, 0, b"", resource=TABLES)
        + message(NEW_RULE, CREATE | APPEND | ACK, body, family=IPV4)
        + message(BATCH_END, 0, b"", resource=TABLES)
    )


def add_rule(messages_of_rule: bytes) -> None:
    """Sends the messages of one rule. Errors: NetworkFailed."""
    with opened() as plug:
        plug.send(messages_of_rule)
        _acknowledged(plug, "rule for a packet queue")


def _acknowledged(plug: socket.socket, what: str) -> None:
    """Waits for the kernel's answer to one request. Errors: NetworkFailed."""
    try:
        for kind, body in messages(plug.recv(65536)):
            code = -struct.unpack_from("=i", body)[0] if kind == ERROR else errno.EPROTO
            if code:
                raise NetworkFailed(f"{what}: {os.strerror(code)}")
    except OSError as failure:
        raise NetworkFailed(f"{what}: {failure}") from failure


def _u32(number: int) -> bytes:
    return struct.pack(">I", number)


def _expression(name: str, data: dict[int, bytes]) -> bytes:
    parts = b"".join(
        attribute(kind | (NESTED if name == "cmp" and kind == 3 else 0), value)
        for kind, value in data.items()
    )
    inner = attribute(1, name.encode() + b"\0") + attribute(2 | NESTED, parts)
    return attribute(1 | NESTED, inner)
