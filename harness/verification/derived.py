"""Ends, proofs and leases, derived from the recorded rows and a service's declarations.

Implemented independently from docs/glossary.md, one attempt at a time: no code of the checkers is
used, so that their errors are not repeated. Standard library only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import repeat
from operator import itemgetter
from typing import Any, NamedTuple

from holdfast.harness.core.fault_traits import UNKNOWN, Traits
from holdfast.harness.verification.recorded_rows import ASKS, CLOSED, LOST, WAITING, Rows, Starved
from holdfast.harness.verification.rule import OPS

INF = 1 << 62
EXCLUSIVE, SHARED = 0, 1
RENEW, RELEASE, FORCED, BEAT = OPS["renew"], OPS["release"], OPS["force-unlock"], OPS["heartbeat"]
LATE_NS = 3_000_000_000
"""How late a service or client may notice that a lock is free."""
INVOKED, OK, FAIL, INFO, NOT_OWNER = range(1, 6)


class Window(NamedTuple):
    """One observed fault of a run. cut, frozen, operated: when disks lost power, took no write, and
    when an operation was carried out; () where it was not measured, or had no effect. still: when
    monotonic clocks of its nodes may not have advanced; () for never. rejoined: when the former
    leader of a forced failover became a replica, as `operated`. leader: of the servers when it was
    injected, where that was recorded. since_ns: from then on it may have been in effect."""

    from_ns: int
    to_ns: int
    do: str
    nodes: tuple[str, ...]
    traits: Traits = UNKNOWN
    cut: tuple[int, ...] = ()
    frozen: tuple[int, ...] = ()
    operated: tuple[int, ...] = ()
    still: tuple[int, ...] = ()
    rejoined: tuple[int, ...] = ()
    id: str = ""
    effective: bool = False
    leader: str = ""
    since_ns: int = INF


class ByAttempt:
    """Rows of some kinds by their attempt. Most attempts have one: only the others get a list.

    last      of each attempt that has one, the last that was recorded
    several   the rows of each attempt that has more than one, in order of their calls
    """

    def __init__(self, rows: Rows, kinds: Sequence[int]) -> None:
        places = list(rows.of_kinds(*kinds))
        attempts = list(map(rows.attempt.__getitem__, places))
        self.last = dict(zip(attempts, places, strict=True))
        self.last.pop(0, None)  # rows of no attempt
        self.several: dict[int, list[int]] = {}
        if len(self.last) == len(places):
            return
        for attempt, at in zip(attempts, places, strict=True):
            if attempt and self.last[attempt] != at:
                self.several.setdefault(attempt, []).append(at)
        for attempt, group in self.several.items():
            group.append(self.last[attempt])
            group.sort(key=rows.t_inv.__getitem__)

    def of(self, attempt: int) -> Sequence[int]:
        """The rows of an attempt, in order of their calls."""
        if attempt in self.several:
            return self.several[attempt]
        return [self.last[attempt]] if attempt in self.last else []


class Run:
    """The rows of a run, its service's declarations, and what follows from both.

    slack_ns   largest error between timestamps of two hosts
    stop_ns    the last heal; lease_ns: lease that acquires request; resource: its mode
    lasting_ns  the lease, or the session where that is longer: how long a hold lasts by itself
    lapse_ns    where a library renews by itself, how long a service with leases keeps a hold that
                is not renewed, if longer than its lease; -1: it has no leases, or its user renews
    start_ns, end_ns   of the workload; servers: their number
    """

    def __init__(
        self,
        rows: Rows,
        promises: Mapping[str, Any],
        windows: Iterable[Window] = (),
        error_ns: int = 0,
        *,
        stop_ns: int = 0,
        lease_ns: int = 0,
        resource: str = "",
        start_ns: int = 0,
        end_ns: int = 0,
        servers: int = 0,
        starved: Iterable[Starved] = (),
    ) -> None:
        self.rows, self.promises, self.windows = (
            rows,
            promises,
            sorted(windows, key=itemgetter(0, 1, 2, 3)),
        )
        self.error_ns, self.slack_ns = error_ns, 2 * error_ns
        self.stop_ns, self.lease_ns, self.resource = stop_ns, lease_ns, resource
        self.start_ns, self.end_ns = start_ns, end_ns
        self.servers, self.starved = servers, sorted(starved)
        self.kinds = frozenset(window.do for window in self.windows)
        self.bound = str(promises["bound"])
        session_ns = int(promises.get("session_ns", 0)) if self.bound == "session" else 0
        self.lapse_ns = int(promises.get("lapse_ns", -1)) if self.bound == "none" else -1
        self.lasting_ns = max(lease_ns, session_ns, self.lapse_ns)
        self.reach = cache(self._reach)
        self.ended = cache(self._by_all)
        self.end = cache(self._end)
        self.kept = cache(self._kept)
        self._withdrawn: dict[int, set[int]] | None = None
        self._followed: ByAttempt | None = None
        self._waited: ByAttempt | None = None
        self._place_ends: dict[int, list[int]] | None = None
        self._kinds: dict[int, dict[int, list[int]]] = {}
        self._asks: dict[int, list[int]] | None = None
        self._sharers: set[tuple[int, str]] | None = None
        self._rooted = False

    # Groups of rows.

    def following(self, a: int) -> Sequence[int]:
        """Rows of the attempt that began with row `a`, in order of their calls, without those that
        say that it waits."""
        return self.follows().of(self.rows.attempt[a])

    def follows(self) -> ByAttempt:
        """The rows of `following`, of all attempts."""
        if self._followed is None:
            self._followed = ByAttempt(self.rows, (RENEW, RELEASE, LOST, CLOSED))
        return self._followed

    def waiting(self, a: int) -> Sequence[int]:
        """Rows that say that the attempt which began with row `a` waits, in order, from the last
        loss of its place in the queue on: the end of the session or lease that it asked in."""
        if self._waited is None:
            self._waited = ByAttempt(self.rows, (WAITING,))
        rows = self.rows
        waits = self._waited.of(rows.attempt[a])
        if not waits:
            return waits
        over = rows.t_ret[a] or INF
        ends = [
            rows.t_inv[end]
            for end in self._ends_of_places().get(rows.process[a], ())
            if rows.attempt[end] in (0, rows.attempt[a]) and rows.t_inv[end] < over
        ]
        since = max(ends, default=-1)
        return [at for at in waits if rows.t_inv[at] > since]

    def _ends_of_places(self) -> dict[int, list[int]]:
        """Rows LOST and CLOSED, by process."""
        if self._place_ends is None:
            self._place_ends = {}
            for at in self.rows.of_kinds(LOST, CLOSED):
                self._place_ends.setdefault(self.rows.process[at], []).append(at)
        return self._place_ends

    def of(self, f: int, by: str) -> dict[int, list[int]]:
        """Rows of one kind by the value of a column, in order of their calls."""
        if f not in self._kinds:
            found: dict[int, list[int]] = {}
            column, status = getattr(self.rows, by), self.rows.status
            for at in self.rows.of_kinds(f):
                if status[at]:
                    found.setdefault(column[at], []).append(at)
            for group in found.values():
                group.sort(key=self.rows.t_inv.__getitem__)
            self._kinds[f] = found
        return self._kinds[f]

    def asks(self) -> Mapping[int, Sequence[int]]:
        """Per lock all acquires, granted or not, in order of their calls."""
        if self._asks is None:
            self._asks = {}
            status, key = self.rows.status, self.rows.key
            asked = [at for at in self.rows.of_kinds(*ASKS) if status[at]]
            for at in sorted(asked, key=self.rows.t_inv.__getitem__):
                self._asks.setdefault(key[at], []).append(at)
        return self._asks

    def promised(self, prop: str) -> bool:
        """Whether a property is promised under all kinds of fault of the run."""
        kept = self.promises["keeps"].get(prop)
        return kept is not None and ("any" in kept or self.kinds <= set(kept))

    def power_lost(self, cut_from: int, cut_to: int) -> bool:
        """Whether a majority of the servers lost power between these times."""
        span = (cut_from, cut_to)
        return any(w.cut == span and self._of_majority(w) for w in self.windows)

    def lost_or_operated(self, cut_from: int, cut_to: int) -> bool:
        """Whether a majority lost power, or an operation was carried out, between these times."""
        return self.operated(cut_from, cut_to) or self.power_lost(cut_from, cut_to)

    def operated(self, cut_from: int, cut_to: int) -> bool:
        """Whether an operation on servers was carried out between these times."""
        return any((cut_from, cut_to) in (w.operated, w.rejoined) for w in self.windows)

    def disks_hung(self, frozen_from: int, frozen_to: int) -> bool:
        """Whether the disks of a majority of the servers took no write between these times."""
        span = (frozen_from, frozen_to)
        return any(w.frozen == span and self._of_majority(w) for w in self.windows)

    def _of_majority(self, window: Window) -> bool:
        servers = {f"n{n}" for n in range(1, self.servers + 1)}
        return 2 * len(servers.intersection(window.nodes)) > self.servers

    def kills(self, node: str) -> list[int]:
        """When the processes of a node were killed."""
        return [w.from_ns for w in self.windows if w.traits.kills and node in w.nodes]

    def releases(self, a: int) -> list[int]:
        """The releases of an attempt."""
        return [r for r in self.following(a) if self.rows.f[r] == RELEASE]

    def closed(self, process: int) -> list[int]:
        """Rows that end all holds of a process."""
        every = self.of(CLOSED, "process").get(process, ())
        return [r for r in every if not self.rows.attempt[r]]

    # Facts about one attempt.

    def believed(self, a: int) -> Mapping[str, Any]:
        """The declarations, without those that responses about a row's lock contradict: an ok of an
        attempt after the service had responded that it does not hold."""
        if self._withdrawn is None:
            self._withdrawn = {}
            rows, status, kinds = self.rows, self.rows.status, self.rows.f
            refused = {
                rows.attempt[at]: rows.t_ret[at] for at in rows.answered(ASKS, (FAIL, NOT_OWNER))
            }
            follows = self.follows()
            # One response contradicts nothing.
            for attempt in {**follows.several, **refused}:
                said = [r for r in follows.of(attempt) if kinds[r] in (RENEW, RELEASE)]
                if len(said) < 2 and attempt not in refused:
                    continue
                ends = [r for r in said if status[r] == NOT_OWNER]
                ends += [r for r in said if status[r] == OK and kinds[r] == RELEASE]
                over = min([refused.get(attempt, INF), *(rows.t_ret[r] for r in ends)])
                for r in said if over < INF else ():
                    if status[r] == OK and rows.t_inv[r] > over + self.slack_ns:
                        self._withdrawn.setdefault(rows.key[r], set()).add(kinds[r])
        gone = self._withdrawn.get(self.rows.key[a], ())
        if not gone:
            return self.promises
        names = ["renew_proves"] * (RENEW in gone)
        names += ["release_proves", "release_once"] * (RELEASE in gone)
        return {**self.promises, **dict.fromkeys(names, False)}

    def revivable(self, a: int, said: Mapping[str, Any] | None = None) -> bool:
        """Whether a renewal of unknown outcome could revive an attempt after its end.

        said   declarations to use instead of those believed of its lock
        """
        f, status = self.rows.f, self.rows.status
        unknown = any(f[r] == RENEW and status[r] in (INVOKED, INFO) for r in self.following(a))
        return unknown and not (said or self.believed(a))["renew_proves"]

    def _end(self, a: int) -> int:
        """The time from which its client no longer acts as owner."""
        return self.ended(a)[0]

    def _by_all(self, a: int) -> tuple[int, int]:
        """That time, with the row of what ended it, the first of several at once; -1: a kill."""
        return self._ended(a, self.releases(a))

    def _kept(self, a: int) -> int:
        """The same without releases that had no effect: they give the service no reason to free
        the lock."""
        return self._ended(a, [r for r in self.releases(a) if self.rows.status[r] != FAIL])[0]

    def _ended(self, a: int, releases: list[int]) -> tuple[int, int]:
        rows, f, status = self.rows, self.rows.f, self.rows.status
        inv, ret, mine = rows.t_inv, rows.t_ret, self.following(a)
        if self.believed(a)["release_once"] and not self.revivable(a):
            releases = [r for r in releases if status[r] == OK] or releases
        ends = [(inv[r], r) for r in releases[:1]]
        ends += [(inv[r], r) for r in mine if f[r] in (LOST, CLOSED)]
        ends += [(ret[r], r) for r in mine if f[r] == RENEW and status[r] == NOT_OWNER]
        closed = self.closed(rows.process[a])
        at = bisect_left(closed, inv[a], key=inv.__getitem__)
        ends += [(inv[r], r) for r in closed[at : at + 1]]
        node = rows.nodes.get(rows.process[a], "")
        ends += [(t_ns, -1) for t_ns in self.kills(node) if t_ns >= inv[a]]
        for r in self.of(FORCED, "key").get(rows.key[a], ()):
            aimed = rows.token[r] == -1 or rows.token[a] in (-1, rows.token[r])
            back = INF if status[r] in (INVOKED, INFO) else ret[r]
            if aimed and status[r] not in (FAIL, NOT_OWNER) and back >= inv[a]:
                ends.append((max(inv[a], inv[r]), r))
        return min(ends, default=(INF, -1))

    def owner(self, a: int) -> tuple[int, int]:
        """Two acquires exclude each other only if this differs: per client, if it may hold the lock
        several times, or if its connection owns it; else per attempt."""
        one = self.bound == "connection" or self.shares(a)
        return (self.rows.process[a], -1 if one else a)

    def shares(self, a: int) -> bool:
        """Whether a client may hold a lock several times at once: it asked for re-entry, or for
        another mode or path besides."""
        sharers = self.sharers()
        return bool(sharers) and (self.rows.process[a], self._tree(self.rows.key[a])) in sharers

    def owners(self, order: Sequence[int]) -> list[tuple[int, int]]:
        """`owner` of each of several acquires, without a call for each where no client shares."""
        clients = map(self.rows.process.__getitem__, order)
        if self.bound == "connection":
            return list(zip(clients, repeat(-1), strict=False))
        if not self.sharers():
            return list(zip(clients, order, strict=True))
        return [self.owner(at) for at in order]

    def sharers(self) -> set[tuple[int, str]]:
        """The clients that `shares` is about, each with the tree of its locks."""
        if self._sharers is None:
            rows, self._sharers, locks = self.rows, set(), dict[tuple[int, str], int]()
            asked = [at for at in rows.of_kinds(*ASKS) if rows.status[at]]
            plain = not any(map(rows.mode.__getitem__, asked))
            plain &= not any(map((1).__and__, map(rows.op.__getitem__, asked)))
            names = (rows.strings[key] for key in set(map(rows.key.__getitem__, asked)))
            trees = self.promises.get("subtrees") and any(name.startswith("/") for name in names)
            if plain and not trees:
                return self._sharers
            self._rooted = any(rows.strings[key] == "/" for key in self.asks())
            for at in (at for asks in self.asks().values() for at in asks):
                name = (rows.process[at], self._tree(rows.key[at]))
                other = locks.setdefault(name, rows.key[at]) != rows.key[at]
                if rows.op[at] & 1 or rows.mode[at] != EXCLUSIVE or other:
                    self._sharers.add(name)
        return self._sharers

    def _tree(self, key: int) -> str:
        """The name of all locks that may exclude this one, directly or by others between them."""
        text = self.rows.strings[key]
        if not (self.promises.get("subtrees") and text.startswith("/")):
            return f"{key} "
        return "/" if self._rooted else "/" + text.split("/")[1]

    def over(self, a: int) -> int:
        """When the service, or a notice, had reported that an attempt does not hold; INF: never.

        An acquire without a response may be granted after its release found it not the owner.
        """
        rows, ended, known = self.rows, [INF], self.rows.status[a] not in (INVOKED, INFO)
        once, own = known or self.believed(a)["release_once"], self.rows.status[a]
        for r in self.following(a):
            said = (rows.f[r], rows.status[r])
            refused = known and said in ((RELEASE, NOT_OWNER), (RENEW, NOT_OWNER))
            if refused or (once and said == (RELEASE, OK)):
                ended.append(rows.t_ret[r])
            elif rows.f[r] == LOST and own not in (FAIL, NOT_OWNER):
                ended += [rows.t_inv[r]] * (r == self.ended(a)[1])
        return min(ended)

    def gone(self, a: int, kept: bool = False) -> bool:
        """Whether a claim ended because its client, or its session, ended. kept: whatever releases
        without effect it had sent."""
        rows, end = self.rows, self.kept(a) if kept else self.end(a)
        deaths = [rows.t_inv[r] for r in self.closed(rows.process[a])]
        deaths += [rows.t_inv[r] for r in self.following(a) if rows.f[r] == CLOSED]
        return end in deaths or end in self.kills(rows.nodes.get(rows.process[a], ""))

    def proving(self, a: int) -> list[int]:
        """Its rows that returned ok and are declared to prove that it was owned without a break."""
        f, status, said = self.rows.f, self.rows.status, self.believed(a)
        ended = said["release_proves"] or (status[a] != OK and said["release_once"])
        wanted = [RENEW] * bool(said["renew_proves"]) + [RELEASE] * bool(ended)
        mine = [r for r in self.following(a) if f[r] in wanted and status[r] == OK]
        return [r for r in mine if self.rows.t_inv[r] <= self.kept(a)]

    def known(self, a: int) -> int:
        """The row that proves the grant of an attempt, -1 for none."""
        status = self.rows.status
        if status[a] == OK:
            return a
        if status[a] not in (INVOKED, INFO) or OK not in [status[r] for r in self.following(a)]:
            return -1
        proofs = self.proving(a)
        return min(proofs, key=self.rows.t_ret.__getitem__, default=-1)

    def proof_reach(self, a: int) -> int:
        """How far its hold certainly lasted, by the service's responses."""
        inv = self.rows.t_inv
        return max([inv[a], *(inv[r] for r in self.proving(a))])

    def _reach(self, a: int) -> int:
        """How far its hold lasted if the service kept its promise."""
        known, far = self.known(a), self.proof_reach(a)
        if known < 0:
            return far
        if self.bound == "none":
            end = self.kept(a)
            return max(far, end) if self.rows.t_ret[known] <= end else far
        return max(far, min(self.leased(a), self.kept(a))) if self.rows.status[a] == OK else far

    def shortest(self, ttl_ns: int) -> int:
        """A lease as the fastest clock of the service may count it."""
        return int(ttl_ns + -ttl_ns * self.promises["drift_ppm"] // 1_000_000)

    def leased(self, a: int, every_unknown: bool = False, without: int = -1) -> int:
        """The end of what the service promised of a grant; -1: nothing.

        An ok renewal counts from its call; one of unknown outcome may take effect later than that,
        with `every_unknown` also one that was sent after the end of the claim. `without` is left
        out.
        """
        rows, slip = self.rows, self.promises["slip_ns"]
        if self.bound == "session":
            beat = self.last_beat(a)
            return -1 if beat < 0 else rows.t_inv[beat] + self.shortest(rows.res[beat]) - slip
        if self.bound != "lease":
            return -1
        until, worth, back, before = rows.t_inv[a] + self.shortest(rows.res[a]), INF, -INF, 0
        sent = [r for r in self.following(a) if rows.f[r] == RENEW and r != without]
        late = (INVOKED, INFO) if every_unknown else ()
        sent = [r for r in sent if rows.t_inv[r] <= self.kept(a) or rows.status[r] in late]
        for n, r in enumerate(sent):
            if rows.status[r] in (FAIL, NOT_OWNER):
                continue
            ok, ret = rows.status[r] == OK, rows.t_ret[r] or INF
            ttl = self.shortest(rows.res[r] if ok else rows.arg[r])
            revives = ret > until - slip or (n + 1 < len(sent) and rows.t_inv[sent[n + 1]] <= ret)
            if ok and (self.believed(a)["renew_proves"] or not revives):
                worth = min(worth, before) if back >= rows.t_inv[r] else worth
                until, back, before = rows.t_inv[r] + min(ttl, worth), ret, ttl
            else:
                worth, until = min(worth, ttl), min(until, rows.t_inv[r] + ttl)
        return int(until - slip)

    def until(self, a: int) -> int:
        """The end of what is proved or promised of its hold from its grant on, 0 for nothing."""
        known = self.known(a)
        if known < 0:
            return 0
        ends = [self.rows.t_inv[r] for r in self.proving(a)]
        ends += [min(self.leased(a), self.kept(a))] * (self.rows.status[a] == OK)
        return max([0, *(end for end in ends if end >= self.rows.t_ret[known])])

    def possible_end(self, a: int) -> int:
        """When the service has certainly freed it, however slow its clock; INF: never."""
        rows, status, said = self.rows, self.rows.status, self.believed(a)
        if status[a] in (FAIL, NOT_OWNER):
            return -1
        unknown = status[a] in (INVOKED, INFO)
        ends = [INF]
        for r in self.releases(a):
            over = status[r] == OK and (said["release_once"] or not unknown)
            if over or (status[r] == NOT_OWNER and not unknown):
                ends.append(rows.t_ret[r])
        if unknown:
            return min(ends)
        renewals = [r for r in self.following(a) if rows.f[r] == RENEW]
        ends += [rows.t_ret[r] for r in renewals if status[r] == NOT_OWNER]
        if self.bound == "lease":
            lapse = self._lapse(a, renewals)
            ends = [INF] if lapse == INF and self.revivable(a) else [*ends, lapse]
        elif self.bound in ("session", "connection") and self.gone(a, kept=True):
            late = max(self.kept(a), self.stop_ns) + int(self.promises["recovery_ns"])
            session = self.kept(a) + self.longest(self.lasting_ns)
            ends.append(session if self.bound == "session" else late)
        return max(rows.t_ret[a], min(ends))

    def starved_ns(self, from_ns: int, to_ns: int) -> int:
        """How long any process of the run, or its host, got no CPU time between two times."""
        return covered([(one.from_ns, one.to_ns) for one in self.starved], from_ns, to_ns)

    def overdue(self, end: int) -> int:
        """Until when a service may not have noticed that a lease ended; no starved time counts."""
        at, left = end, LATE_NS
        for one in sorted(self.starved, key=lambda one: one.from_ns):
            if one.to_ns <= at:
                continue
            if one.from_ns - at >= left:
                break
            left -= max(0, one.from_ns - at)
            at = one.to_ns
        return at + left

    def longest(self, ttl_ns: int) -> int:
        """A lease as the slowest clock of the service may count it."""
        drift = -ttl_ns * self.promises["drift_ppm"] // 1_000_000
        return int(ttl_ns - drift + self.promises["slip_ns"])

    def first_lease_end(self, a: int) -> int:
        """The latest end of the lease that an ok acquire was granted."""
        return self.rows.t_ret[a] + self.longest(max(self.rows.res[a], self.lapse_ns))

    def leased_by_library(self) -> bool:
        """Whether the service ends holds by leases that a library renews, not its user."""
        return self.lapse_ns >= 0

    def _lapse(self, a: int, renewals: Sequence[int]) -> int:
        """The latest end of a lease; INF if a renewal of unknown outcome may revive it."""
        rows = self.rows
        if rows.res[a] <= 0:
            return INF
        end = rows.t_ret[a] + self.longest(rows.res[a])
        for r in renewals:
            unknown = rows.status[r] in (INVOKED, INFO)
            ttl = rows.arg[r] if unknown else rows.res[r]
            if not unknown and rows.status[r] != OK:
                continue
            if ttl <= 0 or (unknown and not self.believed(a)["renew_proves"]):
                return INF
            if not unknown:
                end = max(end, rows.t_ret[r] + self.longest(ttl))
            elif rows.t_inv[r] <= end:
                end += self.longest(ttl)
        return end

    def last_beat(self, a: int) -> int:
        """The last acknowledged heartbeat, up to its end, of the session of an attempt."""
        inv, process = self.rows.t_inv, self.rows.process[a]
        over = [inv[r] for r in self.closed(process)]
        at = bisect_left(over, inv[a])
        from_ns, to_ns = over[at - 1] if at else -1, over[at] if at < len(over) else INF
        every = self.of(BEAT, "process").get(process, ())
        beats = [r for r in every if self.rows.status[r] == OK]
        own = bisect_right(beats, inv[a], key=inv.__getitem__) - 1
        own += own < 0 or inv[beats[own]] <= from_ns
        mine = [r for r in beats[own:] if inv[r] <= self.kept(a) and inv[r] < to_ns]
        mine = [r for r in mine if self.rows.arg[r] == self.rows.arg[beats[own]]]
        return mine[-1] if mine else -1


def covered(spans: Iterable[tuple[int, int]], from_ns: int, to_ns: int) -> int:
    """How much of a span others cover, overlaps counted once."""
    total, reached = 0, from_ns
    for begun, over in sorted(spans):
        first, last = max(begun, reached), min(over, to_ns)
        total += max(0, last - first)
        reached = max(reached, last)
    return total
