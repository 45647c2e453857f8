"""Compares the servers' own record of the locks with what the clients were answered.

An acquire and a hold of the record belong together if the record names the attempt. A difference is
reported only if no order of what both sides know explains it: times are compared by their bounds,
and nothing is concluded across a gap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from holdfast.harness.core.case import Case
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status
from holdfast.harness.judging.recorded_holds import (
    ENDS,
    IN_GAP,
    OPEN,
    RecordedHold,
    RecordedHolds,
    derived,
)
from holdfast.harness.runs import server_record
from holdfast.harness.runs.directory import RunDir
from holdfast.harness.verdicts.judged import Difference, ServerRecord

MOST = 200
"""Differences and gaps that are kept with the verdict."""
ASKS, NO_ANSWER = (Op.ACQUIRE, Op.TRY, Op.PROBE), (Status.INFO, Status.INVOKED)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedCall:
    """One call of a client; `to_ns` is 0 while it has not returned."""

    op: Op
    status: Status
    from_ns: int
    to_ns: int
    token: int
    ttl_ns: int


@dataclass(kw_only=True, slots=True)
class RecordedAttempt:
    """One exclusive acquire, and the later calls of its hold."""

    id: int
    lock: str
    acquire: RecordedCall
    later: list[RecordedCall] = field(default_factory=list)


def compared(run: RunDir, case: Case) -> ServerRecord | None:
    """The comparison of a run; None if it has no record."""
    if not run.has(run.server_record):
        return None
    attempts = attempts_of(case)
    called = {str(one.id): one.acquire.from_ns for one in attempts}
    try:
        record = derived(server_record.events(run), called)
    except (UsageError, OSError) as error:
        return ServerRecord(problem=str(error))
    return compare(record, attempts, case)


def attempts_of(case: Case) -> list[RecordedAttempt]:
    """The exclusive acquires of a history, with their renewals and releases, in order of calls."""
    rows, strings = case.history.rows, case.history.strings
    names = ("f", "status", "t_inv", "t_ret", "token", "res", "attempt", "key", "mode")
    wanted = np.isin(rows["f"], [*ASKS, Op.RENEW, Op.RELEASE])
    found: dict[int, RecordedAttempt] = {}
    for f, status, t_inv, t_ret, token, res, attempt, key, mode in zip(
        *(rows[name][wanted].tolist() for name in names), strict=True
    ):
        call = RecordedCall(
            op=Op(f), status=Status(status), from_ns=t_inv, to_ns=t_ret, token=token, ttl_ns=res
        )
        if call.op in ASKS and mode == Mode.EXCLUSIVE:
            found[attempt] = RecordedAttempt(id=attempt, lock=strings[key], acquire=call)
        elif call.op not in ASKS and attempt in found:
            found[attempt].later.append(call)
    return list(found.values())


def compare(record: RecordedHolds, attempts: Sequence[RecordedAttempt], case: Case) -> ServerRecord:
    """All differences, and how much was compared."""
    comparison = _Comparison(record=record, case=case)
    known = {str(one.id) for one in attempts}
    counts = Counter[str]()
    found = list(comparison.double())
    for attempt in attempts:
        hold = comparison.hold_of(attempt)
        counts.update(comparison.counted(attempt, hold))
        found += comparison.differences(attempt, hold)
    found.sort(key=lambda one: one.t_ns)
    return ServerRecord(
        source=record.source,
        events=record.events,
        holds=len(record.holds),
        strangers=sum(hold.owner not in known for hold in record.holds),
        total=len(found),
        differences=tuple(found[:MOST]),
        gaps=tuple(record.gaps[:MOST]),
        whole=record.whole,
        granted=counts["granted"],
        matched=counts["matched"],
        uncovered=counts["uncovered"],
        undone=counts["undone"],
        unknown=counts["unknown"],
        took_effect=counts["took_effect"],
        no_effect=counts["no_effect"],
    )


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    record: RecordedHolds
    case: Case

    @cached_property
    def holds(self) -> Mapping[tuple[str, str], RecordedHold]:
        """The last hold of each lock and owner: an acquire may be undone and done again."""
        return {(hold.lock, hold.owner): hold for hold in self.record.holds}

    @cached_property
    def forced(self) -> Mapping[str, int]:
        """Lock -> the first call by which an operator may have ended a hold of it."""
        rows, strings = self.case.history.rows, self.case.history.strings
        calls = rows[rows["f"] == Op.FORCE_UNLOCK]
        pairs = zip(calls["key"].tolist(), calls["t_inv"].tolist(), strict=True)
        return {strings[key]: t_inv for key, t_inv in reversed(list(pairs))}

    def hold_of(self, attempt: RecordedAttempt) -> RecordedHold | None:
        return self.holds.get((attempt.lock, str(attempt.id)))

    def counted(self, attempt: RecordedAttempt, hold: RecordedHold | None) -> Iterator[str]:
        """Names of the counts to which an acquire belongs."""
        acquire = attempt.acquire
        if acquire.status is Status.OK:
            yield "granted"
            if hold is not None:
                yield "matched"
            elif not self.record.covers(acquire.from_ns, acquire.to_ns):
                yield "uncovered"
        elif acquire.status in NO_ANSWER:
            yield "unknown"
            if hold is not None:
                yield "took_effect"
            elif self._never(acquire):
                yield "no_effect"
        elif hold is not None and hold.state == ENDS and not self._held_after(hold, acquire.to_ns):
            yield "undone"

    def _never(self, acquire: RecordedCall) -> bool:
        """Whether a call without an outcome has no effect up to the end of a whole record."""
        record = self.record
        return record.whole and record.covers(acquire.from_ns, record.until_ns)

    def differences(
        self, attempt: RecordedAttempt, hold: RecordedHold | None
    ) -> Iterator[Difference]:
        """What the responses to one attempt say against the record."""
        acquire = attempt.acquire
        if acquire.status is Status.OK and hold is None:
            if self.record.covers(acquire.from_ns, acquire.to_ns):
                text = f"was granted {attempt.lock}, but the record has no such hold"
                yield self._difference("granted-not-recorded", attempt, acquire.to_ns, text)
        elif acquire.status is Status.FAIL and hold is not None:
            if self._held_after(hold, acquire.to_ns):
                text = f"was refused {attempt.lock}, but the record has its hold after that"
                yield self._difference("refused-but-held", attempt, acquire.to_ns, text, hold)
        elif acquire.status is Status.OK and hold is not None:
            yield from self._of_grant(attempt, hold)
        if hold is not None:
            yield from self._of_ends(attempt, hold)

    def _of_grant(self, attempt: RecordedAttempt, hold: RecordedHold) -> Iterator[Difference]:
        acquire = attempt.acquire
        if hold.after_ns > acquire.to_ns:
            text = f"was granted {attempt.lock} before its hold begins in the record"
            yield self._difference("granted-early", attempt, acquire.to_ns, text, hold)
        if NO_TOKEN not in (acquire.token, hold.token) and acquire.token != hold.token:
            text = (
                f"was granted {attempt.lock} with token {acquire.token}, which is {hold.token} in"
                " the record"
            )
            yield self._difference("token-differs", attempt, acquire.to_ns, text, hold)
        if self._lost(attempt, hold):
            where = "within a gap of the record" if hold.state == IN_GAP else "in the record"
            text = f"lost {attempt.lock} {where}, before its lease was over and without a release"
            yield self._difference("lost", attempt, hold.ends_before_ns, text, hold)

    def _lost(self, attempt: RecordedAttempt, hold: RecordedHold) -> bool:
        """Whether the hold ended before its lease can have been over, and without a call that may
        have ended it."""
        promises, ended_ns = self.case.promises, hold.ends_before_ns
        if promises.bound != "lease" or hold.state not in (ENDS, IN_GAP):
            return False
        if ended_ns > self.case.stop_ns or self.forced.get(attempt.lock, ended_ns + 1) <= ended_ns:
            return False
        calls = (attempt.acquire, *attempt.later)
        if any(call.op is Op.RELEASE and call.from_ns <= ended_ns for call in calls):
            return False
        lease_over_ns = max(
            (
                call.from_ns + call.ttl_ns - call.ttl_ns * promises.drift_ppm // 1_000_000
                for call in calls
                if call.status is Status.OK and call.ttl_ns > 0 and call.from_ns <= ended_ns
            ),
            default=0,
        )
        return ended_ns < lease_over_ns - promises.slip_ns

    def _of_ends(self, attempt: RecordedAttempt, hold: RecordedHold) -> Iterator[Difference]:
        """Releases and renewals against the end of the hold in the record."""
        promises = self.case.promises
        for call in attempt.later:
            ended_before = hold.ends_before_ns < call.from_ns
            says = {Op.RELEASE: "released", Op.RENEW: "renewed"}[call.op]
            proves = promises.release_proves if call.op is Op.RELEASE else promises.renew_proves
            if call.status is Status.OK and proves and ended_before:
                text = f"{says} {attempt.lock}, whose hold had ended in the record"
                yield self._difference(f"{says}-not-held", attempt, call.from_ns, text, hold)
            gone = call.status is Status.NOT_OWNER or (
                call.status is Status.OK and call.op is Op.RELEASE and promises.release_once
            )
            if gone and self._held_after(hold, call.to_ns):
                kind = "released" if call.status is Status.OK else "not-owner"
                word = "had released" if call.status is Status.OK else "was not the owner of"
                text = f"{word} {attempt.lock} by the response, but holds it in the record after"
                yield self._difference(f"{kind}-but-held", attempt, call.to_ns, text, hold)

    def _held_after(self, hold: RecordedHold, t_ns: int) -> bool:
        """Whether the hold certainly went on after a time."""
        if hold.state == OPEN:
            return self.record.whole and t_ns < self.record.until_ns
        return t_ns < hold.ends_after_ns

    def double(self) -> Iterator[Difference]:
        """Holds that began in the record before their predecessor ended."""
        for before, after in self.record.double:
            yield Difference(
                kind="two-holders",
                sentence=f"the record gives {after.lock} to {self._name(after.owner)} while"
                f" {self._name(before.owner)} holds it (place {after.at})",
                lock=after.lock,
                t_ns=after.before_ns,
                at=after.at,
            )

    def _name(self, owner: str) -> str:
        """An owner of the record as a client, if it is one."""
        node = (
            self.case.nodes.get(int(owner) >> 32) if owner.isascii() and owner.isdigit() else None
        )
        return node or f"owner {owner[:60]!r}"

    def _difference(
        self,
        kind: str,
        attempt: RecordedAttempt,
        t_ns: int,
        text: str,
        hold: RecordedHold | None = None,
    ) -> Difference:
        process = attempt.id >> 32
        client = self.case.nodes.get(process, f"process {process}")
        number = attempt.id & 0xFFFFFFFF
        at = NO_TOKEN if hold is None else hold.at
        place = "" if hold is None else f" (place {hold.at} in the record)"
        return Difference(
            kind=kind,
            sentence=f"{client}, acquire {number}, {text}{place}",
            lock=attempt.lock,
            t_ns=t_ns,
            process=process,
            at=at,
        )
