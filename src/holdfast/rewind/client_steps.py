"""Steps in which a client went wrong: where no server departs from its specification.

Clients have no specification. Each rule here goes by the kind of a finding, its witnesses and the
messages, and names no step unless the steps themselves show the mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.clusters.backends.sim.observed.steps import NONE, Fate, Kind, Step
from holdfast.harness.core.clock import MILLISECOND
from holdfast.harness.core.operations import NO_TOKEN, Op, Status
from holdfast.harness.verdicts.judged import Shown
from holdfast.reports.text.formatting import span
from holdfast.rewind.execution import Execution
from holdfast.rewind.witnesses import edge, message_of

CLOCKS_NS = 5 * MILLISECOND
"""Error of a correct client about the end of a lease, at most: its clock drifts."""
NEAR = 20
"""A timer for the end of a wait fires within 1/NEAR of its length around it."""
WAITS = (Op.WAITING, Op.ACQUIRE, Op.TRY, Op.PROBE)


@dataclass(frozen=True, kw_only=True, slots=True)
class WrongStep:
    """A step, and what is wrong in it, as "here ..."."""

    step: int
    says: str


def wrong_step(done: Execution, shown: Shown) -> WrongStep | None:
    """The step of a client that a finding shows to be wrong, None if no rule applies."""
    wrong = overstated(done, shown)
    if wrong is None and shown.kind in ("lost-without-notice", "late-grant-notice"):
        wrong = unheeded(done, shown)
    if wrong is None and shown.kind == "hung-request":
        wrong = overdue(done, shown)
    if wrong is None and shown.kind == "deadlock":
        wrong = kept_vote(done, shown)
    return wrong


def overstated(done: Execution, shown: Shown) -> WrongStep | None:
    """A session counted from an answer: it is said to last longer than if the service had renewed
    it as late as when it sent that answer. A row of a heartbeat counts from its own time."""
    rows = done.history.rows
    beats = rows[done.history.of(Op.HEARTBEAT)]
    longest_ns = int(beats["res"].max()) if len(beats) else 0
    for one in shown.witnesses:
        number = edge(done, one, returned=True)
        if number == NONE or int(rows[one.row]["f"]) != Op.HEARTBEAT:
            continue
        step, message = done.steps[number], message_of(done, number)
        if message is None or message.cause == NONE:
            continue
        old_ns = step.t_ns - done.steps[message.cause].t_ns
        if int(rows[one.row]["res"]) + old_ns > longest_ns + CLOCKS_NS:
            says = (
                f"here {step.node} counts a session of {span(int(rows[one.row]['res']))} from now,"
                f" by a message that was sent {span(old_ns)} before"
            )
            return WrongStep(step=number, says=says)
    return None


def unheeded(done: Execution, shown: Shown) -> WrongStep | None:
    """The message of a server that told a client the end of its hold, or its grant, and after which
    the client recorded nothing. For a loss: none that was sent before the successor's grant."""
    first = next((one for one in shown.witnesses if one.attempt), None)
    if first is None:
        return None
    others = [one for one in shown.witnesses if one.attempt not in (0, first.attempt)]
    lost = shown.kind == "lost-without-notice"
    words = [f"attempt={first.attempt}"]
    since, until = edge(done, first, returned=False), edge(done, first, returned=True)
    if lost:
        granted = edge(done, others[0], returned=True) if others else NONE
        message = message_of(done, granted) if granted != NONE else None
        if message is None:
            return None
        mine = [one for one in shown.witnesses if one.attempt == first.attempt]
        since, until = message.cause, edge(done, mine[-1], returned=False)
    elif first.token != NO_TOKEN:
        words.append(f"token={first.token}")
    for step in _from_servers(done, first.node):
        if step.number <= since or not all(_names(step.text, word) for word in words):
            continue
        if NONE < until <= step.number:
            break
        if not any(done.steps[one].rows for one in _at_once(done, step.number)):
            what = "the end of its hold" if lost else "its grant"
            says = f"here {step.node} is told {what}, and records nothing"
            return WrongStep(step=step.number, says=says)
    return None


