"""Combines several nemeses into one list of faults, each with its own random stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.durations import duration_text
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.ports import Fault, Nemesis
from holdfast.harness.core.seeds import stream
from holdfast.harness.plans.plan import armed
from holdfast.nemesis.options import unknown
from holdfast.nemesis.timetable import EVERY_NS, lease_ns


def draw_all(
    specs: Sequence[tuple[str, Mapping[str, str]]],
    entries: Mapping[str, Nemesis],
    seed: int,
    span_ns: int,
) -> list[Fault]:
    """All faults of a run of `span_ns`, in time order, with ids f1, f2, ...

    specs    (name, options) of each nemesis
    entries  name -> nemesis

    Each nemesis begins a little later than its predecessor, unless it says `at`, so that they
    overlap but do not start together; the more there are, the rarer each injects faults, or the
    system would never recover.
    Its randomness depends only on the seed, its index and its name. Errors: UsageError with all
    mistakes.
    """
    problems: list[str] = []
    drawn: list[Fault] = []
    stagger_ns = min(span_ns // 20, SECOND)
    for index, (name, options) in enumerate(specs):
        if name not in entries:
            problems.append(f"plan: {unknown('nemesis', name, entries)} (holdfast list nemeses)")
            continue
        later_ns = 0 if "at" in options else index * stagger_ns
        try:
            rng = stream(seed, "nemesis", index, name)
            paced = {**_pace(len(specs), options, span_ns), **options}
            when, within_ns = armed(paced, f"nemesis {name}: ")
            faults = entries[name].draw(rng, paced, span_ns - later_ns - within_ns)
        except UsageError as error:
            problems += error.problems
            continue
        # A fault goes by the name that the plan has for its nemesis, so that a plan repeats it.
        drawn += [
            replace(one, do=name, at_ns=one.at_ns + later_ns, when=when, within_ns=within_ns)
            for one in faults
        ]
    if problems:
        raise UsageError(*problems)
    drawn.sort(key=lambda fault: (fault.at_ns, fault.do))
    return [replace(fault, id=f"f{n}") for n, fault in enumerate(drawn, 1)]


def _pace(many: int, options: Mapping[str, str], span_ns: int) -> dict[str, str]:
    """Default period of one of several nemeses; {} if its options set it or it is the only one."""
    if many < 3 or {"at", "every", "for"} & set(options):
        return {}
    least_ns = lease_ns(options) * 3
    return {
        "every": duration_text(max(least_ns, EVERY_NS, min(EVERY_NS * many // 2, span_ns // 3)))
    }
