"""Validation of a trace: whether every step of every node is one that the specification allows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict, cast

from holdfast.clusters.systems.reference.specification import locks
from holdfast.clusters.systems.reference.specification.convergence import Intervals, find_behind
from holdfast.clusters.systems.reference.specification.leadership import (
    AT_ONCE,
    Frame,
    LeadersView,
    state_of,
    tells,
)
from holdfast.clusters.systems.reference.specification.replication import Departs, Replication
from holdfast.clusters.systems.reference.specification.trace import (
    Applied,
    Event,
    LockView,
    SessionView,
    Step,
    TableView,
    Torn,
)
from holdfast.harness.verdicts.judged import Departure
from holdfast.harness.verdicts.specification import Settled


class Kept(TypedDict, total=False):
    """Arguments of `Departs` that name the event which set what a step goes by."""

    began: int
    set_by: str


class Validation:
    """One cluster, event by event, in the order of time.

    outcomes   what each committed command does, by its index; 0 is the empty table
    views      all locks after each command, as nodes tell them
    past       (lock, token, attempt) -> reason, of all holds that ended
    applied    node -> index of the last command that it applied
    when       node -> (index, event) of each command that it applied, in order
    event      number of the present event of the trace
    committed  index -> (time on the run's clock, event) at which it was first committed
    booted     node -> when it last started, on the run's clock
    """

    def __init__(self, nodes: int, order: locks.Order, *, delay_ns: int) -> None:
        self.log = Replication(nodes)
        self.order, self.delays, self.delay_ns = order, bool(delay_ns), delay_ns
        self.outcomes = [locks.Outcome(locks.EMPTY, {}, [], {})]
        self.views: list[Mapping[str, LockView]] = [{}]
        self.past: dict[tuple[str, int, int], str] = {}
        self.applied: dict[str, int] = {}
        self.when: dict[str, list[tuple[int, int]]] = {}
        self.leaders: dict[str, LeadersView] = {}
        self.event = -1
        self.committed = [(0, -1)]
        self.booted: dict[str, int] = {}

    def take(self, event: Event) -> None:
        """One event. Departs, if it is not allowed."""
        self.event += 1
        if isinstance(event, Step):
            self._steps(event)
        elif isinstance(event, Torn):
            self.log.torn(event)
        else:
            self.log.boot(event)
            self.applied[event.node] = self.log.disks[event.node].base
            self.leaders.pop(event.node, None)
            self.booted[event.node] = event.t_ns
            for done in event.done:
                self._does(event.node, done)

    def _steps(self, event: Step) -> None:
        self.log.step(event)
        agreed = self.log.agreed
        while len(self.outcomes) < len(agreed):
            self._commit(len(self.outcomes), agreed[len(self.outcomes)])
            self.committed.append((event.t_ns, self.event))
        leader = self.leaders.get(event.node)
        if event.leads or event.asked or (leader is not None and leader.pending):
            if leader is None:
                leader = self.leaders[event.node] = LeadersView()
            self._leads(event, leader)
        else:
            # A leader that was deposed and elected again starts over.
            if leader is not None:
                del self.leaders[event.node]
            for done in event.done:
                self._does(event.node, done)

    def _leads(self, event: Step, leader: LeadersView) -> None:
        """A step of a leader, or of a node that clients take for one."""
        node, now_ns = event.node, event.now_ns
        table = self.outcomes[self.applied.get(node, 0)].table
        leader.event = self.event
        if event.asked or self.log.fresh:
            leader.proposes(self.log.fresh, event.asked, now_ns)
        if event.leads:
            leader.led_ns = event.t_ns
            leader.overdue(table, now_ns)
        notices: list[locks.Notice] = []
        first = self.applied.get(node, 0) + 1
        for done in event.done:
            self._does(node, done)
            self._begins(event, leader, done.at)
            if leader.serving:
                notices += self.outcomes[done.at].notices
        for connection, frame in event.replies:
            if "event" in frame:
                self._notifies(leader, connection, frame, notices)
            elif frame["is"] in AT_ONCE:
                self._at_once(event, table, connection, frame)
            else:
                self._replies(event, leader, connection, frame, first)
        # Requests are put into the log in the order of its entries.
        oldest = next(iter(leader.pending), None)
        if oldest is not None and (oldest <= self.applied.get(node, 0) or not event.leads):
            raise Departs(
                "a request is answered when it is applied, or when its leader is deposed",
                f"entry {oldest} waits for {dict(leader.pending[oldest].frame)}",
                "a reply in this step",
                "none",
            )
        if not event.leads:
            del self.leaders[node]

    def _begins(self, event: Step, leader: LeadersView, index: int) -> None:
        """What begins when a leader applies an entry: its service, or leases and waits."""
        table, term = self.outcomes[index].table, self.log.agreed[index]
        opens = self.log.made[index, term][1] is None and self.log.leaders.get(term) == event.node
        if opens and event.leads and term == self.log.disks[event.node].term:
            leader.serves(table, event.now_ns, self.delay_ns)
            leader.term, leader.from_ns = term, event.t_ns
        elif leader.serving:
            before = self.outcomes[index - 1].table
            leader.applies(before, table, index, event.now_ns, self.delay_ns)

    def _at_once(self, event: Step, table: locks.Table, connection: int, frame: Frame) -> None:
        """A reply that needs no entry in the log."""
        asked = [one for at, one in event.asked if (at, one.get("id")) == (connection, frame["id"])]
        if not asked:
            raise Departs("a reply goes to its request", "", "no reply", f"{dict(frame)}")
        if frame["is"] == "state":
            view = locks.Applying(table, 0, self.order, self.delays, self.past)
            holds, waits = state_of(view, asked[-1])
            replied = cast("Sequence[Frame]", frame["waits"])
            if holds != frame["holds"] or not all(map(matches, waits, replied)):
                before = described({name: _view(lock) for name, lock in table.locks.items()})
                allows = f"holds {holds}, waits {waits}"
                raise Departs("the state of holds and waits", before, allows, f"{dict(frame)}")

    def _replies(
        self, event: Step, leader: LeadersView, connection: int, frame: Frame, first: int
    ) -> None:
        """A reply to a request in the log."""
        index = leader.request_of(connection, frame)
        request = leader.pending.pop(index)
        there = first <= index <= self.applied.get(event.node, 0)
        own = there and self.log.agreed[index] == request.term
        wanted = self.outcomes[index].answer if own else {"is": "deposed"}
        if not (own or there or not event.leads) or not matches(wanted, frame):
            raise Departs(
                f"the reply to {dict(request.frame)}",
                f"entry {index}; applied {first} to {self.applied.get(event.node, 0)}",
                f"{dict(wanted)}" if own or there or not event.leads else "no reply yet",
                f"{dict(frame)}",
            )
        if "held_ns" in frame:
            leader.ages(frame, event.now_ns)

    def _notifies(
        self, leader: LeadersView, connection: int, frame: Frame, notices: list[locks.Notice]
    ) -> None:
        if not tells(frame, notices, leader.spoke.get(connection, {})):
            raise Departs(
                "a notice tells what an applied command did",
                f"sessions on connection {connection}: {list(leader.spoke.get(connection, {}))}",
                f"{[tuple(one) for one in notices]}",
                f"{dict(frame)}",
            )

    def _does(self, node: str, done: TableView | Applied) -> None:
        """Loads a table, or applies a command."""
        if isinstance(done, TableView):
            self._loads(node, done)
        else:
            self._applies(node, done)

    def _commit(self, index: int, term: int) -> None:
        """The next command of the log, applied to the table of the specification."""
        command = cast("locks.Command | None", self.log.made[index, term][1])
        before = self.outcomes[-1].table
        outcome = locks.after(
            before, index, command, order=self.order, delays=self.delays, past=self.past
        )
        self.past.update(outcome.ended)
        self.outcomes.append(outcome)
        now, view = outcome.table.locks, self.views[-1]
        if now != before.locks:
            same = {name: view[name] for name in view if now.get(name) is before.locks[name]}
            view = {name: same.get(name) or _view(lock) for name, lock in now.items()}
        self.views.append(view)

    def _applies(self, node: str, done: Applied) -> None:
        index, last = done.at, self.applied.get(node, 0)
        if index != last + 1 or index > self.log.disks[node].committed:
            raise Departs(
                "committed commands are applied once, in order",
                f"applied to {last}, committed to {self.log.disks[node].committed}",
                f"to apply {last + 1} once it is committed",
                f"applies {index}",
            )
        self.applied[node] = index
        if node not in self.when:
            self.when[node] = []
        self.when[node].append((index, self.event))
        wanted = self.outcomes[index]
        if not matches(wanted.answer, done.answer):
            raise Departs(
                f"the answer to {self._told(index)}",
                self._locks_before(index),
                f"{dict(wanted.answer)}",
                f"{dict(done.answer)}",
            )
        if self.views[index] != done.locks:
            raise Departs(
                f"the locks after {self._told(index)}",
                self._locks_before(index),
                described(self.views[index]),
                described(done.locks),
            )

    def _loads(self, node: str, found: TableView) -> None:
        """A snapshot: it has everything that the table had at its index."""
        self.applied[node] = found.at
        table, view = self.outcomes[found.at].table, self.views[found.at]
        if (view, table.token, table.newest) != (found.locks, found.token, found.newest):
            raise Departs(
                "a snapshot has the whole table",
                f"snapshot of entry {found.at}",
                f"{described(view)}; last token {table.token}; newest {dict(table.newest)}",
                f"{described(found.locks)}; last token {found.token}; newest {dict(found.newest)}",
            )
        for number in {**table.sessions, **found.sessions}:
            wanted, loaded = table.sessions.get(number), found.sessions.get(number)
            if wanted is None or loaded is None or not same_session(wanted, loaded):
                raise Departs(
                    "a snapshot has every session and its answers",
                    f"snapshot of entry {found.at}",
                    f"session {number}: {tuple(wanted) if wanted else 'none'}",
                    f"session {number}: {loaded}",
                    **self._kept(found.at, number, loaded),
                )
            busy = _busy(found.locks, number)
            if loaded[4] != busy:
                raise Departs(
                    "a session counts its holds and waits",
                    f"snapshot of entry {found.at}",
                    f"session {number}: {busy}",
                    f"session {number}: {loaded[4]}",
                )

    def _kept(self, at: int, number: int, told: SessionView | None) -> Kept:
        """Where a session has answers that a command ended: the event in which the node that made
        the snapshot applied that command."""
        first = (
            next((seq for seq in told[3] if self._ended(at, number, seq)), None) if told else None
        )
        if first is None:
            return {}
        entry = self._ended(at, number, first)
        applied = self.when.get(self.log.makers.get(at, ""), [])
        event = next((event for index, event in reversed(applied) if index == entry), -1)
        says = f"entry {entry} is applied, which ends the answer {first} of session {number}"
        return {"began": event, "set_by": says}

    def _ended(self, at: int, number: int, seq: int) -> int:
        """The entry up to `at` that ended an answer; 0: it is there, or never was."""

        def has(index: int) -> bool:
            session = self.outcomes[index].table.sessions.get(number)
            return session is not None and seq in session.answers

        if has(at):
            return 0
        return next((index for index in range(at, 0, -1) if has(index - 1)), 0)

    def _told(self, index: int) -> str:
        command = self.log.made[index, self.log.agreed[index]][1]
        text = "the empty command" if command is None else f"{dict(command)}"
        return f"entry {index}: {text}"

    def _locks_before(self, index: int) -> str:
        return described(self.views[index - 1])


def matches(wanted: Mapping[str, object], found: Mapping[str, object]) -> bool:
    """Whether an answer says what it must; it may say more."""
    return wanted == found or wanted.items() <= found.items()


def same_session(wanted: locks.Session, told: SessionView) -> bool:
    """Whether a node has a session as it must be, with an answer to each request that is open."""
    answers, kept = wanted.answers, told[3]
    if tuple(wanted[:3]) != told[:3] or answers.keys() != kept.keys():
        return False
    return all(matches(answer, kept[seq]) for seq, answer in answers.items())


def _busy(locks: Mapping[str, LockView], session: int) -> int:
    """How many holds and waits a session has: with any it is never dropped."""
    return sum(
        sum(hold[2] == session for hold in holds) + sum(asked[0] == session for asked in queue)
        for holds, queue, _ in locks.values()
    )


def _view(lock: locks.Lock) -> LockView:
    return (
        tuple(hold[:6] for hold in lock.holds),
        tuple(request[:3] for request in lock.queue),
        lock.closed,
    )


def described(view: Mapping[str, LockView]) -> str:
    """All locks in words."""
    parts = []
    for name, (holds, queue, closed) in view.items():
        held = ", ".join(
            f"attempt {hold[0]} of session {hold[2]} with token {hold[1]}"
            f" (renewed {hold[5]} times, last by entry {hold[4]})"
            for hold in holds
        )
        waits = ", ".join(f"request {seq} of session {session}" for session, seq, _ in queue)
        shut = f", closed since entry {closed}" if closed else ""
        parts.append(f"{name}: held by {held or 'none'}; waiting {waits or 'none'}{shut}")
    return "; ".join(parts) or "no lock is in use"


def validate(
    events: Iterable[object],
    *,
    nodes: int,
    options: Mapping[str, str],
    settled: Settled | None = None,
) -> Departure | None:
    """The first event of a run that is not allowed, None if all are, and its end too."""
    order = cast("locks.Order", options.get("queue", "fifo"))
    state = Validation(nodes, order, delay_ns=int(options.get("delay_ms", "0")) * 1_000_000)
    for event in cast("Iterable[Event]", events):
        try:
            state.take(event)
        except Departs as wrong:
            return _departure(event.node, event.t_ns, wrong)
    if settled is not None:
        intervals = Intervals.of(options, settled)
        behind = find_behind(state.log, state.leaders, state.committed, state.booted, intervals)
        if behind is not None:
            return _departure(*behind)
    return None


def _departure(node: str, t_ns: int, wrong: Departs) -> Departure:
    return Departure(
        node=node,
        t_ns=t_ns,
        rule=wrong.rule,
        before=wrong.before,
        allows=wrong.allows,
        happened=wrong.happened,
        began=wrong.began,
        early_ns=wrong.early_ns,
        set_by=wrong.set_by if wrong.began >= 0 else "",
    )
