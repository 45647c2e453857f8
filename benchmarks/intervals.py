"""How wide recorded intervals are, from call edges and from kernel stamps, beside the truth.

Run: `python -m benchmarks.intervals [OPS]`. The truth is what `truth.c` says, compiled here with
gcc. Ten clients of unmodified redis-py in one process, in threads and on asyncio, with and without
a thread that computes; OPS in all. Then two processes, whose newcomer computes, and a server that
grants a lock twice, for about 300 us.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from holdfast.checkers.properties.mutual_exclusion import check
from holdfast.clusters.libraries.environments import fetch
from holdfast.clusters.systems.presets import LEASE
from holdfast.clusters.systems.redis.system import LIBRARIES
from holdfast.harness.core.case import Case, History, Rows
from holdfast.harness.core.operations import CAME, LEFT, Op, Status
from holdfast.harness.core.ports import CALL
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.history import reader
from holdfast.harness.recording.clock_sync import KernelStamps
from holdfast.harness.recording.segments import Recorder
from holdfast.interpreter import build

CLIENTS = 10
NEAR_NS = 1_000_000
PLANT_US = 150
"""With the way there and back, and what the holder needs to wake, about 300 us of overlap."""
PLANTS = 300
SHARES = {"threads": 0.4, "asyncio": 0.4, "threads busy": 0.1, "asyncio busy": 0.1}
GRANTED, REFUSED, PLANTED = 1, 2, 3
ALONE: dict[str, Any] = {"protocol": 2}
"""What the server understands."""


PROMISES = replace(LEASE, bound="none", renew_proves=False, slip_ns=0, drift_ppm=0)


def compiled(folder: Path) -> Path:
    """The server of `truth.c`."""
    out = folder / "truth"
    source = Path(__file__).with_name("truth.c")
    subprocess.run(["gcc", "-O2", "-o", str(out), str(source)], check=True)
    return out


@contextmanager
def truth(program: Path, log: Path, plant_us: int = 0) -> Iterator[int]:
    """The port of a running server; its log is there afterwards."""
    argv = [str(program), str(plant_us), str(log)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None and served.stdin is not None
        yield int(served.stdout.readline())
        served.stdin.close()
        served.wait(60)


def compute() -> None:
    """A thread that never lets go of the interpreter by itself."""

    def forever() -> None:
        while True:
            sum(range(1000))

    threading.Thread(target=forever, daemon=True).start()


class Client:
    """Records what it does as a worker would: `ask` is one op over a connection of redis-py."""

    def __init__(self, recorder: Recorder, stamps: KernelStamps) -> None:
        self.recorder, self.stamps = recorder, stamps

    def ask(self, op: Op, process: int, attempt: int, call: Any) -> bool:
        row = self.recorder.invoke(op, process, 0, attempt=attempt)
        with self.stamps.watch(CALL) as stamped:
            ok = bool(call())
        self.recorder.complete(row, Status.OK if ok else Status.NOT_OWNER, stamped=stamped)
        return ok

    async def asked(self, op: Op, process: int, attempt: int, call: Any) -> bool:
        row = self.recorder.invoke(op, process, 0, attempt=attempt)
        with self.stamps.watch(CALL) as stamped:
            ok = bool(await call())
        self.recorder.complete(row, Status.OK if ok else Status.NOT_OWNER, stamped=stamped)
        return ok


def client(kind: str, port: int, folder: Path, ops: int) -> None:
    """The process under measurement: CLIENTS in a closed loop, `ops` in all."""
    sys.path.insert(0, str(fetch(LIBRARIES)))
    with Recorder(folder, "w", {"node": "c1", "processes": list(range(CLIENTS))}) as recorder:
        stamps = KernelStamps(recorder, alone=False)
        time.sleep(1)
        if kind.endswith("busy"):
            compute()
        one, each = Client(recorder, stamps), ops // CLIENTS
        if kind.startswith("asyncio"):
            asyncio.run(_on_asyncio(one, port, each))
        else:
            _in_threads(one, port, each)
        stamps.close()


def _in_threads(one: Client, port: int, each: int) -> None:
    import redis

    def run(process: int) -> None:
        plug = redis.Redis(port=port, socket_timeout=60, **ALONE)
        plug.ping()
        for n in range(each):
            attempt = process << 32 | (n + 1)
            one.ask(Op.TRY, process, attempt, lambda a=attempt: plug.set(0, a, nx=True, px=9))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def _on_asyncio(one: Client, port: int, each: int) -> None:
    from redis.asyncio import Redis

    async def run(process: int) -> None:
        plug = Redis(port=port, socket_timeout=60, **ALONE)
        await plug.ping()
        for n in range(each):
            attempt = process << 32 | (n + 1)
            await one.asked(
                Op.TRY, process, attempt, lambda a=attempt: plug.set(0, a, nx=True, px=9)
            )
        await plug.aclose()

    await asyncio.gather(*(run(n) for n in range(CLIENTS)))


def call_edges(rows: Rows) -> Rows:
    """The same rows without what the kernel said."""
    wide = rows.copy()
    wide["t_inv"] -= rows["tx"]
    wide["t_ret"] += rows["rx"]
    wide["tx"] = wide["rx"] = wide["flags"] = 0
    return wide


def measured(program: Path, kind: str, ops: int) -> dict[str, Any]:
    """What one kind of client recorded, beside the truth."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with truth(program, folder / "log") as port:
            argv = ["-m", "benchmarks.intervals", "client", kind, str(port), name, str(ops)]
            subprocess.run([sys.executable, *argv], check=True)
        log = np.fromfile(folder / "log", np.int64).reshape(-1, 5)
        rows = reader.load(folder).history.rows
    order, known = np.argsort(rows["attempt"], kind="stable"), np.argsort(log[:, 1], kind="stable")
    rows, log = rows[order], log[known]
    assert np.array_equal(rows["attempt"], log[:, 1]), "the server saw other ops than the client"
    begun, over = log[:, 3], log[:, 4]
    both = rows["flags"] == LEFT | CAME
    wide = call_edges(rows)
    outside = (rows["t_inv"] > begun) | (rows["t_ret"] < over)
    excess = [(r["t_ret"] - r["t_inv"] - (over - begun)) / 1000 for r in (wide, rows)]
    return {
        "ops": len(rows),
        "impossible": int((outside & (begun > 0)).sum()),
        "missing": 1 - float(both.mean()),
        "p99": [float(np.percentile(one, 99)) for one in excess],
        "p99.9": [float(np.percentile(one, 99.9)) for one in excess],
        "kept": [kept(begun, over, one["t_inv"], one["t_ret"]) for one in (wide, rows)],
    }


