"""Writes big run directories of a correct lease lock, to be judged by anybody's checker.

Run: `python benchmarks/run_directory.py OUT [--ops N] [--clients N] [--locks N] [--unknown 0.2]
[--writes N] [--violation] [--seed N]`, then `holdfast check OUT/*` or `holdfast export`.

Clients of a lock take turns in a queue. Every `lapse`-th holder is stopped until its lease has run
out: it is told so, writes too late, is refused, and its release is turned down. A share of the
answers is lost. `--violation` makes one grant fall into another's proved hold.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from holdfast import catalogue
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from holdfast.harness.history.reader import ROW_DTYPE
from holdfast.harness.plans.manifest import to_table
from holdfast.harness.plans.plan import Plan, to_toml
from holdfast.harness.recording.segments import write_closed
from holdfast.harness.runs import directory
from holdfast.harness.runs.directory import RunDir
from holdfast.planning import prepare
from holdfast.planning.resolve import resolve

Ints = npt.NDArray[np.int64]
Columns = dict[str, Ints]

TURN_NS = 2 * MILLISECOND
LEASE_NS = SECOND
START_NS = 1000 * SECOND
LAPSED_NS = LEASE_NS + 100 * MILLISECOND
STRINGS = ("", "expired", "timed out")


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """What a run directory is to hold.

    ops        rows of lock clients, about; the resource's log comes on top
    clients    per lock; locks: each with clients of its own
    unknown    share of the answers to acquires, releases and writes that were lost
    writes     by each holder; none: acquires and releases only
    lapse      every so many holders one is stopped until its lease is over; 0: none
    violation  one grant falls into the hold before it
    """

    ops: int = 1_000_000
    clients: int = 10
    locks: int = 1
    unknown: float = 0.2
    writes: int = 0
    lapse: int = 5000
    violation: bool = False
    seed: int = 7


NOT_DRAWN = (
    "grant-notice",
    "bounded-bypass",
    "bounded-wait",
    "truthful-queries",
    "no-multi-lock-deadlock",
    "applied-once",
    "exactly-once-job",
    "durable-grants",
)
"""Turns go round whoever asked first; nobody queries, waits inside, sends twice or does jobs, and
no server loses power."""


class _Drawn:
    """The grants of all locks: one turn each, lock by lock side by side."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.rng = np.random.default_rng(shape.seed)
        turns = max(shape.ops // (2 + shape.writes) // shape.locks, 2 * shape.clients)
        self.turns, n = turns, turns * shape.locks
        turn = np.tile(np.arange(turns), shape.locks)
        self.lock = np.repeat(np.arange(shape.locks), turns)
        self.process = 1 + self.lock * shape.clients + turn % shape.clients
        self.attempt = self.process << 32 | (turn // shape.clients + 1)
        self.token = turn + 1
        self.lapsed = np.zeros(n, bool)
        if shape.lapse:
            self.lapsed = (turn % shape.lapse == shape.lapse // 2) & (turn < turns - shape.clients)
        self.lost = (self.rng.random(n) < shape.unknown) & ~self.lapsed
        self.silent = (self.rng.random(n) < shape.unknown) & ~self.lapsed & ~self.lost
        length = np.where(self.lapsed, LAPSED_NS, TURN_NS).reshape(shape.locks, turns)
        begun = np.cumsum(length, axis=1) - length
        self.granted = START_NS + shape.clients * TURN_NS + begun.ravel() + self.lock * 7
        self.known = self.granted + self.rng.integers(20_000, 200_000, n)
        self.over = self.granted + TURN_NS * 3 // 4 + self.rng.integers(0, 100_000, n)
        self.over[self.lapsed] = self.granted[self.lapsed] + LAPSED_NS + TURN_NS
        self.back = self.over + self.rng.integers(20_000, 200_000, n)
        self.asked = self._asked()
        if shape.violation:
            self._plant()

    def _asked(self) -> Ints:
        """A client asks again when its last turn is over."""
        shape, back = self.shape, self.back.reshape(self.shape.locks, self.turns)
        asked = np.full_like(back, START_NS)
        asked[:, : shape.clients] += np.arange(shape.clients) * 1000
        asked[:, shape.clients :] = back[:, : -shape.clients] + 50_000
        return asked.ravel()

    def _plant(self) -> None:
        """A grant that is known before its predecessor, proved by its release, has let go."""
        late = int(np.flatnonzero(~self.lapsed[1:] & ~self.lapsed[:-1])[self.turns // 2]) + 1
        for one in (late - 1, late):
            self.lost[one] = self.silent[one] = False
        self.known[late] = self.granted[late - 1] + TURN_NS // 2

    def calls(self) -> list[Columns]:
        """The clients' rows, kind by kind; `served` marks a write that reached the resource."""
        every = np.arange(len(self.lock))
        held = np.flatnonzero(~self.lost)
        late = np.flatnonzero(self.lapsed)
        waiting = np.flatnonzero(self.asked + MILLISECOND < self.granted)
        answer = np.where(self.lost, int(Status.INFO), int(Status.OK))
        token = np.where(self.lost, NO_TOKEN, self.token)
        wait_ns = LAPSED_NS * (2 + self.shape.clients // max(self.shape.lapse, 1))
        lease = np.where(self.lost, 0, LEASE_NS)
        freed = np.where(self.silent, int(Status.INFO), int(Status.OK))
        freed[self.lapsed] = int(Status.NOT_OWNER)
        told = self.granted[late] + LEASE_NS + 10 * MILLISECOND
        rows = [
            self._rows(Op.ACQUIRE, every, self.asked, self.known, answer, token=token,
                       arg=LEASE_NS, res=lease, aux=wait_ns, err=2 * self.lost),
            self._rows(Op.WAITING, waiting, self.asked[waiting] + 300_000, None, Status.OK, res=-1),
            self._rows(Op.LOST, late, told, None, Status.OK, res=1),
            self._rows(Op.RELEASE, held, self.over[held], self.back[held],
                       freed[held], token=self.token[held]),
        ]  # fmt: skip
        return [*rows, *(self._writes(held, n) for n in range(self.shape.writes))]

    def _writes(self, held: Ints, n: int) -> Columns:
        """The n-th write of every holder. A stopped one sends its last after the next has begun."""
        step = TURN_NS // 2 // self.shape.writes
        sent = self.known[held] + 1000 + n * step
        if n == self.shape.writes - 1:
            sent = np.where(self.lapsed[held], self.granted[held] + LAPSED_NS + TURN_NS // 2, sent)
        answers = self.rng.random(len(held)) >= self.shape.unknown
        status = np.where(answers, int(Status.OK), int(Status.INFO))
        back = sent + step * 3 // 4
        return self._rows(
            Op.WRITE, held, sent, back, status, token=self.token[held], arg=-1, served=1
        )

    def _rows(
        self, op: Op, which: Ints, inv: Ints, ret: Ints | None, status: Any, **more: Any
    ) -> Columns:
        columns = {
            "f": op, "t_inv": inv, "t_ret": inv if ret is None else ret, "status": status,
            "attempt": self.attempt[which], "process": self.process[which],
            "key": self.lock[which], "token": NO_TOKEN, "arg": 0, "res": 0, "aux": 0, "err": 0,
            "served": 0, **more,
        }  # fmt: skip
        return {name: np.broadcast_to(value, len(which)) for name, value in columns.items()}


def _joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _numbered(columns: Columns) -> tuple[Columns, Ints]:
    """In order of process and time, with each row's number in its writer's segment."""
    order = np.lexsort((columns["t_inv"], columns["process"]))
    columns = {name: column[order] for name, column in columns.items()}
    process = columns["process"]
    return columns, np.arange(len(process)) - np.searchsorted(process, process)


def _served(columns: Columns, number: Ints) -> Columns:
    """The resource's log, and what it makes of the clients' writes: refused where it refuses."""
    sent = np.flatnonzero(columns["served"])
    moment = (columns["t_inv"][sent] + columns["t_ret"][sent]) // 2
    order = np.lexsort((moment, columns["key"][sent]))
    sent, moment = sent[order], moment[order]
    key, token = columns["key"][sent], columns["token"][sent]
    stretch = int(token.max(initial=0)) + 1
    highest = np.maximum.accumulate(token + key * stretch) - key * stretch
    before = np.where(np.diff(key, prepend=-1) != 0, NO_TOKEN, np.roll(highest, 1))
    accepted = token >= before
    total = np.cumsum(accepted)
    first = np.flatnonzero(np.diff(key, prepend=-1))
    version: Ints = total - np.repeat(total[first] - accepted[first], np.diff([*first, len(key)]))
    refused = sent[~accepted]
    for name, value in (("status", int(Status.FAIL)), ("res", 0)):
        columns[name] = columns[name].copy()
        columns[name][refused] = value
    columns["res"][sent[accepted]] = version[accepted]
    columns["arg"] = columns["arg"].copy()
    columns["arg"][sent] = version - accepted
    log = {
        "f": np.full(len(sent), int(Op.SERVED_WRITE)), "t_inv": moment, "t_ret": moment,
        "status": np.where(accepted, int(Status.OK), int(Status.FAIL)),
        "attempt": columns["attempt"][sent], "process": columns["process"][sent], "key": key,
        "token": token, "arg": version - accepted, "res": version, "aux": before,
        "op": columns["process"][sent] << 32 | number[sent],
    }  # fmt: skip
    order = np.argsort(moment, kind="stable")
    return {name: column[order] for name, column in log.items()}


def _packed(columns: Columns, which: Any, first_key: int) -> bytes:
    rows = np.zeros(len(columns["f"][which]), ROW_DTYPE)
    for name in set(columns) - {"served", "key"}:
        rows[name] = columns[name][which]
    rows["key"] = columns["key"][which] + first_key
    return rows.tobytes()


def _probes(drawn: _Drawn, at_ns: int) -> Columns:
    """A fresh client asks for every lock once more."""
    locks, process = np.arange(drawn.shape.locks), 1 + drawn.shape.clients * drawn.shape.locks
    columns: dict[str, Any] = {
        "f": Op.PROBE, "t_inv": at_ns + locks * MILLISECOND, "status": Status.OK,
        "t_ret": at_ns + locks * MILLISECOND + 200_000, "attempt": process << 32 | (locks + 1),
        "process": process, "key": locks, "token": drawn.turns + 1, "arg": LEASE_NS,
        "res": LEASE_NS, "aux": SECOND, "err": 0, "served": 0,
    }  # fmt: skip
    return {name: np.broadcast_to(value, len(locks)) for name, value in columns.items()}


def write(shape: Shape, out: Path) -> RunDir:
    """A run directory under `out`, which `holdfast check` judges. Its path is in the answer."""
    drawn = _Drawn(shape)
    columns, number = _numbered(_joined(drawn.calls()))
    served = _served(columns, number) if shape.writes else None
    last_ns = int(columns["t_ret"].max())
    clients = shape.clients * shape.locks
    plan = Plan(system="reference", backend="sim", workload="critical-section", clients=clients,
                resource="fenced", seed=shape.seed, time_ns=last_ns - START_NS,
                lease_ns=LEASE_NS, locks=shape.locks)  # fmt: skip
    run = directory.create(out, f"drawn-{shape.ops}-{shape.locks}-{shape.seed}")
    manifest = prepare.manifest(resolve(plan), run.path.name, "python benchmarks/run_directory.py")
    asks = [prop for prop in catalogue.CHECKERS if prop not in NOT_DRAWN]
    table = to_table(replace(manifest, asks=asks))
    directory.write_json(run.manifest, {**table, "drawn": asdict(shape)})
    run.plan.write_text(to_toml(plan, exact=True))
    locks = [f"lock{n}" for n in range(shape.locks)]
    strings = (*STRINGS, *locks)
    edges = np.searchsorted(columns["process"], np.arange(1, clients + 2))
    for process in range(1, clients + 1):
        mine = slice(int(edges[process - 1]), int(edges[process]))
        meta = {"writer": f"c{process}", "node": f"c{process}", "processes": [process]}
        write_closed(run.history, {**meta, "role": "client"}, strings, _packed(columns, mine, 3))
    end_ns = last_ns + 2 * LAPSED_NS
    probes = _probes(drawn, end_ns)
    meta = {"writer": "probe", "node": "probe", "processes": [clients + 1], "role": "probe"}
    write_closed(run.history, meta, strings, _packed(probes, slice(None), 3))
    if served is not None:
        meta = {"writer": "resource", "node": "resource", "processes": [], "role": "resource"}
        write_closed(run.history, meta, strings, _packed(served, slice(None), 3))
    marks = {"start": START_NS, "stop": last_ns + MILLISECOND, "end": end_ns + SECOND}
    for mark, t_ns in marks.items():
        directory.append(run.times, {"mark": mark, "t_ns": t_ns, "problems": []})
    return run


def main() -> None:
    """Write one run directory and say where it lies."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ops", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=10, help="per lock")
    parser.add_argument("--locks", type=int, default=1)
    parser.add_argument("--unknown", type=float, default=0.2)
    parser.add_argument("--writes", type=int, default=0)
    parser.add_argument("--lapse", type=int, default=5000)
    parser.add_argument("--violation", action="store_true")
    parser.add_argument("--seed", type=int, default=7)
    given = vars(parser.parse_args())
    out = given.pop("out")
    sys.stdout.write(f"{write(Shape(**given), out).path}\n")


if __name__ == "__main__":
    main()
