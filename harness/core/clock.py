"""The clock of a run: integer nanoseconds of CLOCK_BOOTTIME.

All processes and containers of a host share it, it never steps, and the clock nemesis never
changes it (it patches wall and monotonic time only), so timestamps of a skewed client are correct.
"""

from __future__ import annotations

import time

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
LARGEST = 1 << 62
"""Upper bound of whole numbers in a run: two of them can be added in 64 bits."""


def now_ns() -> int:
    """Nanoseconds since the host booted; equal in every process of the host."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