def overdue(done: Execution, shown: Shown) -> WrongStep | None:
    """The timer that a call set for the end of its time, and that did not end it."""
    for one in shown.witnesses:
        called = edge(done, one, returned=False)
        wait_ns = int(done.history.rows[one.row]["aux"]) if called != NONE else 0
        if wait_ns <= 0:
            continue
        due_ns = done.steps[called].t_ns + wait_ns
        fired = [
            (abs(step.t_ns - due_ns), step.number)
            for step in done.steps[called + 1 :]
            if step.node == one.node
            and step.kind is Kind.TIMER
            and step.cause >= called
            and NEAR * abs(step.t_ns - due_ns) <= wait_ns
            and 2 * (step.t_ns - done.steps[step.cause].t_ns) >= wait_ns
        ]
        if fired:
            says = "here the timer fires that was set for the end of the call, which does not end"
            return WrongStep(step=min(fired)[1], says=says)
    return None


def kept_vote(done: Execution, shown: Shown) -> WrongStep | None:
    """A client was granted something by a server, its attempt went on or failed, and it never sent
    that server anything about it again: the grant stays until its lease ends."""
    since_ns = shown.t_ns
    for step in done.steps:
        if step.t_ns < since_ns or step.kind is not Kind.MESSAGE or step.cause == NONE:
            continue
        asked = done.steps[step.cause]
        owner = re.search(r"\battempt=\d+", asked.text)
        granted = step.fate is Fate.DELIVERED and "is=granted" in step.text
        if not granted or owner is None or not _names(asked.text, f"lock={shown.lock}"):
            continue
        ended = _next_of_wait(done, step)
        if ended == NONE or _given_back(done, step, owner.group()):
            continue
        says = f"here {step.node} goes on without a grant of {step.source}, and does not return it"
        return WrongStep(step=ended, says=says)
    return None


def _next_of_wait(done: Execution, granted: Step) -> int:
    """The step in which a client next recorded that it waits on or has failed; NONE where the next
    is anything else, as a grant."""
    index = {
        (done.history.writers[int(row["writer"])], int(row["row"])): n
        for n, row in enumerate(done.history.rows[["writer", "row"]])
    }
    for step in done.steps[granted.number + 1 :]:
        if step.node != granted.node:
            continue
        for one in step.rows:
            row = done.history.rows[index[one.writer, one.row]]
            if int(row["f"]) not in WAITS:
                return NONE
            waits = int(row["f"]) == Op.WAITING
            failed = one.returned and int(row["status"]) == Status.FAIL
            return step.number if waits or failed else NONE
    return NONE


def _given_back(done: Execution, granted: Step, owner: str) -> bool:
    """Whether its client sent the server anything more about a grant."""
    return any(
        step.source == granted.node and step.node == granted.source and _names(step.text, owner)
        for step in done.steps[granted.cause + 1 :]
        if step.kind is Kind.MESSAGE
    )


def _from_servers(done: Execution, node: str) -> Iterator[Step]:
    servers = dict.fromkeys(done.judged.servers)
    for step in done.steps:
        arrived = step.kind is Kind.MESSAGE and step.fate is Fate.DELIVERED
        if arrived and step.node == node and step.source in servers:
            yield step


def _at_once(done: Execution, number: int) -> Iterator[int]:
    """A step, and those that it woke on its node at the same instant."""
    first, woken = done.steps[number], {number: None}
    yield number
    for step in done.steps[number + 1 :]:
        if step.t_ns != first.t_ns:
            return
        if step.cause in woken and step.node == first.node:
            woken[step.number] = None
            yield step.number


def _names(text: str, word: str) -> bool:
    """Whether a message has a field with exactly this value."""
    return re.search(rf"(?:^|[ ,]){re.escape(word)}(?:,|$)", text) is not None
