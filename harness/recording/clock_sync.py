"""From the kernel's stamps, on its wall clock, to the clock of the run, on the safe side.

Both clocks are of one host: their distance is one number, until somebody sets the wall clock. It
is not asked of the wall clock itself, for a client under test may be shown a false one: the kernel
stamps a datagram to ourselves, between two looks at the clock of the run. Standard library only.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from holdfast.harness.core.clock import now_ns
from holdfast.harness.core.operations import Stamped
from holdfast.harness.core.ports import CALL
from holdfast.harness.recording.segments import Recorder
from holdfast.harness.recording.timestamped_socket import (
    SO_TIMESTAMPING,
    WANTED,
    Edges,
    Span,
    install,
    span,
)

SO_TIMESTAMPNS = 35
FIRST, AGAIN = 300, 20
"""Looks of the first measurement, and of each later one."""
EVERY_S = 0.1
SLACK_NS = 200
"""Two clocks read by different code of the kernel may differ by so much."""

_STAMP = struct.Struct("qq")


class Mirror:
    """Measures how far the wall clock is ahead of the clock of the run, within two bounds, ns."""

    def __init__(self, now: Callable[[], int] = now_ns) -> None:
        self._now = now
        self._from, self._to = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._to.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    def look(self, times: int) -> tuple[int, int]:
        """(at least, at most), from the tightest of so many looks."""
        low, high = 0, 1 << 62
        for _ in range(times):
            before = self._now()
            self._from.send(b"")
            after = self._now()
            _, notes, _, _ = self._to.recvmsg(0, 64)
            seconds, rest = _STAMP.unpack_from(notes[0][2])
            stamp = seconds * 1_000_000_000 + rest
            if after - before < high - low:
                low, high = stamp - after, stamp - before
        return low - SLACK_NS, high + SLACK_NS

    def close(self) -> None:
        self._from.close()
        self._to.close()


class Steady:
    """The distance of the two clocks, watched: what was stamped around a step does not count.

    look    measures it within two bounds
    agreed  is told up to when all stamps are good
    broken  is told from when on they are not: since the last time that they were
    steps   of the wall clock, so far; an op gives `edges` what it read here when it began
    """

    def __init__(
        self,
        look: Callable[[int], tuple[int, int]],
        agreed: Callable[[int], None],
        broken: Callable[[int], None],
        now: Callable[[], int] = now_ns,
    ) -> None:
        self._look, self._agreed, self._broken, self._now = look, agreed, broken, now
        self._low, self._high = look(FIRST)
        self._good_ns = now()
        self._settled = True
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.steps = 0

    def edges(self, found: Edges, inv_ns: int, ret_ns: int, begun: int) -> Edges:
        """The edges of an op on the clock of the run, 0 where the call's own have to do.

        A send counts as early as it can have been, an arrival as late.
        """
        if not self._settled or begun != self.steps:
            return Edges(0, 0)
        sent = max(inv_ns, found.sent - self._high) if found.sent else 0
        arrived = found.arrived - self._low if found.arrived else 0
        if not sent or sent > ret_ns or found.arrived < found.sent:
            return Edges(sent if inv_ns <= sent <= ret_ns else 0, 0)
        return Edges(sent, min(arrived, ret_ns))

    def check(self) -> None:
        """Measure again. After a step nothing counts until two measurements agree."""
        at = self._now()
        low, high = self._look(AGAIN)
        if low <= self._high and self._low <= high:
            self._low, self._high = max(low, self._low), min(high, self._high)
            if not self._settled:
                # An op that was just being recorded when the step was seen may have slipped in.
                self._broken(self._good_ns)
                self._settled = True
            self._good_ns = at
            self._agreed(at)
            return
        self._settled = False
        self.steps += 1
        self._low, self._high = low, high
        self._broken(self._good_ns)

    def start(self) -> None:
        """Measure ten times a second from now on, in a thread of its own."""
        self._thread = threading.Thread(target=self._watch, name="steady", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(EVERY_S):
            self.check()

    def close(self) -> None:
        """Measure a last time, so that stamps up to now count."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self.check()


class _Watch:
    """One op under way; a class, for as a generator it would cost each op some microseconds."""

    __slots__ = ("_begun", "_seen", "_steady")

    def __init__(self, steady: Steady, seen: Span) -> None:
        self._steady, self._seen = steady, seen

    def __enter__(self) -> Stamped:
        self._begun = self._steady.steps
        self._seen.__enter__()
        return self._edges

    def __exit__(self, *_: object) -> None:
        self._seen.__exit__()

    def _edges(self, inv_ns: int, ret_ns: int) -> tuple[int, int]:
        return self._steady.edges(self._seen.edges(), inv_ns, ret_ns, self._begun)


class KernelStamps:
    """The stamps of one worker: asked for by `watch` around each call, watched over by `Steady`."""

    def __init__(self, recorder: Recorder, *, alone: bool) -> None:
        """`alone`: the process has one client, so that all its sockets are that client's."""
        self._alone = alone
        # The kernel begins to stamp arrivals for the first socket that wants it, soon after.
        self._wakes = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._wakes.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, WANTED)
        self._mirror = Mirror()
        self._steady = Steady(self._mirror.look, recorder.stamps_good, recorder.drop_stamps)
        install()
        self._steady.start()

    def watch(self, wire: str) -> AbstractContextManager[Stamped | None]:
        """As `rows.Stamps`; nothing where a client's sockets cannot be told from another's."""
        if wire != CALL and not self._alone:
            return nullcontext()
        return _Watch(self._steady, span(wire))

    def close(self) -> None:
        """The stamps up to now count, if the clock has not been set."""
        self._steady.close()
        self._mirror.close()
        self._wakes.close()


def kernel_stamps(recorder: Recorder, *, alone: bool) -> KernelStamps | None:
    """None where this kernel stamps nothing: then the edges of the calls have to do."""
    try:
        return KernelStamps(recorder, alone=alone)
    except (OSError, IndexError, struct.error):
        return None
