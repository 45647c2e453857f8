"""How fast the simulator is, in CPU time: seeds of the swarm, and one busy run without faults."""

from __future__ import annotations

import sys
import time

from holdfast import catalogue
from holdfast.commands import prepare
from holdfast.harness.clock import SECOND
from holdfast.harness.entry import load
from holdfast.harness.plan import Plan
from holdfast.simulating import Tally, one_seed, warm

SEEDS = range(200, 230)


def swarm() -> str:
    """Thirty seeds, judged."""
    tally = Tally()
    for seed in SEEDS:
        tally.add(one_seed(seed, "reference", {}))
    cpu_s, judge_s = tally.cpu_ns / SECOND, tally.judge_ns / SECOND
    return (
        f"swarm: {tally.virtual_ns / SECOND / cpu_s:.0f} simulated s per CPU s,"
        f" {tally.ops / cpu_s:,.0f} rows/s, {tally.events / cpu_s:,.0f} events/s;"
        f" {1000 * (cpu_s + judge_s) / tally.seeds:.0f} ms a seed, {judge_s / cpu_s:.0%} to judge"
    )


def busy() -> str:
    """One lock, five clients that hardly think, no faults."""
    plan = Plan(system="reference", backend="sim", seed=7, nodes=0, time_ns=30 * SECOND)
    plan = prepare.complete(plan)
    begun = time.process_time()
    done = load(catalogue.BACKENDS["sim"].entry)(prepare.manifest(plan, "benchmark", ""))
    cpu_s = time.process_time() - begun
    rows = sum(len(recorder.rows) for recorder in done.recorders)
    speed = done.virtual_ns / SECOND / cpu_s
    return f"busy: {speed:.0f} simulated s per CPU s, {rows / cpu_s:,.0f} rows/s"


if __name__ == "__main__":
    warm()
    one_seed(1, "reference", {})
    sys.stdout.write(f"{swarm()}\n{busy()}\n")
