"""Over-admission: the permits held of a semaphore at once never exceed its limit.

Claims
    An over-admission: at one instant, by the service's own responses or by leases that it had
    promised, more permits were held than exist. Every attempt counts separately, also two of one
    client, because each takes its own permits.
Assumes
    What mutual exclusion assumes of proofs and promises.
Blind to
    Holds that end before they are known. Semaphores requested with different limits: such a service
    may use either.
Cost
    n log n in the attempts of a semaphore, times the number of concurrent holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.wording import drawn, known_row, lock_name, name, seconds, who
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.history_index import Indices
from holdfast.checkers.holds.overlaps import granted, proof_reach, reach, slack
from holdfast.harness.core.case import Case
from holdfast.harness.core.operations import Mode
from holdfast.harness.core.verdict import Finding, Proof

LOW_16 = (1 << 16) - 1
SHOWN = 5
"""limit on the witnesses of one finding: the newest, and those that hold longest"""


def over_admissions(case: Case) -> Iterator[Finding]:
    """At most one finding per grant that exceeded the limit."""
    terms, attempts = case.history.rows["op"], table(case)
    every: dict[int, Indices] = {}
    for on_line in granted(case).values():
        entries = on_line[attempts.mode[on_line] == Mode.PERMITS]
        # Each path has its own permits; one path may be on several ancestor chains.
        every |= {
            key: entries[attempts.key[entries] == key]
            for key in set(attempts.key[entries].tolist())
        }
    for entries in every.values():
        holds = attempts.pick(entries)
        permits = {a.id: int(terms[a.row]) >> 24 for a in holds}
        limits = {int(terms[a.row]) >> 8 & LOW_16 for a in holds}
        if len(limits) == 1:
            yield from _of(case, holds, permits, limits.pop())


def _of(
    case: Case, holds: Sequence[Attempt], permits: dict[int, int], limit: int
) -> Iterator[Finding]:
    proved = dict(_crowds(case, holds, permits, limit, proof_reach))
    for newest, others in _crowds(case, holds, permits, limit, reach(case)):
        kind = "over-admission" if newest in proved else "broken-lease"
        crowd = [newest, *proved.get(newest, others)]
        yield _finding(case, kind, crowd, sum(permits[a.id] for a in crowd), limit)


def _crowds(
    case: Case,
    holds: Sequence[Attempt],
    permits: dict[int, int],
    limit: int,
    far: Callable[[Attempt], int],
) -> Iterator[tuple[Attempt, list[Attempt]]]:
    """(b, others) that held at one instant and had more than `limit` together.

    `holds` in the order in which they were known. If b's own hold is only known to have been at
    some time up to b.known_ns, the others have to hold during all of that.
    """
    slack_ns = slack(case)
    open_now: list[Attempt] = []
    for b in holds:
        open_now = [a for a in open_now if far(a) > b.known_ns + slack_ns]
        others = [a for a in open_now if a.known_ns + slack_ns < far(b)]
        if permits[b.id] + sum(permits[a.id] for a in others) > limit:
            yield b, others
        open_now.append(b)


def _finding(case: Case, kind: str, crowd: Sequence[Attempt], taken: int, limit: int) -> Finding:
    newest, others = crowd[0], sorted(crowd[1:], key=lambda a: -reach(case)(a))
    owners = ", ".join(who(case, a) for a in others[:SHOWN])
    return Finding(
        kind=kind,
        sentence=(
            f"{name(case, newest.process)} was granted '{lock_name(case, newest)}' by"
            f" {seconds(case, newest.known_ns)} while {owners} still held it: {taken} permits at"
            f" once, of {limit}"
        ),
        witnesses=tuple(
            dict.fromkeys((newest.row, known_row(case, newest), *(a.row for a in others[:SHOWN])))
        ),
        lock=lock_name(case, newest),
        t_ns=newest.known_ns,
        spans=tuple(drawn(case, a, reach(case)(a)) for a in (newest, *others[:SHOWN])),
        proof=_proof(case, kind, newest, others),
    )


def _proof(case: Case, kind: str, newest: Attempt, others: Sequence[Attempt]) -> Proof:
    grants = {"newest": newest} | {f"other{n}": a for n, a in enumerate(others, 1)}
    if kind == "over-admission":
        return Proof(rule=kind, roles=witnesses.sides(case, **grants))
    reaches = {f"{role}_reach": reach(case)(a) for role, a in grants.items()}
    return Proof(rule="broken-lease/permits", roles=witnesses.known(case, **grants), values=reaches)
