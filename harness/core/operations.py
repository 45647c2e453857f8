"""Types of a history: operations, outcomes, and the row that records one operation.

Standard library only: this file is shipped to containers and to libraries' own environments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum


class Status(IntEnum):
    """Outcome of an op for its caller. A killed writer leaves INVOKED, judged like INFO."""

    EMPTY = 0
    INVOKED = 1
    OK = 2
    FAIL = 3
    INFO = 4
    NOT_OWNER = 5


class Op(IntEnum):
    """Kind of a row. `COLUMNS` has the meaning of its columns."""

    ACQUIRE = 1
    TRY = 2
    RENEW = 3
    RELEASE = 4
    WAITING = 5
    LOST = 6
    CLOSED = 7
    FORCE_UNLOCK = 8
    HEARTBEAT = 9
    READ = 10
    WRITE = 11
    SERVED_READ = 12
    SERVED_WRITE = 13
    PROBE = 14
    HOLDER = 15
    PLACE = 16
    CHECK = 17
    LENGTH = 18
    ARRIVED = 19


COLUMNS: dict[Op, dict[str, str]] = {
    Op.ACQUIRE: {
        "arg": "lease asked for, ns (0: none)",
        "res": "lease granted, ns",
        "aux": "longest wait, ns (-1: no bound)",
        "op": "its terms: bit 0 may come in again; bits 1 to 7 priority; from bit 8 on, of a"
        " semaphore permits asked for << 16 | permits there are, else the only newest token that"
        " it may follow + 1 (0: any)",
        "token": "fencing token (-1: none)",
    },
    Op.TRY: {
        "arg": "lease asked for, ns",
        "res": "lease granted, ns",
        "aux": "0",
        "op": "its terms, as of an acquire",
        "token": "fencing token (-1: none)",
    },
    Op.PROBE: {
        "arg": "lease asked for, ns",
        "res": "lease granted, ns",
        "aux": "longest wait, ns",
        "token": "fencing token (-1: none)",
    },
    Op.RENEW: {"arg": "lease asked for, ns", "res": "lease granted, ns", "token": "as held"},
    Op.RELEASE: {
        "token": "as held",
        "res": "1 + how many entries its owner still has in the lock, as answered ok: 1 is fully"
        " released; 0 where the service does not say",
    },
    Op.WAITING: {
        "res": "place in the queue (0: next; -1: unknown); an answer that the attempt still waits,"
        " or, for a polling client, one refused poll"
    },
    Op.ARRIVED: {
        "res": "when the service read the request of this acquire that it answered first, by the"
        " run's clock as its host has it, ns; a service that measures itself says so with the grant"
    },
    Op.LOST: {
        "res": "reason, index into the writer's strings; t_inv = t_ret = when the client was told"
    },
    Op.CLOSED: {"res": "reason, index into the writer's strings; the session or connection ended"},
    Op.FORCE_UNLOCK: {"token": "of the hold that the operator ended (-1: whoever)"},
    Op.HEARTBEAT: {"arg": "session id", "res": "session lease granted, ns"},
    Op.HOLDER: {
        "token": "of the hold that was named (-1: nobody holds)",
        "res": "renewals that it was said to have had (-1: it was not said)",
        "spent": "how long it was said to have lasted, and how much of its lease to be left, as"
        " `spent` packs them",
        "err": "of an ok: the text that it was said to carry, index into the writer's strings",
    },
    Op.PLACE: {
        "res": "how many wait before this attempt, as answered (-1: it does not wait); of a query"
        " that the service never answers the status is FAIL"
    },
    Op.LENGTH: {"res": "how many wait for the lock, as answered"},
    Op.CHECK: {"token": "of the hold that was asked about; ok: it is in force, fail: it is not"},
    Op.READ: {"res": "version read", "token": "sent with it"},
    Op.WRITE: {
        "arg": "version it builds on (-1: blind)",
        "res": "version written, as answered",
        "aux": "how many times more it is sent under its identity (ONCE: it is named by its key)",
        "token": "sent with it",
    },
    Op.SERVED_READ: {
        "op": "the request: client's process << 32 | row number in its segment",
        "arg": "highest token admitted before",
        "res": "version read",
        "token": "that came with it",
    },
    Op.SERVED_WRITE: {
        "op": "the request: client's process << 32 | row number in its segment",
        "arg": "version it builds on (-1: blind)",
        "res": "version after it",
        "aux": "highest token admitted before",
        "token": "that came with it",
    },
}
"""Meaning of arg, res, aux, token and op per kind of row. Every row also has:

t_inv, t_ret   time of call and return, ns of CLOCK_BOOTTIME (t_ret 0 until it returned)
attempt        process << 32 | n, one per acquire, also in all later rows of its hold (0: none)
key            lock or resource name, index into the writer's strings
err            error text, index into the writer's strings (0: none)
process        number of the logical client
mode           `Mode` of an acquire
late           delay of the call after its planned time, us (0: in time, or not planned)
tx, rx         delay of the request's departure after the call, and of the return after the
               response's arrival, by kernel timestamps, ns; valid where `flags` is set
spent          two durations measured by the service, see `spent`; of an acquire: waiting for its
               proposal, and for its commit
flags          LEFT | CAME: edges with a kernel timestamp
status         `Status`, written last
SERVED_* rows are the resource's own log, in its own order: OK = accepted, FAIL = rejected.
"""

NO_TOKEN = -1
ONCE = -1
"""In column aux of a write: an idempotent command, identified by its key, which takes effect once
from any client."""

CANCELLED = "cancelled by a fault"
"""Error text of a call that a fault of the client's own cancelled."""

