"""What happened in a run between a grant and a second one that should not have been made.

The events are those of the run's own rows, faults and elections, and one of them is named. While
the service still refused requests, or answered that they wait, the first grant was in force: what
ended it came later than the last such answer, and before the second grant. What came at another
time cannot have been the cause, and is not named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from holdfast.harness.core.case import Case, Window
from holdfast.harness.core.clock import MILLISECOND, SECOND
from holdfast.harness.core.operations import Mode, Op, Status
from holdfast.harness.verdicts.cause_steps import span
from holdfast.harness.verdicts.causes import LATE, MECHANISMS, OVERLAP
from holdfast.harness.verdicts.judged import Event, Shown, Step
from holdfast.harness.verdicts.met_calls import STOPPED, met

FORGOTTEN_KINDS = (*MECHANISMS["forgotten"], *MECHANISMS["token"])
OUTDATED = (*MECHANISMS[LATE], *MECHANISMS["notice"])
"""Kinds of findings about an owner whose hold was over, by a second grant that may be right."""
KINDS = (*MECHANISMS[OVERLAP], *FORGOTTEN_KINDS, *OUTDATED)
"""Kinds of findings about two grants of a lock."""
STUCK = ("deadlock", "orphan")
"""Kinds of findings about a lock that is not granted again after its last owner."""
NEAR_NS = 50 * MILLISECOND
"""A grant that follows an event within this time, and 10 % of the lease, can be its effect where
events of that kind are common."""
LEAST, FULL = 10, 100
"""A lease does not end by itself within 10 % of its time, and a renewal that grants a hundred
times a lease is bound to a session."""
ROW_COLUMNS = ("t_inv", "t_ret", "attempt", "arg", "res", "aux", "process", "f", "status", "mode")
UNANSWERED = (Status.INFO, Status.INVOKED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A row of the history; end_ns: when it returned, or the end of the run."""

    index: int
    f: Op
    status: Status
    attempt: int
    process: int
    t_inv: int
    end_ns: int
    arg: int
    res: int
    aux: int
    mode: int


