"""Schedules faults: one per period at a random time, with fault-free time on both sides."""

from __future__ import annotations

import random
from collections.abc import Mapping

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.durations import duration_ns, duration_text, positive_ns
from holdfast.harness.core.errors import UsageError

EVERY_NS = 5 * SECOND
LEASE = "2s"
SHORT, LONG = (0.05, 0.6), (0.6, 3.0)
"""Lengths of a fault, in leases, of those that straddle a lease."""
TIMING = {"at": duration_ns, "every": positive_ns, "for": positive_ns, "lease": positive_ns}
"""Options of every nemesis: `at` (one fault, at this time) or `every` (one per period), `for`
(length of a fault), `lease` (of the run's locks; the defaults of the others follow from it)."""


def lease_ns(options: Mapping[str, str]) -> int:
    """The lease of the run's locks."""
    return duration_ns(options.get("lease", LEASE))


def slots(
    nemesis: str,
    rng: random.Random,
    options: Mapping[str, str],
    span_ns: int,
    *,
    leases: float = 1.5,
    straddles: bool = False,
) -> list[tuple[int, int]]:
    """(at_ns, for_ns) of each fault in a run of `span_ns`, in order; all heal before the end.

    A fault lasts `leases` leases, so that a holder loses its lock meanwhile, and by default at most
    2/3 of its period; at least 1/5 of the rest is fault-free before it, and after it. A short run
    gets one fault: of a third of the run if a longer one does not fit and no length is given, none
    if the given one does not fit. With the option `at` there is one, at that time.

    straddles   without the option `for`, lengths are sampled on both sides of a lease: what a
                server forgets shows only if it is back before the leases that it had granted end,
                what a client does without its lease only after that
    Errors: UsageError.
    """
    for_ns = duration_ns(options.get("for", "0s")) or int(lease_ns(options) * leases)
    if "at" in options:
        return [(_fixed(nemesis, options, for_ns, span_ns), for_ns)]
    every_ns = duration_ns(options.get("every", "0s")) or max(EVERY_NS, for_ns * 3 // 2)
    if straddles and "for" not in options and every_ns <= for_ns:
        return _straddling(rng, lease_ns(options), every_ns, span_ns)
    if for_ns < 0 or every_ns <= for_ns:
        default = "" if "for" in options else f", the default: {leases:g} leases"
        raise UsageError(
            f"nemesis {nemesis}: invalid for={duration_text(for_ns)}{default} with"
            f" every={duration_text(every_ns)}: expected `every` > `for`"
        )
    if "for" not in options and span_ns <= for_ns * 5 // 4:
        for_ns, every_ns = max(span_ns // 3, 1), max(span_ns, 1)
    if for_ns * 5 // 4 < span_ns < every_ns:
        every_ns = span_ns
    if straddles and "for" not in options:
        return _straddling(rng, lease_ns(options), every_ns, span_ns)
    quiet_ns = every_ns - for_ns
    return [
        (n * every_ns + rng.randint(quiet_ns // 5, quiet_ns * 4 // 5), for_ns)
        for n in range(span_ns // every_ns)
    ]


def _straddling(
    rng: random.Random, lease: int, every_ns: int, span_ns: int
) -> list[tuple[int, int]]:
    """One fault per period, two short ones and two long ones in turn, none longer than a third of
    the run. A kind with targets in turn so strikes the first two of them for a short time."""
    most_ns = min(every_ns * 3 // 5, max(span_ns // 3, 1))
    sampled = []
    for n in range(span_ns // every_ns):
        low, high = LONG if n % 4 > 1 else SHORT
        for_ns = min(most_ns, int(lease * rng.uniform(low, high)))
        quiet_ns = every_ns - for_ns
        at_ns = n * every_ns + rng.randint(quiet_ns // 5, quiet_ns * 4 // 5)
        sampled.append((at_ns, for_ns))
    return sampled


def _fixed(nemesis: str, options: Mapping[str, str], for_ns: int, span_ns: int) -> int:
    """The time of the one fault that `at` asks for. Errors: UsageError."""
    at_ns = duration_ns(options["at"])
    if "every" in options:
        raise UsageError(f"nemesis {nemesis}: at is for one fault, every for many: leave out one")
    if at_ns + for_ns > span_ns:
        raise UsageError(
            f"nemesis {nemesis}: invalid at={options['at']} with for={duration_text(for_ns)}: the"
            f" fault must end within {duration_text(max(0, span_ns))}"
        )
    return at_ns