def kept(begun: Any, over: Any, inv: Any, ret: Any) -> float:
    """Of the pairs truly one after the other, at most NEAR_NS apart, the share recorded so."""
    order = np.argsort(begun, kind="stable")
    begun, over, inv, ret = begun[order], over[order], inv[order], ret[order]
    first = np.searchsorted(begun, over, "right")
    last = np.searchsorted(begun, over + NEAR_NS, "left")
    pairs = found = 0
    for step in range(int((last - first).max(initial=0))):
        one = np.flatnonzero(first + step < last)
        pairs += len(one)
        found += int((ret[one] < inv[first[one] + step]).sum())
    return found / pairs if pairs else 1.0


def partner(role: str, port: int, folder: Path, rounds: int) -> None:
    """One of the two whose lock is granted twice: "holder", or "newcomer", who also computes."""
    sys.path.insert(0, str(fetch(LIBRARIES)))
    import redis

    process = 1 if role == "holder" else 2
    with Recorder(folder, role, {"node": role, "processes": [process]}) as recorder:
        stamps = KernelStamps(recorder, alone=True)
        time.sleep(1)
        if role == "newcomer":
            compute()
        one, plug = Client(recorder, stamps), redis.Redis(port=port, socket_timeout=10, **ALONE)
        plug.ping()
        done = n = 0
        while done < rounds:
            n += 1
            attempt = process << 32 | n
            ask = ("SET", 1, attempt, "NX", "PX", 9)
            if not one.ask(Op.TRY, process, attempt, lambda ask=ask: plug.execute_command(*ask)):
                time.sleep(0.001)
                continue
            if role == "holder":
                try:
                    plug.execute_command("HOLD", 1, attempt)
                except redis.exceptions.RedisError:
                    break
                done += 1
            give = ("DEL", 1, attempt)
            one.ask(Op.RELEASE, process, attempt, lambda give=give: plug.execute_command(*give))
            if (folder / "over").exists():
                break
        stamps.close()


