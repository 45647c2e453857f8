"""Conditions of liveness rules: what excludes clients from a lock, and requests without success.

Each is evaluated directly: whether anything blocks a span, not which spans are free.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.harness.verification.conditions import Conditions, Row, under
from holdfast.harness.verification.derived import (
    FAIL,
    INF,
    INFO,
    INVOKED,
    LATE_NS,
    NOT_OWNER,
    OK,
    Window,
    covered,
)
from holdfast.harness.verification.rule import LIMITS, OPS

Span = tuple[int, int]
GAP_NS = 1_000_000_000
"""Requests with gaps up to this count as one continuous span of requests."""
NO_ANSWER = ("never-sent", "unreachable", "unavailable", "ConnectionError", "Connection refused")
"""Texts of errors without a response of the service."""
TRY, PROBE = OPS["try"], OPS["probe"]
UNKNOWN = (INVOKED, INFO)


class Waits:
    """Functions for rules about waits for a lock."""

    def __init__(self, conditions: Conditions) -> None:
        self.of = conditions
        self.run, self.rows = conditions.run, conditions.rows
        self._families: dict[str, list[int]] | None = None
        self._blocks: dict[tuple[str, bool], list[Span]] = {}
        self._disturbed: list[Span] | None = None
        self._longest = -1
        self._clients = set(self.rows.nodes.values())
        self._asked: dict[tuple[str, str], list[tuple[int, int, int]]] = {}

    def names(self) -> dict[str, Any]:
        """The names that rules use, as `Conditions.names`."""
        return {
            **LIMITS,
            "refused_until": lambda row, kind: self.refused_until(row.at, kind),
            "asked_throughout": self._throughout,
            "idle": lambda row, from_ns, to_ns, kind: self._idle(
                row, from_ns, to_ns, kind == "deadlock"
            ),
            "whole_part": self._whole_part,
            "excused": self._excused,
            "tries": lambda first, last: len(self._tried(first, last)),
            "clients": lambda first, last: len(
                {self.rows.process[at] for _, _, at in self._tried(first, last)}
            ),
            "later": self._later,
            "bound_ns": lambda row: 0 if row.f in (3, 4) else row.aux,
            "starved": self._without_processor,
            "end_ns": lambda: self.run.end_ns,
            "lived_on": self._lived_on,
            "ring": ring,
            "whole_wait": self._whole_wait,
            "waited_until": lambda row: min(row.t_ret or INF, self.run.end_ns),
            "called_held": self._called_held,
            "session_lasted": self._session_lasted,
            "shut_until": self._shut_until,
        }

    # What excludes others.

    def members(self, text: str) -> Sequence[int]:
        """The acquires of a family, per lock in order of their calls."""
        if self._families is None:
            self._families = {}
            for key, asks in self.run.asks().items():
                name = self.of.family(self.rows.strings[key])
                self._families.setdefault(name, []).extend(asks)
        return self._families.get(self.of.family(text), ())

    def longest_ns(self) -> int:
        """The longest lease of the run, as the slowest clock may count it."""
        if self._longest < 0:
            rows, most = self.rows, self.run.lasting_ns
            for asks in self.run.asks().values():
                granted = ((rows.res if rows.status[at] == OK else rows.arg)[at] for at in asks)
                most = max(most, *granted)
            drift = most * self.run.promises["drift_ppm"] // 1_000_000
            self._longest = int(most + drift + self.run.promises["slip_ns"])
        return self._longest

    def _block(self, at: int, dead_let_go: bool) -> Span | None:
        """The span in which an acquire may exclude others, None for never."""
        run, rows, status = self.run, self.rows, self.rows.status[at]
        if status in (FAIL, NOT_OWNER):
            return None
        gone = run.gone(at)
        if status in UNKNOWN:
            if run.bound == "lease" or (run.bound != "none" and gone):
                return None
            over = self._given_back(at) if run.bound == "none" else INF
            return rows.t_inv[at], min(over, run.end(at)) if dead_let_go and gone else over
        over = run.possible_end(at)
        if dead_let_go and gone and over >= INF:
            over = run.end(at)
        waited = [rows.t_inv[r] for r in run.waiting(at)]
        return max(rows.t_inv[at], *waited[-1:], 0), over

    def _given_back(self, at: int) -> int:
        """Until when an acquire of unknown outcome may exclude others if no lease ends it."""
        rows, refused_ns = self.rows, [INF - self.longest_ns()]
        refused_ns += [rows.t_ret[r] for r in self.run.releases(at) if rows.status[r] == NOT_OWNER]
        return min(refused_ns) + self.longest_ns()

    def disturbed(self) -> Sequence[Span]:
        """Faults, with the time to recover from them and to restart a lease."""
        if self._disturbed is None:
            run, promises, found = self.run, self.run.promises, []
            calm = int(promises["recovery_ns"]) + self.longest_ns()
            minority = int(promises.get("minority_ns", -1))
            for window in run.windows:
                if self._kills_only_clients(window):
                    continue
                if minority >= 0 and self._stops_a_minority(window):
                    soon = window.from_ns + minority + self.longest_ns()
                    found.append((window.from_ns, soon))
                    found.append((window.to_ns, window.to_ns + calm))
                else:
                    found.append((window.from_ns, window.to_ns + calm))
            self._disturbed = found
        return self._disturbed

    def _kills_only_clients(self, window: Window) -> bool:
        kills = window.traits.kills and not window.traits.loses_unsynced
        served = self.run.servers > 0 and bool(window.nodes)
        return kills and served and set(window.nodes) <= self._clients

    def _stops_a_minority(self, window: Window) -> bool:
        servers = {f"n{n}" for n in range(1, self.run.servers + 1)}
        if not (window.traits.kills or window.traits.stops) or not window.nodes:
            return False
        if not servers.issuperset(window.nodes):
            return False
        struck = {
            node
            for other in self.run.windows
            if other.from_ns <= window.to_ns and window.from_ns <= other.to_ns
            if not other.traits.leaves_running or other == window
            for node in other.nodes
        }
        return 2 * len(struck & servers) < self.run.servers

    def _blocks_of(self, text: str, dead_let_go: bool) -> Sequence[Span]:
        name, error = (self.of.family(text), dead_let_go), self.run.error_ns
        if name not in self._blocks:
            found = [self._block(at, dead_let_go) for at in self.members(text)]
            spans = [*(span for span in found if span is not None), *self.disturbed()]
            self._blocks[name] = [(begun - error, over + error) for begun, over in spans]
        return self._blocks[name]

    def _idle(self, row: Row, from_ns: int, to_ns: int, dead_let_go: bool) -> bool:
        """Whether no client could hold a lock within a span of the run, without faults in it."""
        inside = self.run.start_ns <= from_ns and to_ns <= self.run.end_ns
        blocks = self._blocks_of(row.text, dead_let_go)
        return inside and not any(begun < to_ns and over > from_ns for begun, over in blocks)

    def _whole_part(self, row: Row, from_ns: int, to_ns: int, kind: str) -> bool:
        """Whether that is a whole idle part of the span of a request without success."""
        until, dead = self.refused_until(row.at, kind), kind == "deadlock"
        blocks = self._blocks_of(row.text, dead)
        begins = {row.t_inv, self.run.start_ns, *(over for _, over in blocks)}
        ends = {until, self.run.end_ns, *(begun for begun, _ in blocks)}
        inside = row.t_inv <= from_ns and to_ns <= until
        whole = from_ns in begins and to_ns in ends
        return inside and whole and self._idle(row, from_ns, to_ns, dead)

    def _excused(self, row: Row, from_ns: int, until: int) -> int:
        """How long a lock may appear held from one time to another although no client holds it."""
        rows, delay = self.rows, int(self.run.promises.get("delay_ns", 0))
        unknown = [
            at
            for at in self.members(row.text)
            if rows.status[at] in UNKNOWN and rows.t_inv[at] < until
        ]
        if self.run.bound == "none":
            unknown = [at for at in unknown if self._given_back(at) >= INF]
        once = LATE_NS + delay
        leases = len(unknown) * (once + self.longest_ns())
        starved = self.run.starved_ns(from_ns, until)
        return once + leases + min(starved, self._silence(row.text, from_ns, until))

    def _silence(self, text: str, from_ns: int, until: int) -> int:
        """The longest part of a span in which the service may have answered no refused acquire of
        a family, or left one of them without an answer."""
        rows, longest, answered = self.rows, 0, list[Span]()
        for at in self.members(text):
            back = rows.t_ret[at]
            if rows.status[at] not in (FAIL, NOT_OWNER):
                continue
            if not (rows.t_inv[at] < until and from_ns < back):
                continue
            sent, error = rows.t_inv[at], rows.strings[rows.err[at]]
            for heard in sorted(rows.t_inv[r] for r in self.run.waiting(at)):
                longest = max(longest, min(heard, until) - max(sent, from_ns))
                answered.append((heard, sent))
                sent = heard
            longest = max(longest, min(back, until) - max(sent, from_ns))
            if not any(words in error for words in NO_ANSWER):
                answered.append((back, sent))
        # Silent up to an answer, since the latest call whose answer had returned before it.
        latest = from_ns
        for heard, sent in sorted(one for one in answered if from_ns <= one[1]):
            if heard <= until:
                longest = max(longest, heard - latest)
                latest = max(latest, sent)
        return max(longest, until - latest)

    # Requests without success.

    def refused_until(self, at: int, kind: str) -> int:
        """The last time at which an acquire had certainly not been granted; -1 for none."""
        rows, f, status = self.rows, self.rows.f[at], self.rows.status[at]
        if kind == "deadlock":
            counts = f != TRY
        else:
            counts = f == TRY or (f == PROBE and kind == "orphan")
            counts = counts and status != OK
        if not counts:
            return -1
        error = rows.strings[rows.err[at]]
        if status == FAIL and not any(words in error for words in NO_ANSWER):
            return rows.t_ret[at]
        waited = [rows.t_inv[r] for r in self.run.waiting(at)]
        return waited[-1] if waited else -1

    def _tried(self, first: Row, last: Row) -> Sequence[tuple[int, int, int]]:
        """As `_between`, for the tries of a livelock."""
        return self._between(first, last, "livelock")

    def _between(self, first: Row, last: Row, kind: str) -> list[tuple[int, int, int]]:
        """(from, until, row) of all requests without success from the call of one acquire to the
        last response to another, in order."""
        name = self.of.family(first.text), kind
        if name not in self._asked:
            spans = (
                (self.rows.t_inv[at], self.refused_until(at, kind), at)
                for at in self.members(first.text)
            )
            self._asked[name] = sorted(span for span in spans if span[0] < span[1])
        until = self.refused_until(last.at, kind)
        every = self._asked[name]
        return [one for one in every if first.t_inv <= one[0] and one[1] <= until]

    def _throughout(self, first: Row, last: Row, kind: str) -> bool:
        """Whether requests of a lock were continuous between two acquires, by GAP_NS."""
        asked = self._between(first, last, kind)
        rows = {at for _, _, at in asked}
        if first.at not in rows or last.at not in rows:
            return False
        reached = first.t_inv
        for begun, until, _ in asked:
            if begun - reached > GAP_NS:
                return False
            reached = max(reached, until)
        return True

    def _later(self, first: Row, last: Row) -> int:
        """Number of tries in the second half."""
        middle = (first.t_inv + self.refused_until(last.at, "livelock")) // 2
        return sum(begun >= middle for begun, _, _ in self._tried(first, last))

    # Late requests.

    def _without_processor(self, row: Row, until: int) -> int:
        """Time of a request in which its client was stopped, or some process got no CPU time."""
        node = self.rows.nodes.get(row.process)
        spans: list[Span] = [
            (w.from_ns, w.to_ns)
            for w in self.run.windows
            if (w.traits.stops or w.traits.shifts_clocks) and node in w.nodes
        ]
        spans += [(one.from_ns, one.to_ns) for one in self.run.starved]
        return covered(spans, row.t_inv, until)

    def _lived_on(self, row: Row) -> bool:
        """Whether the client of a request without a return was not killed or stopped after it."""
        node, run = self.rows.nodes.get(row.process), self.run
        kills = [w for w in run.windows if w.traits.kills and node in w.nodes]
        ends = [self.rows.t_inv[r] for r in run.closed(row.process)]
        return not any(w.to_ns >= row.t_inv for w in kills) and not any(
            end >= row.t_inv for end in ends
        )

    # Wait-for cycles.

    def _whole_wait(self, roles: Mapping[str, Row], from_ns: int, to_ns: int) -> bool:
        """Whether that is a whole part, without faults, of the span in which all of them waited."""
        run, slack, begins, ends = self.run, self.run.slack_ns, list[int](), list[int]()
        for n in range(1, members(roles) + 1):
            waiting = [self.rows.t_inv[r] for r in run.waiting(roles[f"waiter{n}"].at)]
            begins += [min(waiting, default=INF), roles[f"holder{n}_known"].t_ret]
            ends += [self.of.held_until(roles[f"holder{n}"])]
            ends += [min(roles[f"waiter{n}"].t_ret or INF, run.end_ns)]
        calm = int(run.promises["recovery_ns"]) + self.longest_ns()
        faults = [(w.from_ns, w.to_ns + calm) for w in run.windows]
        faults += [(one.from_ns, one.to_ns) for one in run.starved]
        begun, over = max(begins) + slack, min(ends) - slack
        whole = from_ns in {begun, *(to for _, to in faults)}
        whole = whole and to_ns in {over, *(begin for begin, _ in faults)}
        free = not any(begin < to_ns and end > from_ns for begin, end in faults)
        return whole and free and begun <= from_ns and to_ns <= over

    # Rejections.

    def _called_held(self, row: Row) -> bool:
        """Whether a rejection gave "held" or no reason, for a lock without locks below it."""
        error = self.rows.strings[row.err]
        tree = self.run.promises.get("subtrees") and row.text.startswith("/")
        names = (self.rows.strings[key] for key in self.run.asks())
        leaf = not tree or not any(under(name, row.text) for name in names)
        return leaf and (not error or error.startswith("held"))

    def _session_lasted(self, row: Row) -> bool:
        """Whether no notice near a call tells that the session of its client was over."""
        run, stamps = self.run, self.rows.t_inv
        limit = run.error_ns + int(run.promises["notice_ns"] or run.lasting_ns)
        ends = (stamps[at] for at in run.closed(row.process))
        return not any(row.t_inv - run.error_ns <= end <= row.t_ret + limit for end in ends)

    def _shut_until(self, row: Row) -> int:
        """End of the last reason that may have kept a lock closed to a request, or its return."""
        run, error = self.run, self.run.error_ns
        calm = int(run.promises["recovery_ns"]) + self.longest_ns()
        spans = [(w.from_ns, w.to_ns + calm) for w in run.windows]
        for key, asks in run.asks().items():
            if key == row.key or self.of.on_line(self.rows.strings[key], row.text):
                spans += [span for at in asks for span in self._may_shut(at)]
        return max((over for begun, over in spans if begun - error <= row.t_ret), default=-1)

    def _may_shut(self, at: int) -> Iterable[Span]:
        """The spans in which an acquire may have been the reason to reject another."""
        run, rows, most = self.run, self.rows, ((1 << 63) - 1) // 4
        over = run.possible_end(at)
        if over >= 0:
            back = [
                r
                for r in run.releases(at)
                if rows.status[r] == OK and rows.t_ret[r] == over and rows.t_inv[r] == run.end(at)
            ]
            over = min(over, most)
            delay, said = int(run.promises.get("delay_ns", 0)), run.believed(at)
            if delay and not (said["release_once"] or said["release_proves"]):
                back = []  # its session may have been over before
            yield rows.t_inv[at], over if back else run.overdue(over) + delay
        elif rows.f[at] != TRY:
            yield rows.t_inv[at], min(rows.t_ret[at] or INF, most)


def members(roles: Mapping[str, object]) -> int:
    """Number of clients in a wait-for cycle."""
    return sum(re.fullmatch(r"waiter\d+", name) is not None for name in roles)


def ring(roles: Mapping[str, Row]) -> bool:
    """Whether each of several clients waits for a lock of the next one, the last for the first."""
    count = members(roles)
    waiters = [roles[f"waiter{n}"].process for n in range(1, count + 1)]
    holders = [roles[f"holder{n}"].process for n in range(1, count + 1)]
    return count > 1 and len(set(waiters)) == count and holders == waiters[1:] + waiters[:1]