class SecondGrant:
    """Two grants of a lock, and what happened between them.

    until_ns   when the second one was certainly made
    over_ns    the first one was over by then: of a late owner, at a notice or a third one's grant
    since_ns   until then the first one was in force, as far as the service's answers show
    """

    def __init__(self, case: Case, shown: Shown, older: Event, newer: Event) -> None:
        self.case, self.shown, self.older, self.newer = case, shown, older, newer
        self.until_ns = until_ns = newer.t_ret_ns or shown.t_ns
        self.servers = {f"n{n}" for n in range(1, int(case.options.get("servers", "0")) + 1)}
        self.granted_ns = min(older.t_ret_ns or older.t_inv_ns, until_ns)
        self.modes = {int(case.history.rows["mode"][one.row]) for one in (older, newer)}
        self.rows = list(self._rows())
        self.over_ns = min([until_ns, *self._ended()])
        self.since_ns = max([self.granted_ns, *self._refused()])

    def _rows(self) -> Iterator[Row]:
        """Those of the two locks and the ends of sessions, until the second grant is known."""
        rows, names = self.case.history.rows, {self.older.lock, self.newer.lock}
        keys = [n for n, text in enumerate(self.case.history.strings) if text and text in names]
        wanted = np.isin(rows["key"], keys) | np.isin(rows["f"], (Op.CLOSED, Op.HEARTBEAT))
        wanted &= rows["t_inv"] <= self.until_ns + self.lease_ns
        for index in np.flatnonzero(wanted):
            row = {name: int(rows[name][index]) for name in ROW_COLUMNS}
            back_ns = row.pop("t_ret") or self.case.end_ns
            kind, status = Op(row.pop("f")), Status(row.pop("status"))
            yield Row(index=int(index), f=kind, status=status, end_ns=back_ns, **row)

    def _ended(self) -> Iterator[int]:
        """When it was known that the hold of a late owner was over, after its grant."""
        late = self.shown.kind in OUTDATED and not self.shared
        for row in self.rows if late else ():
            granted = row.f in (Op.ACQUIRE, Op.TRY) and row.status is Status.OK
            of_owner = row.attempt == self.older.attempt
            over = row.f is Op.LOST if of_owner else granted and row.mode == Mode.EXCLUSIVE
            if over and row.end_ns > self.granted_ns:
                yield row.end_ns

    def _refused(self) -> Iterator[int]:
        """When requests were answered that the first one holds the lock."""
        for row in () if self.shared else self.rows:
            refused = row.f is Op.TRY and row.status is Status.FAIL
            of_other = row.attempt != self.older.attempt and (refused or row.f is Op.WAITING)
            if of_other and self.granted_ns < row.t_inv < self.over_ns:
                yield row.t_inv

    @property
    def shared(self) -> bool:
        """Whether others may hold the lock beside one of the two owners."""
        return self.modes != {Mode.EXCLUSIVE}

    @property
    def lease_ns(self) -> int:
        """The lease of the first grant, 0 without one."""
        lengths = (one for one in (self.older.res, self.older.arg) if isinstance(one, int))
        return next((one for one in lengths if one > 0), 0)

    @property
    def bound(self) -> str:
        """What ends a hold by time, in a word: its lease, or the session of its client."""
        return "session" if self.case.promises.bound == "session" else "lease"

    @property
    def near_ns(self) -> int:
        """How long before the second grant an event of a common kind lies at most."""
        return min(NEAR_NS, self.lease_ns // 10 or NEAR_NS)

    def counted(self) -> tuple[str, int, int] | None:
        """From when on the first owner's lease or session counts, by the calls that were answered
        before the second grant, and how long it is; None without one."""
        length_ns = self.case.promises.lasting_ns(self.lease_ns)
        if not length_ns:
            return None
        latest = "grant", self.older.t_inv_ns if not self.waited_for else self.granted_ns, length_ns
        for row in self.rows:
            if row.status is not Status.OK or row.end_ns > self.until_ns:
                continue
            renewed = row.f is Op.RENEW and row.attempt == self.older.attempt
            if renewed and 0 < (row.res or row.arg) <= FULL * length_ns:
                latest = "renewal", row.t_inv, row.res or row.arg
            if row.f is Op.HEARTBEAT and row.process == self.older.process:
                latest = "heartbeat", row.t_inv, row.res or length_ns
        return latest

    @property
    def waited_for(self) -> bool:
        """Whether the first grant was of a request that had waited."""
        return any(row.f is Op.WAITING and row.attempt == self.older.attempt for row in self.rows)

    @property
    def waited(self) -> bool:
        """Whether the second grant was of a request that had waited."""
        return any(row.f is Op.WAITING and row.attempt == self.newer.attempt for row in self.rows)

    def name(self, process: int) -> str:
        """The node of a client."""
        return self.case.nodes.get(process, f"process {process}")

    def at(self, t_ns: int) -> str:
        """A time of the run."""
        return f"{(t_ns - self.case.start_ns) / SECOND:.3f} s"

    def of(self, *kinds: Op) -> list[Row]:
        """The rows of these kinds that may have taken effect while the first one was in force."""
        return [
            row
            for row in self.rows
            if row.f in kinds and row.t_inv <= self.over_ns and row.end_ns >= self.since_ns
        ]

    def faults(self, nodes: set[str], since_ns: int) -> list[Window]:
        """The effective faults of these nodes that were open between a time and the grant."""
        return [
            one
            for one in self.case.windows
            if one.effective
            and nodes & set(one.nodes)
            and one.earliest_ns <= self.until_ns
            and one.to_ns >= since_ns
        ]


def happened(case: Case, shown: Shown) -> Step | None:
    """The event between the two grants of a finding that may have been the cause of the second.

    None for findings that are not about two grants.
    """
    asked = {
        one.attempt: one
        for one in shown.witnesses
        if one.op in ("acquire", "try") and one.attempt > 0
    }
    if shown.kind in STUCK:
        return _owner_died(case, shown)
    if shown.kind not in KINDS or len(asked) < 2:
        return None
    # The finding is dated by the second grant; its answer may have come before that of the first.
    order = sorted(asked.values(), key=lambda one: one.t_ret_ns or one.t_inv_ns)
    newer = next((one for one in order if one.t_ret_ns == shown.t_ns), order[-1])
    older = next(one for one in order if one is not newer)
    grants = SecondGrant(case, shown, older, newer)
    if shown.kind in OUTDATED:
        events = LOST
    elif shown.kind in FORGOTTEN_KINDS:
        events = FORGOTTEN
    else:
        events = DIED if shown.kind == "early-grant" else ENDED
    return next((step for event in events if (step := event(grants)) is not None), None)


def _owner_died(case: Case, shown: Shown) -> Step | None:
    """The kill of the last owner, which held the lock then: its first witness."""
    last = next((one for one in shown.witnesses if one.op in ("acquire", "try")), None)
    for one in reversed(case.windows):
        struck = last is not None and one.effective and one.traits.kills and last.node in one.nodes
        if last is not None and struck and last.t_inv_ns <= one.from_ns <= shown.t_ns:
            return _of_fault("owner-died", one)
    return None


def _step(grants: SecondGrant, event: str, text: str, t_ns: int, row: int = -1) -> Step:
    return Step(text=text, t_ns=min(t_ns, grants.until_ns), row=row, event=event)


def _of_fault(event: str, window: Window) -> Step:
    """A step whose text is that of the fault (`harness.verdicts.cause_steps`)."""
    return Step(text="", t_ns=window.earliest_ns, fault=window.id, event=event)


def forced(grants: SecondGrant) -> Step | None:
    """An operator freed the lock."""
    for row in reversed(grants.of(Op.FORCE_UNLOCK)):
        if row.status is Status.OK or row.status in UNANSWERED:
            text = f"an operator freed '{grants.older.lock}' at {grants.at(row.t_inv)}"
            return _step(grants, "forced", text, row.t_inv, row.index)
    return None


def released(grants: SecondGrant, *, by_owner: bool = False) -> Step | None:
    """A release by a client whose hold was over, or of one of several entries of the owner."""
    for row in reversed(grants.of(Op.RELEASE)):
        if row.t_inv < grants.granted_ns or row.status is not Status.OK:
            continue
        own = row.process == grants.older.process
        if row.attempt == grants.newer.attempt or ((grants.shared or by_owner) and not own):
            continue
        which = "one of its entries" if own else "an earlier hold"
        if row.attempt == grants.older.attempt:
            which = "it"
        text = (
            f"{grants.name(row.process)}'s release of {which}, sent at {grants.at(row.t_inv)},"
            f" returned ok at {grants.at(row.end_ns)}"
        )
        return _step(grants, "released" if own else "foreign-release", text, row.t_inv, row.index)
    return None


def given_back(grants: SecondGrant) -> Step | None:
    """A release by the owner itself."""
    return released(grants, by_owner=True)


def restarted(grants: SecondGrant) -> Step | None:
    """A server lost what it had in memory, or an operator put an earlier state back."""
    for one in reversed(grants.faults(grants.servers, grants.granted_ns)):
        kind = one.traits
        if kind.loses_unsynced or kind.operates or kind.kills or kind.kills_later:
            return _of_fault("restart", one)
    return None


def restarted_later(grants: SecondGrant) -> Step | None:
    """The same, after the last answer that the lock is held, if no leader was elected since."""
    for one in reversed(grants.faults(grants.servers, grants.since_ns - grants.near_ns)):
        kind, later = one.traits, elected(grants)
        if kind.loses_unsynced or kind.operates or kind.kills or kind.kills_later:
            return later or _of_fault("restart", one)
    return None


def clock_changed(grants: SecondGrant) -> Step | None:
    """The clock of a server was set."""
    for one in reversed(grants.faults(grants.servers, grants.granted_ns)):
        if one.traits.shifts_clocks and one.from_ns >= grants.since_ns - grants.near_ns:
            return _of_fault("clock-change", one)
    return None


def elected(grants: SecondGrant) -> Step | None:
    """A server became the leader."""
    for one in reversed(grants.case.elections):
        first_ns = max(grants.since_ns - grants.near_ns, grants.granted_ns)
        if first_ns <= one.t_ns <= grants.until_ns:
            term = f" (term {one.term})" if one.term is not None else ""
            text = f"{one.leader} became the leader{term} at {grants.at(one.t_ns)}"
            return _step(grants, "election", text, one.t_ns)
    return None


def session_ended(grants: SecondGrant) -> Step | None:
    """The session of the first owner ended, or its process was killed."""
    owner = grants.older.node
    for one in reversed(grants.faults({owner}, grants.granted_ns)):
        if one.traits.kills:
            return _of_fault("killed", one)
    for row in grants.rows:
        late = grants.since_ns - grants.near_ns <= row.t_inv <= grants.until_ns + grants.near_ns
        if row.f is Op.CLOSED and row.process == grants.older.process and late:
            text = f"{owner}'s session was reported as ended at {grants.at(row.t_inv)}"
            why = grants.case.history.strings[row.res]
            return _step(grants, "session", f"{text} ({why})", row.t_inv, row.index)
    return None


def gave_up(grants: SecondGrant) -> Step | None:
    """A request that waited was given up, just before the grant."""
    for row in reversed(grants.of(Op.ACQUIRE)):
        waited = row.aux != 0 and row.attempt not in (grants.older.attempt, grants.newer.attempt)
        ended = row.status in (Status.FAIL, Status.INFO) and row.end_ns <= grants.until_ns
        near = row.end_ns >= max(grants.granted_ns, grants.until_ns - grants.near_ns)
        if waited and ended and near and not grants.shared:
            text = f"{grants.name(row.process)}, which waited, gave up at {grants.at(row.end_ns)}"
            return _step(grants, "gave-up", text, row.end_ns, row.index)
    return None


def lease_ended(grants: SecondGrant) -> Step | None:
    """The service let the lease or session of the first owner end before its time."""
    counted = grants.counted()
    if counted is None or not (grants.waited or _notified(grants)):
        return None
    what, since_ns, lease_ns = counted
    passed_ns, held_ns = grants.until_ns - since_ns, grants.until_ns - grants.granted_ns
    if min(passed_ns, held_ns) < lease_ns // LEAST or passed_ns > lease_ns:
        return None
    owner = grants.older.node
    text = (
        f"nothing but time had passed since {owner}'s {what} at {grants.at(since_ns)}:"
        f" {span(passed_ns)} of {span(lease_ns)}"
    )
    if held_ns > lease_ns:
        text = (
            f"{owner} had been granted it {span(held_ns)} before, for {span(lease_ns)} each time:"
            f" its {what} at {grants.at(since_ns)} did not count, or not in full"
        )
    return _step(grants, "lease", text, grants.until_ns)


def ran_out(grants: SecondGrant) -> Step | None:
    """The lease of the first owner had run out, as it may."""
    counted = grants.counted()
    if counted is None or sum(counted[1:]) > grants.until_ns:
        return None
    what, since_ns, lease_ns = counted
    text = (
        f"{grants.older.node}'s {grants.bound} of {span(lease_ns)} ran out at"
        f" {grants.at(since_ns + lease_ns)}, counted from its {what} at {grants.at(since_ns)}"
    )
    return _step(grants, "ran-out", text, since_ns + lease_ns)


def _notified(grants: SecondGrant) -> Row | None:
    """The notice that the first owner's hold had ended."""
    notices = (r for r in grants.rows if r.f is Op.LOST and r.attempt == grants.older.attempt)
    return next(notices, None)


def resumed(grants: SecondGrant) -> Step | None:
    """Another than the first owner stood before or after a system call, and went on just then."""
    for one in reversed(grants.case.windows):
        stopped = set(met(one.evidence)) if one.evidence.get("did") == STOPPED else set()
        near = abs(one.to_ns - grants.until_ns) <= grants.near_ns and one.to_ns > grants.granted_ns
        if one.effective and near and stopped - {grants.older.node} - grants.servers:
            return _of_fault("resumed", one)
    return None


def without_token(grants: SecondGrant) -> Step | None:
    """One of the two grants carries no token, although the other one does."""
    older, newer = grants.older, grants.newer
    if grants.shared or (older.token < 0) is (newer.token < 0):
        return None
    bare, other = (older, newer) if older.token < 0 else (newer, older)
    if bare.status != "ok" or other.status != "ok":
        return None
    text = (
        f"{bare.node}'s acquire, sent at {grants.at(bare.t_inv_ns)}, was reported as granted"
        f" without a fencing token, which {other.node}'s grant has"
    )
    return _step(grants, "no-token", text, bare.t_ret_ns, bare.row)


def same_token(grants: SecondGrant) -> Step | None:
    """Both grants carry one token: the service did not make a new hold."""
    older, newer = grants.older, grants.newer
    if grants.shared or older.token < 0 or older.token != newer.token:
        return None
    text = f"{newer.node}'s grant carries the token {newer.token} of {older.node}'s hold"
    return gave_up(grants) or _step(grants, "same-token", text, grants.until_ns, newer.row)


def late_ok(grants: SecondGrant) -> Step | None:
    """The first lease had run out, and a later call of its owner returned ok."""
    counted = grants.counted()
    if counted is None or sum(counted[1:]) >= grants.until_ns:
        return None
    what, since_ns, lease_ns = counted
    for one in grants.shown.witnesses:
        own = one.attempt == grants.older.attempt and one.op in ("renew", "release")
        if own and one.status == "ok" and one.t_inv_ns > grants.until_ns:
            text = (
                f"{grants.older.node}'s {grants.bound} of {span(lease_ns)}, counted from its"
                f" {what} at {grants.at(since_ns)}, was over, and its {one.op} at"
                f" {grants.at(one.t_inv_ns)} returned ok all the same"
            )
            return _step(grants, "late-ok", text, grants.until_ns, one.row)
    return None


def late_answer(grants: SecondGrant) -> Step | None:
    """The first grant was answered only after the second one."""
    older = grants.older
    if older.t_ret_ns <= grants.until_ns + grants.near_ns:
        return None
    text = (
        f"the grant of {older.node}, which asked at {grants.at(older.t_inv_ns)}, reached it only at"
        f" {grants.at(older.t_ret_ns)}, and was accepted then"
    )
    return _step(grants, "late-answer", text, grants.until_ns, older.row)


def connection_lost(grants: SecondGrant) -> Step | None:
    """The connection of the first owner was lost."""
    for one in reversed(grants.faults({grants.older.node}, grants.since_ns - grants.near_ns)):
        if one.traits.on_connections:
            return _of_fault("connection", one)
    return None


def shared_release(grants: SecondGrant) -> Step | None:
    """Another owner, beside the first one, released the lock."""
    for row in reversed(grants.of(Op.RELEASE)):
        near = row.end_ns >= grants.until_ns - grants.near_ns
        if grants.shared and near and row.status is Status.OK:
            text = f"{grants.name(row.process)} released its own hold at {grants.at(row.end_ns)}"
            return _step(grants, "other-release", text, row.end_ns, row.index)
    return None


def cut_off(grants: SecondGrant) -> Step | None:
    """The first owner, or its connection, was cut off or stopped."""
    for one in reversed(grants.faults({grants.older.node}, grants.since_ns)):
        return _of_fault("owner-fault", one)
    return None


def server_fault(grants: SecondGrant) -> Step | None:
    """Another fault of a server was open."""
    for one in reversed(grants.faults(grants.servers, grants.since_ns)):
        return _of_fault("server-fault", one)
    return None


def unanswered(grants: SecondGrant) -> Step | None:
    """A call whose answer was lost may have taken effect."""
    for row in reversed(grants.of(Op.RELEASE, Op.RENEW, Op.ACQUIRE)):
        if row.status in UNANSWERED and row.attempt != grants.newer.attempt:
            call = row.f.name.lower()
            text = f"{grants.name(row.process)}'s {call}, sent at {grants.at(row.t_inv)}, had no"
            return _step(grants, "unanswered", f"{text} response", row.t_inv, row.index)
    return None


def concurrent(grants: SecondGrant) -> Step | None:
    """Both were requested at once, and neither waited."""
    older, newer, until_ns = grants.older, grants.newer, grants.until_ns
    if grants.waited or newer.t_inv_ns > grants.granted_ns:
        return None
    text = (
        f"both requests were under way at once: {older.node}'s from {grants.at(older.t_inv_ns)} to"
        f" {grants.at(grants.granted_ns)}, {newer.node}'s from {grants.at(newer.t_inv_ns)} to"
        f" {grants.at(until_ns)}"
    )
    return _step(grants, "concurrent", text, newer.t_inv_ns)


def at_once(grants: SecondGrant) -> Step:
    """Nothing happened that could end the first hold."""
    waited = ", after it had waited" if grants.waited else ""
    text = (
        f"{grants.newer.node}'s request, sent at {grants.at(grants.newer.t_inv_ns)}, was granted"
        f"{waited} with no release, no end of a session and no fault since the first grant"
    )
    return _step(grants, "nothing", text, grants.until_ns)


Found = Callable[[SecondGrant], Step | None]
ENDED: tuple[Found, ...] = (
    forced,
    resumed,
    released,
    without_token,
    same_token,
    late_answer,
    clock_changed,
    restarted_later,
    elected,
    session_ended,
    gave_up,
    late_ok,
    connection_lost,
    shared_release,
    lease_ended,
    cut_off,
    server_fault,
    unanswered,
    concurrent,
    at_once,
)
"""What may end a hold before its time, the rarest first: the first that happened is named."""
FORGOTTEN: tuple[Found, ...] = (restarted, clock_changed, elected, server_fault, cut_off)
"""What may make a service forget a grant or its counter."""
LOST: tuple[Found, ...] = (forced, given_back, session_ended, ran_out, released)
"""What may end a hold whose owner goes on: the release of another only before its time."""
DIED: tuple[Found, ...] = (session_ended, connection_lost, cut_off)
"""What may end a session whose lock is to stay closed for a while."""