def planted(program: Path) -> dict[str, Any]:
    """How many double grants the checker finds, of call edges and of kernel stamps."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with truth(program, folder / "log", PLANT_US) as port:
            call = [sys.executable, "-m", "benchmarks.intervals", "partner"]
            rest = [str(port), name]
            with subprocess.Popen([*call, "newcomer", *rest, str(1 << 30)]) as newcomer:
                subprocess.run([*call, "holder", *rest, str(PLANTS)], check=True)
                (folder / "over").touch()
                newcomer.wait(60)
        log = np.fromfile(folder / "log", np.int64).reshape(-1, 5)
        found = reader.load(folder).history
    pairs = log[log[:, 0] == PLANTED]
    wide = call_edges(found.rows)
    hits = [
        sum(_judged(found, rows, int(a), int(b)) for b, a in pairs[:, 1:3])
        for rows in (wide, found.rows)
    ]
    gaps = _overlaps(found.rows, pairs) / 1000
    return {
        "planted": len(pairs),
        "found": hits,
        "overlap_us": [float(q) for q in np.percentile(gaps, (10, 50, 90))],
    }


def _overlaps(rows: Rows, pairs: Any) -> Any:
    """From the newcomer's answer to the holder's release, as the kernel stamped them, ns."""
    asked, freed = rows[rows["f"] == Op.TRY], rows[rows["f"] == Op.RELEASE]
    came = dict(zip(asked["attempt"].tolist(), asked["t_ret"].tolist(), strict=True))
    left = dict(zip(freed["attempt"].tolist(), freed["t_inv"].tolist(), strict=True))
    return np.array([left[int(a)] - came[int(b)] for b, a in pairs[:, 1:3] if int(a) in left])


def _judged(found: History, rows: Rows, *attempts: int) -> bool:
    """Whether a history of these attempts alone is found to break exclusion."""
    mine = rows[np.isin(rows["attempt"], attempts)]
    mine = mine[np.argsort(mine["t_inv"], kind="stable")]
    case = Case(
        history=History(rows=mine, strings=found.strings, writers=found.writers),
        promises=PROMISES,
        windows=(),
        asked=("mutual-exclusion",),
        start_ns=int(mine["t_inv"].min()),
        stop_ns=int(mine["t_ret"].max()),
        end_ns=int(mine["t_ret"].max()),
        lease_ns=0,
        options={"resource": "fenced", "workload": "try-lock", "servers": "1"},
    )
    return check(case).verdict is Verdict.VIOLATED


def main(ops: int) -> None:
    """Print one line per kind of client, call edges first, kernel stamps second."""
    sys.stdout.write(f"{build()}\n")
    with tempfile.TemporaryDirectory() as name:
        program = compiled(Path(name))
        total = impossible = 0
        for kind, share in SHARES.items():
            one = measured(program, kind, int(ops * share))
            total, impossible = total + one["ops"], impossible + one["impossible"]
            sys.stdout.write(
                f"{kind:13} {one['ops']:8} ops, wider than the truth p99"
                f" {one['p99'][0]:8.0f} -> {one['p99'][1]:4.0f} us, p99.9"
                f" {one['p99.9'][0]:8.0f} -> {one['p99.9'][1]:4.0f} us, ordered pairs kept"
                f" {one['kept'][0]:.3f} -> {one['kept'][1]:.3f}, impossible {one['impossible']},"
                f" without stamps {one['missing']:.4%}\n"
            )
            sys.stdout.flush()
        sys.stdout.write(f"impossible stamps: {impossible} in {total} ops\n")
        two = planted(program)
        sys.stdout.write(
            f"double grants planted {two['planted']}, overlapping"
            f" {two['overlap_us'][1]:.0f} us (10 % below {two['overlap_us'][0]:.0f}, above"
            f" {two['overlap_us'][2]:.0f}); found from call edges"
            f" {two['found'][0] / two['planted']:.3f}, from kernel stamps"
            f" {two['found'][1] / two['planted']:.3f}\n"
        )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["client", kind, port, folder, ops]:
            client(kind, int(port), Path(folder), int(ops))
        case ["partner", role, port, folder, rounds]:
            partner(role, int(port), Path(folder), int(rounds))
        case []:
            main(1_000_000)
        case [ops]:
            main(int(ops))
        case _:
            sys.exit(2)
