"""What an exact verdict on a big lock history costs, beside one np.sort of a column of it.

Run: `python benchmarks/checking.py [--ops N] [--locks N] [--unknown 0.2] [--violation] [--out F]`.
The history is drawn from a seed, one with two permits for the semaphore; `--out` writes it as JSON
lines, for another checker to read. The sizes are measured in turns, so that what else the machine
does falls on all of them; CPU is the best of the rounds, all threads together. The number to
compare with other machines is the ratio to the sort. What an op takes more of at one size than at
the one before is printed beside the same of the sort, which feels the caches too. Memory is what a
verdict takes at its peak on top of the history, in a round of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from holdfast.checkers.linearizability.exact.pairing import LockColumns
from holdfast.checkers.linearizability.exact.rules import Rule, conflicts
from holdfast.harness.core.operations import NO_TOKEN
from holdfast.interpreter import build

ROUNDS = 7
TURN = 1000
"""From one grant of a lock to the next, ns."""
RULES = {
    "owner-mutex": Rule(),
    "fenced": Rule(tokens=True),
    "lease-mutex": Rule(leases=True),
    "rw": Rule(readers=True),
    "semaphore:2": Rule(limit=2),
}


def drawn(
    ops: int,
    *,
    clients: int,
    locks: int,
    unknown: float,
    violation: bool,
    seed: int,
    permits: int = 1,
) -> LockColumns:
    """A history of `ops` acquires and releases, in order of invocation, of locks that are correct
    but for one planted holder too many; half of the acquires are shared ones.

    Every grant has a moment, a turn after the last one of its lock and permit. Its acquire was
    asked up to `clients` turns before; its release is called within the turn and answered up to
    two later. A share of the answers is lost.
    """
    rng = np.random.default_rng(seed)
    attempts = ops // 2
    lanes = locks * permits
    lane = np.arange(attempts) % lanes
    lock = lane // permits
    granted = (np.arange(attempts) // lanes) * TURN + lane
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
        late = (attempts // 2 // lanes + 1) * lanes
        for early in range(late - lanes, late - lanes + permits):
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
        shared=(rng.random(attempts) < 0.5)[attempt][order],
        attempts=attempts,
        locks=locks,
    )


def cpu_ms(works: Sequence[Callable[[], object]]) -> list[float]:
    """The least CPU milliseconds of each, all threads, measured in turns."""
    rounds = []
    for _ in range(ROUNDS):
        took = []
        for work in works:
            begun = time.process_time_ns()
            work()
            took.append((time.process_time_ns() - begun) / 1e6)
        rounds.append(took)
    return [min(each) for each in zip(*rounds, strict=True)]


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
    make = partial(
        drawn,
        clients=args.clients,
        locks=args.locks,
        unknown=args.unknown,
        violation=args.violation,
        seed=args.seed,
    )
    if args.out is not None:
        write(make(args.ops[-1]), args.out)
    rng = np.random.default_rng(args.seed)
    shuffled = [rng.permutation(make(ops).ret) for ops in args.ops]
    sorts = cpu_ms([partial(np.sort, column) for column in shuffled])
    del shuffled
    sys.stdout.write("np.sort of one column\n")
    for at, ops in enumerate(args.ops):
        sys.stdout.write(f"{ops:>12} ops {sorts[at]:9.1f} ms CPU{grown(args.ops, sorts, at)}\n")
    for name, rule in RULES.items():
        show(name, [make(ops, permits=rule.limit) for ops in args.ops], rule, sorts)


def grown(sizes: Sequence[int], spent: Sequence[float], at: int) -> str:
    """How much more an op took than at the size before; nothing for the first size."""
    if not at:
        return ""
    share = spent[at] / sizes[at] / (spent[at - 1] / sizes[at - 1])
    return f", {100 * (share - 1):+.0f} % an op"


def show(name: str, histories: Sequence[LockColumns], rule: Rule, sorts: Sequence[float]) -> None:
    """A line for each size about what a verdict costs."""
    sizes = [len(columns) for columns in histories]
    spent = cpu_ms([partial(conflicts, columns, rule) for columns in histories])
    sys.stdout.write(f"{name}\n")
    for at, columns in enumerate(histories):
        tracemalloc.start()
        found = conflicts(columns, rule)
        peak = tracemalloc.get_traced_memory()[1] >> 20
        tracemalloc.stop()
        said = f"VIOLATED ({len(found)})" if found else "HOLDS"
        sys.stdout.write(
            f"{sizes[at]:>12} ops {spent[at]:9.1f} ms CPU{grown(sizes, spent, at)},"
            f" {spent[at] / sorts[at]:.2f} of the sort, {peak} MiB more: {said}\n"
        )


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
    main()
