"""Converts the kernel's timestamps, on its wall clock, to the clock of the run, conservatively.

Both clocks are of one host, so their offset is constant until the wall clock is set. It is not read
from the wall clock, which a fault may falsify for a client under test: the kernel timestamps a
datagram to ourselves, between two readings of the clock of the run. Standard library only.
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
"""Samples of the first measurement, and of each later one at most."""
EVERY_S = 0.1
SLACK_NS = 200
"""Maximum difference of two clocks that different code of the kernel reads."""

_STAMP = struct.Struct("qq")


class Mirror:
    """Measures the offset of the wall clock from the clock of the run: two bounds, ns."""

    def __init__(self, now: Callable[[], int] = now_ns) -> None:
        self._now = now
        self._from, self._to = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._to.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)

    def look(self, times: int, enough_ns: int = 0) -> tuple[int, int]:
        """(at least, at most), from the tightest of this number of samples, or from the first one
        that is as tight as `enough_ns`."""
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
                if high - low <= enough_ns:
                    break
        return low - SLACK_NS, high + SLACK_NS

    def close(self) -> None:
        self._from.close()
        self._to.close()


class MonitoredOffset:
    """The monitored offset of the two clocks: timestamps around a step do not count.

    look    measures it: two bounds, at once if they are as tight as its second argument, ns
    agreed  receives the time up to which all timestamps are valid
    broken  receives the time since which they are not: the last time at which they were
    steps   steps of the wall clock so far; an op passes to `edges` the number at its beginning
    """

    def __init__(
        self,
        look: Callable[[int, int], tuple[int, int]],
        agreed: Callable[[int], None],
        broken: Callable[[int], None],
        now: Callable[[], int] = now_ns,
    ) -> None:
        self._look, self._agreed, self._broken, self._now = look, agreed, broken, now
        self._low, self._high = look(FIRST, 0)
        self._good_ns = now()
        self._settled = True
        self._over = threading.Event()
        self._used = False
        self._idle = False
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self.steps = 0

    def edges(self, found: Edges, inv_ns: int, ret_ns: int, begun: int) -> Edges:
        """The edges of an op on the clock of the run, 0 where those of the call apply.

        A send counts as early as possible, an arrival as late as possible.
        """
        if not self._settled or begun != self.steps:
            return Edges(0, 0)
        sent = max(inv_ns, found.sent - self._high) if found.sent else 0
        arrived = found.arrived - self._low if found.arrived else 0
        if not sent or sent > ret_ns or found.arrived < found.sent:
            return Edges(sent if inv_ns <= sent <= ret_ns else 0, 0)
        return Edges(sent, min(arrived, ret_ns))

    def check(self) -> None:
        """Measures again. After a step no timestamp counts until two measurements agree."""
        at = self._now()
        # Twice the width of what is known: nearly every sample is that tight, and a step that such
        # a sample does not show is shorter than three times that width.
        low, high = self._look(AGAIN, 2 * (self._high - self._low))
        if low <= self._high and self._low <= high:
            self._low, self._high = max(low, self._low), min(high, self._high)
            if not self._settled:
                # An op that was being recorded when the step was detected may have been counted.
                self._broken(self._good_ns)
                self._settled = True
            self._good_ns = at
            self._agreed(at)
            return
        self._settled = False
        self.steps += 1
        self._low, self._high = low, high
        self._broken(self._good_ns)

    def used(self) -> None:
        """An op begins or has ended: it counts only if a later measurement agrees."""
        self._used = True
        if self._idle:
            self._wake.set()

    def start(self) -> None:
        """Measures 10 times per second from now on while there are ops, in a separate thread."""
        self._thread = threading.Thread(target=self._watch, name="steady", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.is_set():
            self._wake.clear()
            self._idle = True
            # The order matters: an op that has not seen `_idle` has set `_used` before.
            if not self._used and self._settled and not self._over.is_set():
                self._wake.wait()
            self._idle = False
            if self._over.wait(EVERY_S):
                return
            # An op that ends during this measurement is covered by the next one.
            self._used = False
            self.check()

    def close(self) -> None:
        """Measures a last time, so that timestamps up to now count."""
        self._over.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self.check()


class _Watch:
    """One op in flight; a class, because a generator would cost each op several microseconds."""

    __slots__ = ("_begun", "_seen", "_steady")

    def __init__(self, steady: MonitoredOffset, seen: Span) -> None:
        self._steady, self._seen = steady, seen

    def __enter__(self) -> Stamped:
        self._begun = self._steady.steps
        self._steady.used()
        self._seen.__enter__()
        return self._edges

    def __exit__(self, *_: object) -> None:
        self._seen.__exit__()
        self._steady.used()

    def _edges(self, inv_ns: int, ret_ns: int) -> tuple[int, int]:
        return self._steady.edges(self._seen.edges(), inv_ns, ret_ns, self._begun)


class KernelStamps:
    """The timestamps of one worker: `watch` collects them, a `MonitoredOffset` validates them."""

    def __init__(self, recorder: Recorder, *, alone: bool) -> None:
        """alone: the process has one client, to which all its sockets belong."""
        self._alone = alone
        # The kernel starts to timestamp arrivals shortly after the first socket requests it.
        self._wakes = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._wakes.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, WANTED)
        self._mirror = Mirror()
        self._steady = MonitoredOffset(
            self._mirror.look, recorder.stamps_good, recorder.drop_stamps
        )
        install()
        self._steady.start()

    def watch(self, wire: str) -> AbstractContextManager[Stamped | None]:
        """As `recorder.Stamps`; nothing if the sockets of several clients are indistinguishable."""
        if wire != CALL and not self._alone:
            return nullcontext()
        return _Watch(self._steady, span(wire))

    def close(self) -> None:
        """Timestamps up to now count, unless the clock was set."""
        self._steady.close()
        self._mirror.close()
        self._wakes.close()


def kernel_stamps(recorder: Recorder, *, alone: bool) -> KernelStamps | None:
    """None if this kernel provides no timestamps: then the edges of the calls apply."""
    try:
        return KernelStamps(recorder, alone=alone)
    except (OSError, IndexError, struct.error):
        return None
