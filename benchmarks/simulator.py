"""How fast the simulator is, per second of CPU: three loads, and what each of them spends it on.

`python -m benchmarks.simulator [ROUNDS] [LOAD ...]`
A row of numbers is the best of a few rounds, for other work on the machine only ever adds; the
yardstick beside it is a bare Python loop in the same minute, to compare machines by. The run is
counted, from its first event to its last; the judging of its history is not.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from types import FrameType
from typing import Any

import numpy as np

from holdfast import catalogue
from holdfast.engine.seed_search import warm
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import ROW_FIELDS, Op
from holdfast.harness.plans.plan import Plan
from holdfast.interpreter import build
from holdfast.planning import prepare
from holdfast.planning.resolve import resolve

ROUNDS = 5
TOLD = (Op.WAITING, Op.LOST, Op.CLOSED, Op.HEARTBEAT)
"""rows of a client that are no op of its own"""

DEFAULT: Sequence[tuple[str, dict[str, str]]] = (
    ("partition", {}),
    ("pause", {}),
    ("kill", {}),
    ("clock", {}),
    ("freeze", {}),
)
"""the usual faults, as a plan has them that only names them"""

WEATHER = {"sim_loss_ppm": "1000", "sim_double_ppm": "1000", "sim_sync_us": "2000"}
ALL_KINDS: Sequence[tuple[str, dict[str, str]]] = (
    ("partition", {"shape": "isolate"}),
    ("partition", {"shape": "halves"}),
    ("partition", {"shape": "one-way", "way": "in"}),
    ("pause", {}),
    ("freeze", {}),
    ("kill", {}),
    ("clock", {"step": "2s"}),
    ("clock", {"rate": "1.5"}),
)
"""eight kinds of fault; with loss, doubling and reordering of frames in WEATHER eleven"""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What is measured: the number that counts, plans, and what is asked of it."""

    name: str
    says: str
    plans: Sequence[Plan]
    counts: str
    wanted: int


def plan(seed: int, seconds: int, **rest: Any) -> Plan:
    """Three servers of the reference service and five clients."""
    usual: dict[str, Any] = {"system": "reference", "backend": "sim", "nodes": 3, "clients": 5}
    return prepare.complete(Plan(**usual, seed=seed, time_ns=seconds * SECOND, **rest))


def loads() -> list[Load]:
    """The three loads."""
    seeds = (7, 8, 9)
    calm = {"think_ms": "200", "gap_ms": "60"}
    return [
        Load(
            name="faults",
            says="11 kinds of fault, one busy lock",
            plans=[plan(s, 20, nemeses=ALL_KINDS, options=WEATHER) for s in seeds],
            counts="client ops",
            wanted=15_000,
        ),
        Load(
            name="saturated",
            says="no faults, five locks, clients that never pause",
            plans=[
                plan(s, 3, locks=5, options={"think_ms": "1", "gap_ms": "0"}) for s in seeds[:1]
            ],
            counts="client ops",
            wanted=25_000,
        ),
        Load(
            name="default",
            says="the five usual nemeses, clients that think for 0.2 s and write every 60 ms",
            plans=[plan(s, 30, nemeses=DEFAULT, options=calm) for s in seeds],
            counts="simulated s",
            wanted=500,
        ),
    ]


def carry_out(plans: Sequence[Plan]) -> Counter[str]:
    """Simulated ns, events, client ops and CPU ns of some plans."""
    total: Counter[str] = Counter()
    for chosen in plans:
        manifest = prepare.manifest(resolve(chosen), "benchmark", "")
        gc.collect()
        begun = time.process_time_ns()
        done = load(catalogue.BACKENDS["sim"].entry)(manifest)
        total["cpu"] += time.process_time_ns() - begun
        total["virtual"] += done.virtual_ns
        total["events"] += done.events
        for recorder in done.recorders:
            if recorder.meta["role"] != "resource":
                kinds = np.frombuffer(recorder.packed(), np.dtype([*ROW_FIELDS]))["f"]
                total["ops"] += int((~np.isin(kinds, TOLD)).sum())
    return total


def yardstick_ns() -> float:
    """One turn of an empty loop."""
    begun = time.process_time_ns()
    for _ in range(300_000):
        pass
    return (time.process_time_ns() - begun) / 300_000


def where(act: Callable[[], object]) -> Counter[str]:
    """Samples of CPU time by what it is spent on, each counted where it stands."""
    found: Counter[str] = Counter()

    def look(number: int, frame: FrameType | None) -> None:
        found[_part(frame)] += 1

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    try:
        act()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return found


PARTS = {
    "backends/sim/connection": "network",
    "backends/sim/network": "network",
    "reference/wire": "network",
    "backends/sim": "engine",
    "reference/consensus": "consensus",
    "reference/locks": "lock state machine",
    "reference/service": "server",
    "reference": "client",
    "workloads": "client",
    "harness": "client",
    "nemesis": "faults",
}


def _part(frame: FrameType | None) -> str:
    """Whose code this is; what the standard library does is done for whoever called it."""
    while frame is not None:
        file = frame.f_code.co_filename
        for ending, part in PARTS.items():
            if f"/{ending}" in file and "holdfast" in file:
                return part
        frame = frame.f_back
    return "other"


def measured(chosen: Load, rounds: int) -> str:
    """The line of one load."""
    best = min((carry_out(chosen.plans) for _ in range(rounds)), key=itemgetter("cpu"))
    cpu_s, virtual_s = best["cpu"] / SECOND, best["virtual"] / SECOND
    got = virtual_s / cpu_s if chosen.counts == "simulated s" else best["ops"] / cpu_s
    found = where(lambda: carry_out(chosen.plans))
    shares = ", ".join(f"{part} {n / found.total():.0%}" for part, n in found.most_common(7))
    return (
        f"{chosen.name}: {got:,.0f} {chosen.counts} per CPU s (wanted: {chosen.wanted:,});"
        f" {chosen.says}\n"
        f"    {best['ops'] / cpu_s:,.0f} ops and {virtual_s / cpu_s:,.0f} simulated s per CPU s;"
        f" {best['ops'] / virtual_s:.0f} ops and {best['events'] / virtual_s:.0f} events per"
        f" simulated s; {best['events'] / best['ops']:.1f} events an op,"
        f" {best['cpu'] / best['events'] / 1000:.1f} us an event\n"
        f"    {shares}\n"
    )


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
    warm()
    words = sys.argv[1:]
    rounds = int(words.pop(0)) if words[:1] and words[0].isdecimal() else ROUNDS
    for row in loads():
        if not words or row.name in words:
            sys.stdout.write(measured(row, rounds))
            sys.stdout.flush()
    best_ns = min(yardstick_ns() for _ in range(5))
    sys.stdout.write(f"yardstick: {best_ns:.1f} ns for one turn of an empty loop\n")
