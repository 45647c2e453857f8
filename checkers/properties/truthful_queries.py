"""Truthful queries: responses about a lock agree with its history.

Claims
    VIOLATED: a response names a holder whose hold was certainly over or never existed, or reports
    no holder during a hold, or another one (it is false, or two held at once: exclusion has to be
    promised); it counts renewals that cannot have happened, or gives the text of another hold; it
    reports an age of a hold that is longer than since the call of its acquire, or
    shorter than since it was known, or more time left of its lease than was ever requested; it
    gives an attempt a place in the queue with more ahead than can have been there, a place that
    grows, or none while it certainly waited; it reports more waiters than possible, or fewer than
    certain; a grant on the condition of no hold since came after another grant, or such a condition
    was reported as broken although no client can have held.
Assumes
    That a response is true at some instant between call and return of the query. If tokens show the
    order of grants, that they are promised to be ordered under the faults of the run.
Blind to
    A hold that ended by its lease alone: a service may end one late. Counts of renewals, and times,
    of locks that several hold, and one renewal of a hold whose acquire waited or lasted longer than
    a quarter of its lease: its adapter may have renewed once before it returned; times that the
    service does not report, as after a change of leader,
    and a lease reported with less time left than there is. Texts of holds if the workload sets
    none. A reported queue that is too long if acquires of unknown outcome may be in it, and one
    that is too short but reported as 64 or more. Entries of an owner with more than 64 open
    attempts at one lock.
Cost
    The queries, each times the concurrent operations on its lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.wording import lock_name, name, seconds
from holdfast.checkers.holds.contradictions import first_come
from holdfast.checkers.holds.derive import Attempt, by_id, conflict
from holdfast.checkers.holds.hierarchy import paths
from holdfast.checkers.holds.overlaps import slack
from holdfast.checkers.properties import lock_timeline, truthful_queries_opportunities
from holdfast.checkers.properties.hold_age import wrong_age
from holdfast.checkers.properties.lock_timeline import LockStory
from holdfast.checkers.properties.queue_length import false_lengths
from holdfast.checkers.properties.release_entries import false_entries
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import NO_TOKEN, Mode, Op, Status, carried
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict

PROPERTY = "truthful-queries"
NEEDS = ("contention", "queries", "faults")
OPPORTUNITIES = truthful_queries_opportunities.OPPORTUNITIES


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """A query that returned ok: its row and columns."""

    row: int
    key: int
    process: int
    attempt: int
    token: int
    res: int
    inv_ns: int
    ret_ns: int
    spent: int = 0
    text: str = ""


def check(case: Case) -> PropertyVerdict:
    """The verdict on truthful-queries, with a finding per response that cannot be right."""
    findings = [
        *_answers(case, Op.HOLDER, _about_holder),
        *_answers(case, Op.PLACE, _about_place),
        *false_lengths(case),
        *false_entries(case),
        *_checks(case),
        *_growing(case),
        *_conditions(case),
    ]
    findings.sort(key=lambda finding: finding.t_ns)
    return conclude(case, PROPERTY, findings, (), exercise(case, needs=NEEDS))


Wrong = tuple[str, tuple[int, ...], Proof]
"""Why a response cannot be right, the rows that prove it, and the rule."""
Judge = Callable[[Case, Query, LockStory], Wrong | None]


def _queries(case: Case, op: Op) -> Iterator[Query]:
    rows = case.history.rows
    for row in case.history.of(op).tolist():
        one = rows[row]
        if one["status"] == Status.OK and int(one["key"]) not in paths(case):
            yield Query(
                row=row,
                key=int(one["key"]),
                process=int(one["process"]),
                attempt=int(one["attempt"]),
                token=int(one["token"]),
                res=int(one["res"]),
                inv_ns=int(one["t_inv"]),
                ret_ns=int(one["t_ret"]),
                spent=int(one["spent"]),
                text=case.history.strings[int(one["err"])] if op is Op.HOLDER else "",
            )


def _answers(case: Case, op: Op, judge: Judge) -> Iterator[Finding]:
    for query in _queries(case, op):
        story = lock_timeline.story(case, query.key)
        wrong = judge(case, query, story)
        if wrong is not None:
            yield _finding(case, query, op, *wrong)


def _about_holder(case: Case, query: Query, story: LockStory) -> Wrong | None:
    if query.token == NO_TOKEN:
        holder = story.holder_over(query.inv_ns, query.ret_ns)
        if holder is None:
            return None
        roles, held = witnesses.known(case, holder=holder), story.held_until(holder)
        why = f"{name(case, holder.process)} held it throughout"
        return why, (holder.row,), _proof("nobody", roles, held=held)
    named = story.named(query.token)
    if len(named) > lock_timeline.MOST_NAMED:
        return None
    newer = story.newer_before(query.token, query.inv_ns, named)
    if newer is not None:
        rule, beside = "passed", {"newer": newer}
        if newer.mode != Mode.EXCLUSIVE:
            rule = "passed-beside"
            beside["named"] = next(a for a in named if conflict(a, newer))
        why = f"token {newer.token} had been granted before"
        return why, (newer.row,), _proof(rule, witnesses.known(case, **beside))
    older = story.older_beyond(named[0], query.ret_ns) if named else None
    if older is not None:
        why = f"{name(case, older.process)} still held it, with token {older.token}"
        roles = witnesses.sides(case, older=older) | witnesses.known(case, named=named[0])
        return why, (older.row,), _proof("not-yet", roles)
    if query.text and not _may_carry(query, story, named):
        why = f"{query.text!r} is not what that hold carried"
        return why, tuple(a.row for a in named[:1]), _proof("text", {}, carriers=0)
    if any(a.inv_ns <= query.ret_ns and not story.over(a, query.inv_ns) for a in named):
        wrong = _about_the_hold(case, query, story, named[0])
        return wrong or _beside(case, query, story)
    if story.unknown_before(query.ret_ns):
        return _beside(case, query, story)
    if not named:
        return "no attempt had that token", (), _proof("no-hold", {}, possible=0)
    why = "that hold was over or had not begun"
    return why, (named[0].row,), _proof("no-hold", {}, possible=0)


def _beside(case: Case, query: Query, story: LockStory) -> Wrong | None:
    """Why a response is false, or two held at once: it names a token that may have been granted,
    and another certainly held throughout. Only if neither may be, by what is promised."""
    holder = story.holder_over(query.inv_ns, query.ret_ns)
    exclusive = holder is not None and holder.mode == Mode.EXCLUSIVE
    if holder is None or not exclusive or holder.token in (NO_TOKEN, query.token):
        return None
    kinds = {window.do for window in case.windows}
    alone = case.promises.promised("mutual-exclusion", kinds)
    if not alone or not story.sole_entry(holder, query.inv_ns, query.ret_ns):
        return None
    why = f"{name(case, holder.process)} held it throughout, with token {holder.token}: the"
    why += " response is false, or two held at once"
    roles = witnesses.known(case, holder=holder)
    return why, (holder.row,), _proof("beside", roles, held=story.held_until(holder))


def _may_carry(query: Query, story: LockStory, named: Sequence[Attempt]) -> bool:
    """Whether the text is that of the named hold, or of one of unknown outcome that may be it."""
    mine = any(carried(a.id) == query.text for a in named)
    return mine or story.may_be_unknown(query.text)


def _about_the_hold(case: Case, query: Query, story: LockStory, holder: Attempt) -> Wrong | None:
    """Why the reported renewals and times of a hold cannot be right, if the hold is unambiguous."""
    alone = story.alone(holder, query.ret_ns) and holder.mode == Mode.EXCLUSIVE
    if not alone or holder.status is not Status.OK:
        return None
    least, most = lock_timeline.renewals(case, holder, query.inv_ns, query.ret_ns)
    roles = {"holder": holder.row}
    if query.res >= 0 and not least <= query.res <= most:
        why = f"it had been renewed {least} to {most} times, not {query.res}"
        rule = "renewed-more" if query.res < least else "renewed-less"
        return why, (holder.row,), _proof(rule, roles, least=least, most=most)
    wrong = wrong_age(case, holder, query.spent, query.inv_ns, query.ret_ns)
    if wrong is None:
        return None
    why, rule, numbers = wrong
    return why, (holder.row,), _proof(rule, roles, **numbers)


def _about_place(case: Case, query: Query, story: LockStory) -> Wrong | None:
    a = by_id(case).get(query.attempt)
    if a is None:
        return None
    if query.res < 0:
        holder = story.holder_over(query.inv_ns, query.ret_ns, beside=a)
        if holder is None or not story.waited_since(a, query.inv_ns) or a.status != Status.OK:
            return None
        if a.ret_ns <= query.ret_ns + story.slack_ns or not story.granted_after(a, holder):
            return None
        why = f"it was waiting, {name(case, holder.process)} held throughout"
        return why, (a.row, a.waitings[0], holder.row), _waits(case, a, holder, story)
    decided = a.status in (Status.OK, Status.FAIL) and a.ret_ns + story.slack_ns < query.inv_ns
    if decided:
        proof = _proof("answered", {"a": a.row})
        return "its acquire had returned before", (a.row,), proof
    most = story.ahead_at_most(a, query.inv_ns, query.ret_ns)
    if query.res <= most:
        return None
    why = f"at most {most} can have been ahead of it, not {query.res}"
    return why, (a.row,), _proof("place", {"a": a.row}, most=most)


def _waits(case: Case, a: Attempt, holder: Attempt, story: LockStory) -> Proof:
    roles = {"a": a.row, "waiting": a.waitings[0], **witnesses.known(case, holder=holder)}
    how = "tokens" if story.ordered and NO_TOKEN < holder.token < a.token else "proved"
    if how == "proved":
        roles["a_proof"] = a.proof_row
    return _proof(f"waits/{how}", roles, held=story.held_until(holder, beside=a))


def _proof(rule: str, roles: Mapping[str, int], **values: int) -> Proof:
    return Proof(rule=f"false-answer/{rule}", roles=roles, values=values)


def _checks(case: Case) -> Iterator[Finding]:
    """Holds reported as in force after their end, or as not in force while they were proved."""
    asked = case.history.of(Op.CHECK).tolist()
    known = by_id(case) if asked else {}
    for row in asked:
        a = known.get(int(case.history.rows["attempt"][row]))
        wrong = None if a is None else _wrong_check(case, a, row)
        if a is not None and wrong is not None:
            why, proof = wrong
            asked_ns = int(case.history.rows["t_inv"][row])
            yield Finding(
                kind="false-answer",
                sentence=(
                    f"{name(case, a.process)}'s check of its hold of '{lock_name(case, a)}' (token"
                    f" {a.token}), sent at {seconds(case, asked_ns)}, returned that it is {why}"
                ),
                witnesses=tuple(r for r in (a.row, a.end_row, a.proof_row, row) if r >= 0),
                lock=lock_name(case, a),
                t_ns=asked_ns,
                proof=replace(proof, roles={"query": row, **proof.roles}),
            )


def _wrong_check(case: Case, a: Attempt, row: int) -> tuple[str, Proof] | None:
    """Why a response about a hold cannot be right; several entries may share a token."""
    one, slack_ns = case.history.rows[row], slack(case)
    inv_ns, ret_ns = int(one["t_inv"]), int(one["t_ret"])
    story = lock_timeline.story(case, a.key)
    over = story.alone(a, ret_ns) and story.over(a, inv_ns)
    if one["status"] == Status.OK and over:
        proof = _proof("in-force", {"a": a.row}, over=story.over_ns(a))
        return "in force, but that hold was over", proof
    from_ns, to_ns = a.proved or (inv_ns, inv_ns)
    if one["status"] == Status.FAIL and from_ns + slack_ns < inv_ns <= ret_ns + slack_ns < to_ns:
        why = f"not in force, but it held without interruption since {seconds(case, a.known_ns)}"
        return why, _proof("not-in-force", witnesses.sides(case, a=a))
    return None


def _growing(case: Case) -> Iterator[Finding]:
    """Places that grew although no later request goes first: each against the smallest place of a
    query that had returned before, which need not be the last one."""
    pending: dict[int, list[tuple[int, int, int]]] = {}
    least: dict[int, tuple[int, int, int]] = {}
    for query in _queries(case, Op.PLACE):
        if query.res < 0 or not query.attempt or not first_come(case, query.key):
            continue
        returned = pending.setdefault(query.attempt, [])
        while returned and returned[0][0] < query.inv_ns:
            ret_ns, row, place = heappop(returned)
            known = least.get(query.attempt)
            if known is None or place < known[0]:
                least[query.attempt] = place, row, ret_ns
        place, row, ret_ns = least.get(query.attempt, (query.res, -1, 0))
        if place < query.res:
            why = f"a response before, at {seconds(case, ret_ns)}, was {place}"
            yield _finding(case, query, Op.PLACE, why, (row,), _proof("growing", {"before": row}))
        heappush(returned, (query.ret_ns, query.row, query.res))


def _conditions(case: Case) -> Iterator[Finding]:
    for a, newest in lock_timeline.conditional(case):
        story = lock_timeline.story(case, a.key)
        if a.status is Status.OK:
            between = story.granted_between(newest, a.token)
            if between is not None:
                yield _condition(
                    case,
                    a,
                    newest,
                    f"although token {between.token} had been granted since",
                    (between.row, a.row),
                    Proof(
                        rule="false-condition/granted",
                        roles={"a": a.row, **witnesses.known(case, between=between)},
                        values={"newest": newest},
                    ),
                )
        elif lock_timeline.refused_as_changed(case, a) and not story.may_follow(newest, a):
            proof = Proof(
                rule="false-condition/refused",
                roles={"a": a.row},
                values={"newest": newest, "followers": 0},
            )
            why = "was refused, although no client can have held since"
            yield _condition(case, a, newest, why, (a.row,), proof)


def _condition(
    case: Case, a: Attempt, newest: int, why: str, rows: tuple[int, ...], proof: Proof
) -> Finding:
    verb = f"was granted with token {a.token}, " if a.status is Status.OK else ""
    return Finding(
        kind="false-condition",
        sentence=(
            f"{name(case, a.process)}'s acquire of '{case.history.strings[a.key]}' at"
            f" {seconds(case, a.inv_ns)}, to be granted only if no token was newer than {newest},"
            f" {verb}{why}"
        ),
        witnesses=rows,
        lock=case.history.strings[a.key],
        t_ns=a.inv_ns,
        proof=proof,
    )


def _finding(
    case: Case, query: Query, op: Op, why: str, rows: tuple[int, ...], proof: Proof
) -> Finding:
    lock = case.history.strings[query.key]
    if op is Op.PLACE:
        answer = f"that {query.res} wait ahead of it" if query.res >= 0 else "that it does not wait"
    elif query.token == NO_TOKEN:
        answer = "that no client holds"
    else:
        answer = f"that token {query.token} holds, renewed {query.res} times"
    return Finding(
        kind="false-answer",
        sentence=(
            f"{name(case, query.process)}'s query of '{lock}', sent at"
            f" {seconds(case, query.inv_ns)}, returned by"
            f" {seconds(case, query.ret_ns)} {answer}; but {why}"
        ),
        witnesses=(*rows, query.row),
        lock=lock,
        t_ns=query.inv_ns,
        proof=replace(proof, roles={"query": query.row, **proof.roles}),
    )