CHANGED = "changed"
"""Prefix of the error text of a FAIL that means: the lock's newest token is another one."""

LEFT, CAME = 1, 2
"""Bits of `flags`. A merged history is narrowed by them: its t_inv is the departure of the request,
t_ret the arrival of the response; the call itself is t_inv - tx to t_ret + rx."""
Stamped = Callable[[int, int], tuple[int, int]]
"""(call, return) -> times of the request's departure and the response's arrival; 0: unknown."""
LONGEST_STAMP = (1 << 32) - 1
"""Maximum of tx and rx; a longer duration is recorded as this one, which narrows less."""

ROW_BYTES = 96
ROW_FORMAT = "<qqqqqqqqIIIIIIBBBBI"
"""struct layout of a row, in the order of ROW_FIELDS."""

ROW_FIELDS: tuple[tuple[str, str], ...] = (
    ("t_inv", "<i8"),
    ("t_ret", "<i8"),
    ("attempt", "<i8"),
    ("token", "<i8"),
    ("arg", "<i8"),
    ("res", "<i8"),
    ("aux", "<i8"),
    ("op", "<i8"),
    ("tx", "<u4"),
    ("rx", "<u4"),
    ("process", "<u4"),
    ("key", "<u4"),
    ("err", "<u4"),
    ("late", "<u4"),
    ("f", "u1"),
    ("flags", "u1"),
    ("mode", "u1"),
    ("status", "u1"),
    ("spent", "<u4"),
)


def spent(first_ns: int | None, second_ns: int | None) -> int:
    """Packs two durations measured by the service for column `spent`; 0: not reported.

    The first in the low half, the second above it: each as one more than exponent << 11 |
    fraction, of microseconds, rounded down by less than a thousandth (and by less than a
    microsecond).
    """
    return _rounded(second_ns) << 16 | _rounded(first_ns)


def _rounded(span_ns: int | None) -> int:
    if span_ns is None:
        return 0
    us = max(0, span_ns) // 1000
    exponent = max(0, us.bit_length() - 11)
    return min((exponent << 11 | us >> exponent) + 1, (1 << 16) - 1)


class Mode(IntEnum):
    """Mode of an acquire."""

    EXCLUSIVE = 0
    SHARED = 1
    PERMITS = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """Terms of an acquire, other than lease and longest wait.

    permits, limit   of a semaphore (Mode.PERMITS): requested permits, existing permits
    reenter          reentrant: granted if the requesting client is the only holder
    newest           granted only while this is the lock's newest token (0: it was never
                     granted), NO_TOKEN for always
    priority         larger is granted first, if the service supports it; 0 is the lowest
    metadata         text of the hold, returned by queries
    """

    mode: Mode = Mode.EXCLUSIVE
    permits: int = 1
    limit: int = 1
    reenter: bool = False
    newest: int = NO_TOKEN
    priority: int = 0
    metadata: str = ""

    def packed(self) -> int:
        """Terms packed into column `op` of an acquire."""
        rest = self.permits << 16 | self.limit if self.mode is Mode.PERMITS else self.newest + 1
        return rest << 8 | self.priority << 1 | self.reenter


PLAIN = Terms()


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """Result of one call to a lock service, in a uniform form.

    outcome  OK: took effect. FAIL: certainly no effect. NOT_OWNER: the service reports that this
             attempt does not hold. INFO: unknown, may take effect at any time after the call began.
    token    fencing token, NO_TOKEN if the service has none
    ttl_ns   lease granted, 0 if the hold does not expire
    error    one line from the service or library; empty if there was none
    spent    durations reported by the service, packed by `spent`; 0: not reported
    left     entries that the holder still has in the lock after an ok release; -1: not reported
    """

    outcome: Status
    token: int = NO_TOKEN
    ttl_ns: int = 0
    error: str = ""
    spent: int = 0
    left: int = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """A grant, as the client keeps it: what it must present to act as owner."""

    lock: str
    attempt: int
    token: int
    ttl_ns: int
    granted_at_ns: int


def carried(attempt: int) -> str:
    """The metadata text of an attempt's hold, which identifies the attempt."""
    return f"process {attempt >> 32}, acquire {attempt & 0xFFFFFFFF}"


def attempt_id(process: int, n: int) -> int:
    """The identity of the n-th attempt of a client: unique in a run."""
    return process << 32 | n


GENERATION = 1000
"""A restarted client is a new logical client: this is added to its process number."""


def client_names(nodes: Mapping[int, str]) -> dict[int, str]:
    """A name for each logical client, by process number, from the names of their nodes.

    The first client of a node has the node's name, another one of the node its number beside it,
    and a restarted one how often it was restarted: c4, c1.p6, c4.1.
    """
    first: dict[str, int] = {}
    for process, node in nodes.items():
        first[node] = min(first.get(node, GENERATION), process % GENERATION)
    found = {}
    for process, node in nodes.items():
        again, number = divmod(process, GENERATION)
        name = node if number == first[node] else f"{node}.p{number}"
        found[process] = f"{name}.{again}" if again else name
    return found


def attempt_name(clients: Mapping[int, str], attempt: int) -> str:
    """An attempt in words: "c4.1/12", the 12th of c4 after its first restart. clients: names of
    the logical clients, as `client_names` has them."""
    process = attempt >> 32
    return f"{clients.get(process, f'p{process}')}/{attempt & 0xFFFFFFFF}"


DELAY, PRESSURE = "delay", "pressure"
"""Kinds: the process was delayed; processes on its host waited for CPU nearly all the time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Starved:
    """A span on the run's clock. kind: DELAY, of the process on `node`; PRESSURE, of its host."""

    node: str
    kind: str
    from_ns: int
    to_ns: int
