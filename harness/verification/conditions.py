"""The conditions that rules name, each evaluated on the recorded rows; see `rules`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby, permutations
from typing import Any

from holdfast.harness.verification.derived import (
    EXCLUSIVE,
    FAIL,
    INF,
    INFO,
    INVOKED,
    LATE_NS,
    NOT_OWNER,
    OK,
    SHARED,
    Run,
)
from holdfast.harness.verification.recorded_rows import ASKS, SERVED, Rows
from holdfast.harness.verification.rule import OPS, count, permits

JOB = re.compile(r"(.*)#([0-9]+)( done)?", re.S)
WRITE, SERVED_WRITE = OPS["write"], OPS["served-write"]


class Row:
    """One recorded row, its columns as attributes; `at` is its index in the lists."""

    def __init__(self, rows: Rows, at: int) -> None:
        self._rows, self.at = rows, at

    def __getattr__(self, name: str) -> int:
        return int(getattr(self._rows, name)[self.at])

    @property
    def text(self) -> str:
        """The name of its lock or resource."""
        return self._rows.strings[self.key]


class Conditions:
    """Functions for rules about rows of one run, by name."""

    def __init__(self, run: Run) -> None:
        self.run, self.rows = run, run.rows
        self._grants: Mapping[int, list[int]] | None = None
        self._chains: dict[int, set[int]] = {}
        self._disordered: dict[int, bool] = {}
        self._lasts: dict[int, bool] = {}
        self._revived: set[int] | None = None
        self._whole_tree: bool | None = None
        self._logged_rows: dict[int, list[int]] | None = None

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
            "power_lost": run.power_lost,
            "lost_or_operated": run.lost_or_operated,
            "operated": run.operated,
            "disks_hung": run.disks_hung,
            "job": job,
            "base": lambda row: row.arg if 0 <= row.arg < row.res else row.res - 1,
            "highest": lambda row: row.aux if row.f == SERVED_WRITE else row.arg,
            "reach": lambda a: run.reach(a.at),
            "until": lambda a: run.until(a.at),
            "lapsed": lambda a: run.overdue(run.possible_end(a.at)),
            "knows": lambda a, row: row.at == run.known(a.at),
            "in_token_order": lambda a: not self.disorder(a.key),
            "in_its_place": lambda a, waiting: waiting.at in run.waiting(a.at),
            "disjoint": lambda a: self._disjoint(a.key),
            "lasting": lambda a: self._lasting(a.key),
            "delayed": lambda: promises.get("delay_ns", 0) > 0,
            "unforced": lambda: OPS["force-unlock"] not in self.rows.f,
            "kept": self._kept,
            "settled": lambda a: not run.revivable(a.at, run.promises),
            "renewals_prove": lambda a: run.believed(a.at)["renew_proves"],
            "says_owned": self._says_owned,
            "conflict": self.conflict,
            "freed": self.freed,
            "calm": self.calm,
            "outside": self.outside,
            "distinct": lambda roles: self._distinct(roles),
            "allowed": self._allowed,
            **{
                name: getattr(self, f"_{name}")
                for name in ("proves", "met", "apart", "logged", "in_turn", "opens")
            },
            **{name: getattr(self, f"_{name}") for name in ("confirms", "unrenewed")},
            "one_limit": self.one_limit,
            "anew": self.anew,
            "missing": lambda row: row.at not in self._chain(row.key),
            "undone": self._undone,
        }

    def _kept(self, a: Row) -> bool:
        """Whether no release of a hold may have had an effect."""
        return all(self.rows.status[r] == FAIL for r in self.run.releases(a.at))

    def _proves(self, a: Row, row: Row) -> bool:
        granted = self.run.known(a.at) >= 0
        return granted and (row.at == a.at or row.at in self.run.proving(a.at))

    def _apart(self, a: Row, b: Row) -> bool:
        """Whether two owners exclude each other: one lock or ancestor chain, not both readers."""
        return self._met(a, b) and self._two(a, b) and not a.mode == b.mode == SHARED

    def _two(self, a: Row, b: Row) -> bool:
        """Whether two acquires are of two owners."""
        return a.process != b.process or self.run.owner(a.at) != self.run.owner(b.at)

    def _met(self, a: Row, b: Row) -> bool:
        """Whether two rows have one lock, or two on one ancestor chain."""
        return a.key == b.key or self.on_line(a.text, b.text)

    def conflict(self, a: Row, b: Row) -> bool:
        """Whether two grants may never be held at once: two owners, not both shared."""
        return self._met(a, b) and self._two(a, b) and not a.mode == b.mode != EXCLUSIVE

    def family(self, text: str) -> str:
        """The name of the locks that are judged together: one lock, or a whole hierarchy."""
        if not (self.run.promises.get("subtrees") and text.startswith("/")):
            return text
        if self._whole_tree is None:
            self._whole_tree = any(self.rows.strings[key] == "/" for key in self.run.asks())
        return "/" if self._whole_tree else "/" + text.split("/")[1]

    def on_line(self, a: str, b: str) -> bool:
        """Whether one of two locks covers a subtree that contains the other."""
        paths = self.run.promises.get("subtrees") and a[:1] == b[:1] == "/"
        return bool(paths) and (under(a, b) or under(b, a))

    def _logged(self, before: Row, after: Row) -> bool:
        """Whether the resource's log has one row before another."""
        writers = [self.rows.named(row.at)[0] for row in (before, after)]
        if writers[0] == writers[1]:
            return before.at < after.at
        firsts = []
        for writer in writers:
            base = self.rows.base[writer]
            size = next(len(w.rows) // 96 for w in self.rows.writers if w.name == writer)
            served = [at for at in range(base, base + size) if self.rows.f[at] in SERVED]
            firsts.append(min(self.rows.t_inv[at] for at in served))
        return firsts[0] < firsts[1]

    def grants(self, key: int) -> list[int]:
        """The certainly granted acquires of a lock, or of those on an ancestor chain with it."""
        every, text = self.all_grants(), self.rows.strings[key]
        near = [k for k in every if k == key or self.on_line(self.rows.strings[k], text)]
        return [at for k in near for at in every[k]]

    def all_grants(self) -> Mapping[int, list[int]]:
        """Per lock the acquires that were certainly granted."""
        if self._grants is None:
            key, known = self.rows.key, self.run.known
            attempt, followed = self.rows.attempt, self.run.follows().last
            certain = list(self.rows.answered(ASKS, (OK,)))
            # Only a row that follows can prove a grant of unknown outcome.
            unknown = self.rows.answered(ASKS, (INVOKED, INFO))
            certain += (at for at in unknown if attempt[at] in followed and known(at) >= 0)
            certain.sort(key=key.__getitem__)
            self._grants = {of: list(ats) for of, ats in groupby(certain, key.__getitem__)}
        return self._grants

    def disorder(self, key: int) -> bool:
        """Whether the tokens of a lock contradict its own grants: their order, or their holds."""
        if key not in self._disordered:
            self._disordered[key] = self._tokens_contradict(key)
        return self._disordered[key]

    def _tokens_contradict(self, key: int) -> bool:
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
                # Of three paths on a line with this one, two may be on none with each other.
                late = other.t_inv > known + slack and self._met(other, row)
                late = late and not (row.mode == other.mode != EXCLUSIVE)
                held = far > known + slack and run.reach(b) <= before + slack
                same = rows.token[run.known(a)] == token
                if not same and (late or (held and self.conflict(other, row))):
                    return True
            open_now.append((run.reach(b), known, b))
        return False

    def anew(self, by: Row) -> bool:
        """Whether a grant certainly began a new hold: all others that its client may have had, with
        the same token or without a response, had been reported as over."""
        rows, run = self.rows, self.run
        for key, asks in run.asks().items():
            if key != by.key and not self.on_line(rows.strings[key], by.text):
                continue
            for at in asks:
                if rows.process[at] != by.process or at == by.at or rows.t_inv[at] > by.t_ret:
                    continue
                known = run.known(at)
                doubtful = rows.status[at] in (INVOKED, INFO) and run.shares(by.at)
                alike = known >= 0 and rows.token[known] == by.token
                if (alike or doubtful) and run.over(at) >= by.t_inv:
                    return False
        return True

    def _repeats(self, found: Sequence[tuple[int, int, int]]) -> bool:
        """Whether one token was granted to two conflicting owners, one certainly after the other.

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
            and one[before].process != one[after].process
            and self.conflict(one[before], one[after])
            for one in alike_of.values()
            for before, after in permutations(one, 2)
        )

    def _in_turn(self, a: Row, b: Row, proof: Row) -> bool:
        """Whether b can only have come after a: it was called, or proved to hold, after a's grant.

        A proof shows that only if no two holds of the lock overlap.
        """
        if proof.at == b.at:
            return self._met(a, b) and (a.mode == EXCLUSIVE or b.mode == EXCLUSIVE)
        return self.conflict(a, b) and self._disjoint(a.key)

    def _disjoint(self, key: int) -> bool:
        """Whether no two holds of a lock overlap."""
        run, open_now = self.run, list[tuple[int, int]]()
        ret = self.rows.t_ret
        for known, b in sorted((ret[run.known(a)], a) for a in self.grants(key)):
            open_now = [(far, a) for far, a in open_now if far > known + run.slack_ns]
            for _, a in open_now:
                met = run.reach(b) > ret[run.known(a)] + run.slack_ns
                if met and self.conflict(Row(self.rows, a), Row(self.rows, b)):
                    return False
            open_now.append((run.reach(b), b))
        return True

    # Leases that last, and end.

    def held_until(self, a: Row) -> int:
        """How far a hold lasted: by its lease too, unless the run shows that leases end early."""
        return self.run.reach(a.at) if self._lasting(a.key) else self.run.proof_reach(a.at)

    def _lasting(self, key: int) -> bool:
        """Whether no grant of a lock fell within a lease, except those that proofs show as well,
        and no lease was reported as over before its time."""
        if self.run.bound not in ("lease", "session"):
            return True
        if key not in self._lasts:
            cut = any(self._cut_off(at) for at in self.grants(key))
            self._lasts[key] = not cut and all(self._amid_leases(key).values())
        return self._lasts[key]

    def _amid_leases(self, key: int) -> Mapping[int, bool]:
        """The grants of a lock within the hold of one known before; whether proofs alone show it.
        Of two the one with the larger token came later, if tokens show the order."""
        run, rows, slack, found = self.run, self.rows, self.run.slack_ns, dict[int, bool]()
        tell = run.promises["tokens"] == "ordered" and run.promised("token-order")
        tell = tell and not self.disorder(key)
        known = {at: rows.t_ret[run.known(at)] for at in self.grants(key)}
        token = {at: rows.token[run.known(at)] for at in known}
        open_now: list[int] = []
        for b in sorted(known, key=known.__getitem__):
            open_now = [a for a in open_now if run.reach(a) > known[b] + slack]
            for reach in (run.proof_reach, run.reach):
                met = [
                    a
                    for a in open_now
                    if reach(a) > known[b] + slack and known[a] < reach(b) - slack
                    if self.conflict(Row(rows, a), Row(rows, b))
                ]
                if met:
                    a = max(met, key=reach)
                    newer = a if tell and -1 < token[b] < token[a] else b
                    found[newer] = found.get(newer, False) or reach == run.proof_reach
                    break
            open_now.append(b)
        return found

    def _cut_off(self, at: int) -> bool:
        """Whether the service reported a lease as over while it could not be."""
        run, rows = self.run, self.rows
        if run.bound != "lease" or rows.status[at] != OK or rows.key[at] in self._forced_keys():
            return False
        mine, (end, by) = run.following(at), run.ended(at)
        releases = [r for r in mine if rows.f[r] == OPS["release"]]
        for r in mine:
            if rows.f[r] not in (OPS["renew"], OPS["release"]) or rows.status[r] != NOT_OWNER:
                continue
            back = rows.t_ret[r]
            if any(rows.t_inv[other] < back for other in releases if other != r):
                continue
            # What else had ended the hold before explains the response.
            explained = by not in (r, *releases) and end < back
            if not explained and run.leased(at, True, without=r) > back + run.slack_ns:
                return True
        return False

    def _forced_keys(self) -> set[int]:
        return set(self.run.of(OPS["force-unlock"], "key"))

    def ending(self, key: int) -> bool:
        """Whether no lease of a lock was renewed long after it must have expired."""
        if self._revived is None:
            self._revived = self._renewed_late()
        texts = [self.rows.strings[other] for other in self._revived]
        near = any(self.on_line(text, self.rows.strings[key]) for text in texts)
        return key not in self._revived and not near

    def _renewed_late(self) -> set[int]:
        """The locks of which a lease was renewed, without a break, long after its end."""
        run, rows, found = self.run, self.rows, set[int]()
        if run.bound != "lease" or not run.promises["renew_proves"]:
            return found
        of: dict[int, list[int]] = {}
        for asks in run.asks().values():
            for at in asks:
                said = [r for r in run.following(at) if rows.f[r] == OPS["renew"]]
                mine = [r for r in said if rows.status[r] in (OK, INFO, INVOKED)]
                of |= {at: mine} if mine else {}
        granted = {at: (rows.res if rows.status[at] == OK else rows.arg)[at] for at in of}
        renewed = [rows.res[r] for mine in of.values() for r in mine if rows.status[r] == OK]
        own = run.longest(most := max(granted.values(), default=0)) - most
        more = run.longest(most := max(renewed, default=0)) - most
        for at, mine in of.items():
            back = rows.t_ret[at] or INF
            over = back + granted[at] + own if granted[at] > 0 else INF
            for r in mine:
                late = rows.t_inv[r] - over > LATE_NS + run.slack_ns
                sure = rows.status[r] == OK and rows.status[at] == OK
                if late and sure and run.believed(at)["renew_proves"]:
                    found.add(rows.key[at])
                leased = rows.status[r] == OK and rows.res[r] > 0
                over = max(over, rows.t_ret[r] + rows.res[r] + more if leased else INF)
        return found

    # Grants.

    def _opens(self, a: Row, lease: Row) -> int:
        """The earliest time at which a dead holder's lock can have been open to others again."""
        run, promises = self.run, self.run.promises
        over = lease.t_inv + run.shortest(lease.res) - promises["slip_ns"]
        if run.bound == "lease":
            over = min(over, run.leased(a.at, every_unknown=True))
        return int(over + run.shortest(promises["delay_ns"]) - promises["slip_ns"])

    def _confirms(self, lease: Row, a: Row) -> bool:
        """Whether a renewal was of this hold, up to the end of its claim; or, if sessions end
        holds, a heartbeat was the last one of its session."""
        if self.run.bound == "session":
            return lease.at == self.run.last_beat(a.at)
        own = self.run.bound == "lease" and lease.f == OPS["renew"] and lease.attempt == a.attempt
        own = own or (self.run.bound == "lease" and lease.at == a.at and lease.res > 0)
        return own and lease.t_inv <= self.run.kept(a.at)

    def one_limit(self, a: Row) -> bool:
        """Whether all grants of a semaphore were requested with one limit of permits."""
        op, mode, own = self.rows.op, self.rows.mode, self.all_grants().get(a.key, ())
        return len({op[at] >> 8 & 65535 for at in own if mode[at] == 2}) == 1

    def _distinct(self, roles: Mapping[str, Row]) -> bool:
        """Whether the grants that a certificate counts are all different."""
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
        """Whether an ok renewal or release is declared to prove that its attempt owned the lock."""
        said = self.run.promises
        if row.f == OPS["renew"]:
            return bool(said["renew_proves"])
        return bool(said["release_once"] or said["release_proves"])

    def _unrenewed(self, a: Row, t_ns: int, sent: bool = False) -> bool:
        """Whether no ok renewal of the attempt returned (or was sent) after t_ns."""
        f, status, ret = self.rows.f, self.rows.status, self.rows.t_inv if sent else self.rows.t_ret
        mine = [r for r in self.run.following(a.at) if f[r] == OPS["renew"] and status[r] == OK]
        return all(ret[r] <= t_ns for r in mine)

    def freed(self, a: Row, forced: Row) -> bool:
        """Whether a force-unlock certainly ended this hold."""
        if a.status != OK or forced.key != a.key:
            return False
        if forced.token != -1:
            known = [self.run.known(at) for at in self.grants(a.key)]
            same = [at for at in known if self.rows.token[at] == forced.token]
            alone = forced.token == a.token and len(same) == 1
            alone = alone and not self.entered_unknown(a, forced)
            return alone and forced.t_ret >= a.t_inv
        return a.mode == EXCLUSIVE and forced.t_inv > a.t_ret + self.run.error_ns

    def entered_unknown(self, a: Row, response: Row) -> bool:
        """Whether its owner may hold by another attempt too, called by the time of a response, of
        which neither outcome nor token is known."""
        by_ns, rows, owner = response.t_ret + self.run.slack_ns, self.rows, self.run.owner(a.at)
        return any(
            rows.status[at] in (INVOKED, INFO)
            and rows.t_inv[at] <= by_ns
            and self.run.known(at) < 0
            and self.run.owner(at) == owner
            for at in self.run.asks().get(a.key, ())
            if at != a.at
        )

    def calm(self, a: Row) -> bool:
        """Whether no fault affected the servers during a lease: a new leader may restart it."""
        over, run = self.run.possible_end(a.at), self.run
        clients = {*self.rows.nodes.values(), "resource"}
        return (
            over < INF
            and self.ending(a.key)
            and not any(
                window.from_ns <= over
                and window.to_ns + run.promises["recovery_ns"] >= a.t_inv
                and not clients.issuperset(window.nodes)
                for window in run.windows
            )
        )

    def outside(self, a: Row, request: Row) -> bool:
        """Whether its owner cannot have held then by another attempt that re-entered the lock."""
        rows, t_ns = self.rows, request.t_inv
        if not self.run.shares(a.at):
            return True
        asks = [at for every in self.run.asks().values() for at in every]
        mine = [at for at in asks if rows.process[at] == a.process and at != a.at]
        mine = [at for at in mine if self._met(Row(rows, at), a) and rows.t_inv[at] <= t_ns]
        return all(t_ns > self._over(at) + self.run.error_ns for at in mine)

    def _over(self, at: int) -> int:
        """When an entry was certainly over: as reported, or by its lease, with tolerance."""
        possible = self.run.possible_end(at)
        if possible < 0 or not self.calm(Row(self.rows, at)):
            return possible if possible < 0 else self.run.over(at)
        return min(self.run.over(at), self.run.overdue(possible))

    # The resource's log.

    def log(self, key: int) -> list[Row]:
        """The accepted writes of a key, in the order of the log."""
        rows = self.rows
        return [Row(rows, at) for at in self.logs().get(key, ()) if rows.f[at] == SERVED_WRITE]

    def logs(self) -> Mapping[int, Sequence[int]]:
        """Per key all accepted requests, in the order of the log: its writers ran one after the
        other, each wrote in order."""
        if self._logged_rows is None:
            rows, parts = self.rows, []
            logged = list(rows.of_kinds(*SERVED))
            for writer in rows.writers:
                base = rows.base[writer.name]
                mine = range(base, base + len(writer.rows) // 96)
                served = [at for at in logged if at in mine]
                if served:
                    parts.append((min(rows.t_inv[at] for at in served), served))
            self._logged_rows = {}
            for at in (at for _, served in sorted(parts) for at in served):
                if rows.status[at] == OK:
                    self._logged_rows.setdefault(rows.key[at], []).append(at)
        return self._logged_rows

    def _chain(self, key: int) -> set[int]:
        """The identities of the accepted writes of a key that the last one is based on."""
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
        """Whether the log has no effect of a job, and every write of it returned."""
        lock, number, _ = job(asked)
        rows = self.rows
        for at, f in enumerate(rows.f):
            counts = (f, rows.status[at]) in ((SERVED_WRITE, OK), (WRITE, 1))
            if counts and job(Row(rows, at)) == (lock, number, 0):
                return False
        return number >= 0


def under(path: str, other: str) -> bool:
    """Whether a path lies below another one."""
    return path != other and path.startswith(other if other == "/" else other + "/")


def job(row: Row) -> tuple[str, int, int]:
    """The lock, the number of a row's job, and whether the row is its mark; -1: none."""
    found = JOB.fullmatch(row.text)
    return (found[1], int(found[2]), int(bool(found[3]))) if found else ("", -1, 0)
