"""What the evidence of a run says of its calls. Apart from all other evidence: a driver reads
histories, and starts without that.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Narrowed:
    """Calls with a response, and those with kernel timestamps at both edges; the same for calls to
    the lock; why not all of these."""

    calls: int = 0
    narrowed: int = 0
    lock_calls: int = 0
    lock_narrowed: int = 0
    why: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallError:
    """One error of one op: `n` calls of `clients` clients ended with it, the first at first_ns.

    Errors that differ only in numbers (ports, ids, times) are one; `error` is the first.
    """

    op: str
    error: str
    n: int
    clients: int
    first_ns: int
    first_process: int
