"""Accepts or refuses the witnesses of opportunities.

An opportunity is a place in a run at which a lock with a typical defect would have been seen. A row
of the table has one of three patterns, which are derived again here from the recorded rows, one
attempt at a time, without code of the checkers. A pattern is about two acquires and one fault that
struck servers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from itertools import compress
from typing import Any

from holdfast.harness.verification.conditions import Conditions, Row
from holdfast.harness.verification.derived import INF, Window
from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners
from holdfast.harness.verification.recorded_rows import SAYS_WHY
from holdfast.harness.verification.rule import OPS, STATUSES, Refused
from holdfast.harness.verification.rules import PATTERNS
from holdfast.harness.verification.stroke_opportunities import (
    DECIDERS,
    LEADER,
    MINORITY,
    Strokes,
)

OP_NAMES = {number: name for name, number in OPS.items()}
STATUS_NAMES = {number: name for name, number in STATUSES.items()}
Told = Mapping[str, Any]
"""An object of verdicts.json."""


class WitnessCheck:
    """The opportunities of one run, against its rows."""

    def __init__(self, conditions: Conditions, *, whole: bool = True) -> None:
        """whole: it was judged at once, so that witnesses are numbered by its whole history."""
        self.run, self.rows, self.conditions = conditions.run, conditions.rows, conditions
        self._whole = whole
        self._times: list[int] | None = None
        self._owners: Owners | None = None
        self._strokes = Strokes(conditions)

    def wrong(self, fault: str, entry: Told) -> str:
        """Why the first witness of a row under a kind of fault is refused, "" if it is accepted."""
        try:
            self._check(fault, entry)
        except Refused as error:
            return str(error)
        except Exception as error:  # whatever it says, it is refused and no crash
            return f"damaged: {error!r:.99}"
        return ""

    def _check(self, kind: str, entry: Told) -> None:
        pattern = PATTERNS[str(entry["row"])]
        if isinstance(pattern, OwnerPattern):
            self._check_owner(pattern, kind, entry)
            return
        witnesses = entry["witnesses"]
        if set(witnesses) != set(pattern.roles):
            raise Refused(f"its witnesses are not {' and '.join(pattern.roles)}")
        first, second = (self._row(name, witnesses[name]) for name in pattern.roles)
        windows = [w for w in self.run.windows if w.id == entry["fault"] and w.do == kind]
        if not windows or not windows[0].effective or not windows[0].traits.kills:
            raise Refused(f"{entry['fault']} is no {kind} that took effect")
        if self._struck(windows[0]) not in pattern.struck.split("|"):
            raise Refused(f"{entry['fault']} did not strike {pattern.struck} of the servers")
        if first.process == second.process:
            raise Refused("both acquires are of one client")
        if why := pattern.shows(self._strokes, first, second, windows[0]):
            raise Refused(why)
        age_ns = windows[0].from_ns - self.rows.t_ret[self.run.known(first.at)]
        if age_ns >= pattern.new_ns:
            raise Refused("its first grant was not new at the fault")
        if pattern.new_ns < INF and not windows[0].traits.loses_unsynced:
            raise Refused(f"a {kind} loses nothing that was written")

    def _check_owner(self, pattern: OwnerPattern, kind: str, entry: Told) -> None:
        """The same of a row about former owners."""
        witnesses = entry["witnesses"]
        roles = [role for role in (*pattern.roles, pattern.other) if role]
        if set(witnesses) != set(roles):
            raise Refused(f"its witnesses are not {' and '.join(roles)}")
        owner = self._row(pattern.roles[0], witnesses[pattern.roles[0]])
        shows = self._any(witnesses[pattern.roles[1]])
        windows = [w for w in self.run.windows if w.id == entry["fault"] and w.do == kind]
        if not windows or not windows[0].effective:
            raise Refused(f"{entry['fault']} is no {kind} that took effect")
        if self._owners is None:
            self._owners = Owners(self.conditions)
        lost = ""
        if pattern.other:
            other = self._row(pattern.other, witnesses[pattern.other])
            lost = self._owners.lost_to(owner, other, shows)
        for why in (
            pattern.shows(self._owners, owner, shows),
            pattern.near(self._owners, owner, shows, windows[0]),
            lost,
        ):
            if why:
                raise Refused(why)

    def _any(self, told: Told) -> Row:
        """The row of any kind that a witness is; each field has to be as recorded."""
        rows = self.rows
        for at in rows.of_kinds(OPS[told["op"]]):
            if rows.t_inv[at] != told["t_inv_ns"] or rows.attempt[at] != told["attempt"]:
                continue
            recorded = self._recorded(at)
            if rows.f[at] in SAYS_WHY:
                # The number of a text, which is another one in the merged history.
                del recorded["res"]
            if all(_same(told, name, value) for name, value in recorded.items()):
                return Row(rows, at)
        raise Refused(f"its {told['op']} is no row of the run, or not as recorded")

    def _row(self, name: str, told: Told) -> Row:
        """The acquire that a witness is; each field has to be as recorded."""
        rows = self.rows
        for asks in self.run.asks().values():
            for at in asks if rows.strings[rows.key[asks[0]]] == told["lock"] else ():
                if rows.attempt[at] == told["attempt"]:
                    if wrong := [n for n, v in self._recorded(at).items() if not _same(told, n, v)]:
                        raise Refused(f"{' and '.join(wrong)} of its {name} are not as recorded")
                    return Row(rows, at)
        raise Refused(f"its {name} is no acquire of the run")

    def _recorded(self, at: int) -> dict[str, object]:
        """A row as verdicts.json shows it."""
        rows = self.rows
        writer, _ = rows.named(at)
        numbered: dict[str, object] = {"row": self._number(at)} if self._whole else {}
        return numbered | {
            "op": OP_NAMES[rows.f[at]],
            "process": rows.process[at],
            "node": rows.nodes.get(rows.process[at], writer),
            "attempt": rows.attempt[at],
            "t_inv_ns": rows.t_inv[at],
            "t_ret_ns": rows.t_ret[at],
            "status": STATUS_NAMES[rows.status[at]],
            "token": rows.token[at],
            "lock": rows.strings[rows.key[at]],
            "arg": rows.arg[at],
            "res": rows.res[at],
            "error": rows.strings[rows.err[at]],
        }

    def _number(self, at: int) -> int:
        """The number of a row in the whole history, which is in order of calls, and of two with one
        time in that of writers. A segment that is not full ends in places of kind 0."""
        rows = self.rows
        if self._times is None:
            self._times = sorted(compress(rows.t_inv, rows.f))
        t_ns = rows.t_inv[at]
        first, end = bisect_left(self._times, t_ns), bisect_right(self._times, t_ns)
        if end - first == 1:
            return first
        return first + sum(1 for t in compress(rows.t_inv[:at], rows.f) if t == t_ns)

    def _struck(self, window: Window) -> str:
        """Which of the servers a fault struck; "" for none of the three."""
        servers = {f"n{n}" for n in range(1, self.run.servers + 1)}
        struck = servers.intersection(window.nodes)
        if 2 * len(struck) > self.run.servers:
            return DECIDERS
        if not struck or 2 * len(struck) == self.run.servers:
            return ""
        return LEADER if window.leader in struck else MINORITY


def _same(told: Told, name: str, recorded: object) -> bool:
    """Whether a field of a witness is as recorded, of the same type too; one that is left out has
    the value that `Event` has by default."""
    value = told.get(name, DEFAULTS.get(name))
    return type(value) is type(recorded) and value == recorded


DEFAULTS: Mapping[str, object] = {
    "row": -1, "process": -1, "node": "", "attempt": 0, "t_ret_ns": 0, "status": "", "token": -1,
    "lock": "", "arg": 0, "res": 0, "error": "",
}  # fmt: skip


def witnessed(
    verdict: Told,
) -> Iterable[tuple[str, Told]]:
    """The opportunities of a property of which there is at least one, each with its kind of
    fault."""
    for fault, under in verdict.get("under", {}).items():
        for entry in under.get("opportunities", ()):
            if entry["count"]:
                yield fault, entry
