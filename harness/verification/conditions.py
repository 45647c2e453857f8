"""The conditions that rules name, each looked up in the recorded rows; see `rules`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

from holdfast.harness.verification.derived import EXCLUSIVE, INF, OK, SHARED, Run
from holdfast.harness.verification.recorded import ASKS, Rows
from holdfast.harness.verification.rules import OPS, count, permits

JOB = re.compile(r"(.*)#([0-9]+)( done)?", re.S)
READ, WRITE, SERVED_READ, SERVED_WRITE = (
    OPS[name] for name in ("read", "write", "served-read", "served-write")
)


class Row:
    """One recorded row, its columns as attributes; `at` is where it stands in the lists."""

    def __init__(self, rows: Rows, at: int) -> None:
        self._rows, self.at = rows, at

    def __getattr__(self, name: str) -> int:
        return int(getattr(self._rows, name)[self.at])

    @property
    def text(self) -> str:
        """The name of its lock or resource."""
        return self._rows.strings[self.key]


class Conditions:
    """What rules may ask about rows of one run, by name."""

    def __init__(self, run: Run) -> None:
        self.run, self.rows = run, run.rows
        self._grants: dict[int, list[int]] | None = None
        self._chains: dict[int, set[int]] = {}

    def names(self) -> dict[str, Any]:
        """All names that an expression of a rule may use, besides its roles and values."""
        run, promises = self.run, self.run.promises
        return {
            "slack": run.slack_ns,
            "error": run.error_ns,
            "bound": run.bound,
            "order": promises["order"],
            "tokens": promises["tokens"],
            "resource": run.resource,
            "permits": permits,
            "count": count,
            "promised": run.promised,
            "job": job,
            "base": lambda row: row.arg if 0 <= row.arg < row.res else row.res - 1,
            "highest": lambda row: row.aux if row.f == SERVED_WRITE else row.arg,
            "reach": lambda a: run.reach(a.at),
            "until": lambda a: run.until(a.at),
            "lapsed": lambda a: run.possible_end(a.at) + 3_000_000_000,
            "knows": lambda a, row: row.at == run.known(a.at),
            "in_token_order": lambda a: not self._disorder(a.key),
            "disjoint": lambda a: self._disjoint(a.key),
            "unforced": lambda: OPS["force-unlock"] not in self.rows.f,
            "kept": lambda a: not run.releases(a.at),
            "settled": lambda a: not run.revivable(a.at, run.promises),
            "renewals_prove": lambda a: run.believed(a.at)["renew_proves"],
            "says_owned": self._says_owned,
            "distinct": lambda roles: self._distinct(roles),
            "allowed": self._allowed,
            **{
                name: getattr(self, f"_{name}")
                for name in ("proves", "conflict", "met", "apart", "logged", "in_turn", "opens")
            },
            **{
                name: getattr(self, f"_{name}")
                for name in ("confirms", "one_limit", "freed", "calm", "outside", "unrenewed")
            },
            "missing": lambda row: row.at not in self._chain(row.key),
            "undone": self._undone,
        }

    def _proves(self, a: Row, row: Row) -> bool:
        granted = self.run.known(a.at) >= 0
        return granted and (row.at == a.at or row.at in self.run.proving(a.at))

    def _apart(self, a: Row, b: Row) -> bool:
        """Two owners of one lock, or of one line of locks, that are no readers together."""
        return self._met(a, b) and a.process != b.process and not a.mode == b.mode == SHARED

    def _met(self, a: Row, b: Row) -> bool:
        """Whether two rows are about one lock, or about two on one line of a hierarchy."""
        return a.key == b.key or self._on_line(a.text, b.text)

    def _conflict(self, a: Row, b: Row) -> bool:
        return self._met(a, b) and a.process != b.process and not a.mode == b.mode != EXCLUSIVE

    def _on_line(self, a: str, b: str) -> bool:
        paths = self.run.promises.get("subtrees") and a[:1] == b[:1] == "/"
        return bool(paths) and (a.startswith(b + "/") or b.startswith(a + "/"))

    def _logged(self, before: Row, after: Row) -> bool:
        """Whether the resource's log has one row before another."""
        writers = [self.rows.named(row.at)[0] for row in (before, after)]
        if writers[0] == writers[1]:
            return before.at < after.at
        firsts = []
        for writer in writers:
            base = self.rows.base[writer]
            size = next(len(w.rows) // 96 for w in self.rows.writers if w.name == writer)
            served = [at for at in range(base, base + size) if self.rows.f[at] in (12, 13)]
            firsts.append(min(self.rows.t_inv[at] for at in served))
        return firsts[0] < firsts[1]

    def grants(self, key: int) -> list[int]:
        """The acquires of a lock, or of those on a line with it, that were granted for sure."""
        every, text = self.all_grants(), self.rows.strings[key]
        near = [k for k in every if k == key or self._on_line(self.rows.strings[k], text)]
        return [at for k in near for at in every[k]]

    def all_grants(self) -> Mapping[int, list[int]]:
        """Per lock the acquires that were granted for sure."""
        if self._grants is None:
            self._grants = {}
            status, key = self.rows.status, self.rows.key
            for at, f in enumerate(self.rows.f):
                if f in ASKS and (status[at] == OK or self.run.known(at) >= 0):
                    self._grants.setdefault(key[at], []).append(at)
        return self._grants

    def _disorder(self, key: int) -> bool:
        """Whether the tokens of a lock contradict its own grants: their order, or their holds."""
        rows, run, slack = self.rows, self.run, self.run.slack_ns
        found = [(rows.token[run.known(a)], rows.t_ret[run.known(a)], a) for a in self.grants(key)]
        found = sorted(one for one in found if one[0] != -1)
        if self._repeats(found):
            return True
        soonest, last = [], INF
        for _, known, _ in reversed(found):
            soonest.append(last := min(last, known))
        open_now: list[tuple[int, int, int]] = []
        for (token, known, b), rest in zip(found, reversed(soonest), strict=True):
            open_now = [one for one in open_now if max(one[0], rows.t_inv[one[2]]) > rest + slack]
            row = Row(rows, b)
            for far, before, a in open_now:
                other = Row(rows, a)
                late = other.t_inv > known + slack and not (row.mode == other.mode != EXCLUSIVE)
                held = far > known + slack and run.reach(b) <= before + slack
                same = rows.token[run.known(a)] == token
                if not same and (late or (held and self._conflict(other, row))):
                    return True
            open_now.append((run.reach(b), known, b))
        return False

    def _repeats(self, found: Sequence[tuple[int, int, int]]) -> bool:
        """Whether one token was granted to two owners who conflict, the one surely after the other.

        found   (token, when that was known, acquire) of each grant
        """
        rows = self.rows
        soonest, latest = dict[tuple[int, ...], int](), dict[tuple[int, ...], int]()
        alike_of: dict[int, dict[tuple[int, ...], Row]] = {}
        for token, known, a in found:
            alike = (token, rows.key[a], rows.process[a], rows.mode[a])
            soonest[alike] = min(known, soonest.get(alike, known))
            latest[alike] = max(rows.t_inv[a], latest.get(alike, 0))
            alike_of.setdefault(token, {})[alike] = Row(rows, a)
        return any(
            latest[after] > soonest[before] + self.run.slack_ns
            and self._conflict(one[before], one[after])
            for one in alike_of.values()
            for before, after in permutations(one, 2)
        )

    def _in_turn(self, a: Row, b: Row, proof: Row) -> bool:
        """Whether b can only have come after a: it was called, or proved to hold, after a's grant.

        A proof says so only where no two holds of the lock overlap.
        """
        if proof.at == b.at:
            return self._met(a, b) and (a.mode == EXCLUSIVE or b.mode == EXCLUSIVE)
        return self._conflict(a, b) and self._disjoint(a.key)

    def _disjoint(self, key: int) -> bool:
        run, open_now = self.run, list[tuple[int, int]]()
        ret = self.rows.t_ret
        for known, b in sorted((ret[run.known(a)], a) for a in self.grants(key)):
            open_now = [(far, a) for far, a in open_now if far > known + run.slack_ns]
            for _, a in open_now:
                met = run.reach(b) > ret[run.known(a)] + run.slack_ns
                if met and self._conflict(Row(self.rows, a), Row(self.rows, b)):
                    return False
            open_now.append((run.reach(b), b))
        return True

    # Of grants.

    def _opens(self, a: Row, lease: Row) -> int:
        """When a lock whose holder died can have been open to others again, at the earliest."""
        run, promises = self.run, self.run.promises
        over = lease.t_inv + run.shortest(lease.res) - promises["slip_ns"]
        if run.bound == "lease":
            over = min(over, run.leased(a.at, every_unknown=True))
        return int(over + run.shortest(promises["delay_ns"]) - promises["slip_ns"])

    def _confirms(self, lease: Row, a: Row) -> bool:
        """Whether a renewal was of this hold, up to the end of its claim; or, where sessions end
        holds, a heartbeat the last one of its session."""
        if self.run.bound == "session":
            return lease.at == self.run.last_beat(a.at)
        own = self.run.bound == "lease" and lease.f == OPS["renew"] and lease.attempt == a.attempt
        return own and lease.t_inv <= self.run.end(a.at)

    def _one_limit(self, a: Row) -> bool:
        """Whether all grants of a semaphore were asked for with one number of permits."""
        op, mode = self.rows.op, self.rows.mode
        return len({op[at] >> 8 & 65535 for at in self.grants(a.key) if mode[at] == 2}) == 1

    def _distinct(self, roles: Mapping[str, Row]) -> bool:
        """Whether the grants that a certificate counts are so many different ones."""
        mine = [
            row.at for name, row in roles.items() if re.fullmatch(r"newest|(other|by)\d+", name)
        ]
        return len(set(mine)) == len(mine)

    def _allowed(self, kind: str) -> int:
        """How often one wait may be overtaken."""
        promises, others = self.run.promises, len(self.rows.nodes)
        if kind == "starved":
            return others + max(0, int(promises.get("aging", -1)))
        if promises["order"] == "fifo":
            return 0
        bounded = promises["order"] == "priority" and promises.get("aging", -1) >= 0
        return int(promises["aging"]) + others if bounded else INF

    def _says_owned(self, row: Row) -> bool:
        """Whether an ok renewal or release is declared to mean that its attempt owned the lock."""
        said = self.run.promises
        if row.f == OPS["renew"]:
            return bool(said["renew_proves"])
        return bool(said["release_once"] or said["release_proves"])

    def _unrenewed(self, a: Row, t_ns: int, sent: bool = False) -> bool:
        """Whether no ok renewal of the attempt was answered (or sent) after a moment."""
        f, status, ret = self.rows.f, self.rows.status, self.rows.t_inv if sent else self.rows.t_ret
        mine = [r for r in self.run.following(a.at) if f[r] == OPS["renew"] and status[r] == OK]
        return all(ret[r] <= t_ns for r in mine)

    def _freed(self, a: Row, forced: Row) -> bool:
        """Whether an operator's unlock left nothing of this very hold."""
        if a.status != OK or forced.key != a.key:
            return False
        if forced.token != -1:
            known = [self.run.known(at) for at in self.grants(a.key)]
            same = [at for at in known if self.rows.token[at] == forced.token]
            return forced.token == a.token and len(same) == 1
        return a.mode == EXCLUSIVE and forced.t_inv > a.t_ret + self.run.error_ns

    def _calm(self, a: Row) -> bool:
        """Whether no fault met the servers during a lease: a new leader may count it anew."""
        over, run = self.run.possible_end(a.at), self.run
        clients = {*self.rows.nodes.values(), "resource"}
        return over < INF and not any(
            window.from_ns <= over
            and window.to_ns + run.promises["recovery_ns"] >= a.t_inv
            and not clients.issuperset(window.nodes)
            for window in run.windows
        )

    def _outside(self, a: Row, request: Row) -> bool:
        """Whether its owner cannot have held then by another attempt that re-entered the lock."""
        rows, t_ns = self.rows, request.t_inv
        asks = [at for at, f in enumerate(rows.f) if f in ASKS and rows.status[at]]
        if not any(rows.op[at] & 1 for at in asks):
            return True
        mine = [at for at in asks if rows.process[at] == a.process and at != a.at]
        mine = [at for at in mine if self._met(Row(rows, at), a) and rows.t_inv[at] <= t_ns]
        return all(t_ns > self.run.possible_end(at) + self.run.error_ns for at in mine)

    # Of the resource's log.

    def log(self, key: int, f: int = SERVED_WRITE) -> list[Row]:
        """The accepted requests of one kind about a key, in the order of the log."""
        rows = self.rows
        served = [at for at, kind in enumerate(rows.f) if kind in (SERVED_READ, SERVED_WRITE)]
        firsts: dict[str, int] = {}
        for at in served:
            writer = rows.named(at)[0]
            firsts[writer] = min(firsts.get(writer, INF), rows.t_inv[at])
        mine = [at for at in served if rows.key[at] == key and rows.f[at] == f]
        mine.sort(key=lambda at: (firsts[rows.named(at)[0]], at))
        return [Row(rows, at) for at in mine if rows.status[at] == OK]

    def _chain(self, key: int) -> set[int]:
        """The accepted writes of a key that the last one was built upon, by their identity."""
        if key not in self._chains:
            at: dict[int, Row] = {}
            version = last = -1
            for row in self.log(key):
                for gone in range(row.res, last + 1) if row.res <= last else ():
                    at.pop(gone, None)
                at[row.res], version, last = row, row.res, row.res
            ops = set()
            while version in at:
                row = at[version]
                ops.add(row.op)
                version = row.arg if 0 <= row.arg < row.res else row.res - 1
            self._chains[key] = {row.at for row in self.log(key) if row.op in ops}
        return self._chains[key]

    def _undone(self, asked: Row) -> bool:
        """Whether the log has no effect of a job, and no write of it was left without an answer."""
        lock, number, _ = job(asked)
        rows = self.rows
        for at, f in enumerate(rows.f):
            counts = (f, rows.status[at]) in ((SERVED_WRITE, OK), (WRITE, 1))
            if counts and job(Row(rows, at)) == (lock, number, 0):
                return False
        return number >= 0


def job(row: Row) -> tuple[str, int, int]:
    """The lock, the number and whether it is the mark of the job that a row is about; -1: none."""
    found = JOB.fullmatch(row.text)
    return (found[1], int(found[2]), int(bool(found[3]))) if found else ("", -1, 0)
