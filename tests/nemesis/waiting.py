"""Waits for a condition with a bound."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_S = 0.0001


def wait_until(condition: Callable[[], bool], deadline_ns: int) -> bool:
    """Whether the condition came true before the deadline (CLOCK_MONOTONIC, nanoseconds)."""
    while not condition():
        if time.monotonic_ns() > deadline_ns:
            return False
        time.sleep(POLL_S)
    return True
