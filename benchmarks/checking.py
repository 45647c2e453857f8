"""What an exact verdict on a big lock history costs, beside one np.sort of a column of it.

Run: `python benchmarks/checking.py [--ops N] [--locks N] [--unknown 0.2] [--violation] [--out F]`.
The history is drawn from a seed; `--out` writes it as JSON lines, for another checker to read.
CPU is the median of the rounds, all threads together; the number to compare with other machines
is the ratio to the sort.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from holdfast.checkers.models.exact import Rule, conflicts
from holdfast.checkers.models.lock_columns import LockColumns
from holdfast.harness.events import NO_TOKEN

ROUNDS = 7
TURN = 1000
"""From one grant of a lock to the next, ns."""


def drawn(
    ops: int, *, clients: int, locks: int, unknown: float, violation: bool, seed: int
) -> LockColumns:
    """A history of `ops` acquires and releases, in order of invocation, of a lock that is correct
    but for one planted second holder.

    Every grant has a moment, a turn after the lock's last one. Its acquire was asked up to
    `clients` turns before; its release is called within the turn and answered up to two later. A
    share of the answers is lost.
    """
    rng = np.random.default_rng(seed)
    attempts = ops // 2
    lock = np.arange(attempts) % locks
    granted = (np.arange(attempts) // locks) * TURN + lock
    inv = np.concatenate(
        (
            granted - rng.integers(0, clients * TURN, attempts),
            granted + 400 + rng.integers(0, 200, attempts),
        )
    )
    ret = np.concatenate(
        (granted + rng.integers(0, 300, attempts), granted + 700 + rng.integers(0, 2000, attempts))
    )
    ok = rng.random(2 * attempts) >= unknown
    if violation:
        early = attempts // 2
        late = early + locks
        ok[[early, late, attempts + early, attempts + late]] = True
        inv[attempts + early] = ret[attempts + early] = ret[late] + 50
    attempt = np.concatenate((np.arange(attempts), np.arange(attempts)))
    token = np.where(ok, attempt, NO_TOKEN)
    token[attempts:] = NO_TOKEN
    order = np.argsort(inv, kind="stable")
    return LockColumns(
        release=(np.arange(2 * attempts) >= attempts)[order],
        ok=ok[order],
        inv=inv[order],
        ret=ret[order],
        attempt=attempt[order],
        lock=lock[attempt][order],
        token=token[order],
        shared=np.zeros(2 * attempts, bool),
        attempts=attempts,
        locks=locks,
    )


def cpu_ms(work: Callable[[], object]) -> float:
    """Median CPU milliseconds of all threads."""
    rounds = []
    for _ in range(ROUNDS):
        begun = time.process_time_ns()
        work()
        rounds.append((time.process_time_ns() - begun) / 1e6)
    return statistics.median(rounds)


def write(columns: LockColumns, path: Path) -> None:
    """The history as JSON lines of events, a process for every attempt."""
    sure = np.flatnonzero(columns.ok)
    rows = np.concatenate((np.arange(len(columns)), sure))
    edge = np.concatenate((np.zeros(len(columns), np.int64), np.ones(len(sure), np.int64)))
    times = np.concatenate((columns.inv, columns.ret[sure]))
    first = int(times.min())
    with path.open("w") as file:
        for at in np.lexsort((edge, times)).tolist():
            row, ends = int(rows[at]), bool(edge[at])
            released = bool(columns.release[row])
            fields = {
                "process": 2 * int(columns.attempt[row]) + released,
                "type": "ok" if ends else "invoke",
                "f": "release" if released else "acquire",
                "key": int(columns.lock[row]),
                "time": int(times[at]) - first,
                "attempt": int(columns.attempt[row]),
            }
            if ends and not released:
                fields["token"] = int(columns.token[row])
            file.write(json.dumps(fields) + "\n")


def main() -> None:
    """Print what each verdict costs, in CPU and beside the sort."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ops", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--locks", type=int, default=1)
    parser.add_argument("--unknown", type=float, default=0.2)
    parser.add_argument("--violation", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rules = {"owner-mutex": Rule(), "fenced": Rule(tokens=True), "lease-mutex": Rule(leases=True)}
    rules["semaphore:2"] = Rule(limit=2)
    for ops in args.ops:
        columns = drawn(
            ops,
            clients=args.clients,
            locks=args.locks,
            unknown=args.unknown,
            violation=args.violation,
            seed=args.seed,
        )
        if args.out is not None:
            write(columns, args.out)
        shuffled = np.random.default_rng(args.seed).permutation(columns.ret)
        sort = cpu_ms(partial(np.sort, shuffled))
        sys.stdout.write(f"{ops:>10} ops  np.sort of one column {sort:8.1f} ms CPU\n")
        for name, rule in rules.items():
            found = conflicts(columns, rule)
            spent = cpu_ms(partial(conflicts, columns, rule))
            said = f"VIOLATED ({len(found)})" if found else "HOLDS"
            sys.stdout.write(
                f"{'':>10}      {name:<21} {spent:8.1f} ms CPU, {spent / sort:4.2f} of the sort,"
                f" {spent * 1e6 / ops:5.1f} ns an op: {said}\n"
            )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    sys.stdout.write(f"peak memory, the history included: {peak} MiB\n")


if __name__ == "__main__":
    main()
