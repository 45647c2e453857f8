"""Pairs of grants that no service could have given one after the other.

A grant fell somewhere between its call and its answer, and the hold that began with it reached at
least to its last proof, or as far as its lease bound the service. Where two of them leave no order
in which the first can have ended before the second began, both held at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from holdfast.checkers.holds import INF, Attempt, by_lock, conflict, ordered_tokens
from holdfast.harness.case import Case
from holdfast.harness.events import NO_TOKEN, Mode

Reach = Callable[[Attempt], int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """Two holds at once. older: the one granted first, or known first where that is open.

    proved     proofs alone show it; else it leans on what the service had promised
    by_tokens  only the order of their tokens says which was granted first
    """

    older: Attempt
    newer: Attempt
    proved: bool
    by_tokens: bool


def slack(case: Case) -> int:
    """By how much two stamps of different writers may be out of step, ns."""
    return 2 * case.error_ns


def proof_reach(attempt: Attempt) -> int:
    """How far its hold reached for sure, by the service's own word. No less than its asking."""
    return max(attempt.inv_ns, attempt.proof_ns)


def reach(case: Case) -> Reach:
    """How far a hold reached if the service did as it had promised."""
    if case.promises.bound == "none":
        return lambda a: max(proof_reach(a), a.end_ns) if a.known_ns <= a.end_ns else proof_reach(a)
    return lambda a: max(proof_reach(a), a.bound_ns)


def granted(case: Case) -> dict[int, list[Attempt]]:
    """Per lock the attempts that were granted for sure, in the order in which that was known."""
    if "granted" not in case.memo:
        case.memo["granted"] = {
            key: sorted((a for a in found if a.known_ns < INF), key=lambda a: a.known_ns)
            for key, found in by_lock(case).items()
        }
    found: dict[int, list[Attempt]] = case.memo["granted"]
    return found


def overlaps(case: Case) -> Mapping[int, Sequence[Overlap]]:
    """Per lock what held at once, at most one per newer grant: the best proved, the longest."""
    if "overlaps" not in case.memo:
        case.memo["overlaps"] = {
            key: _best(_in_time(case, found), reach(case)) for key, found in granted(case).items()
        }
    found: dict[int, list[Overlap]] = case.memo["overlaps"]
    return found


def overlaps_by_tokens(case: Case) -> Mapping[int, Sequence[Overlap]]:
    """As `overlaps`, where time alone leaves open which of the two was granted first.

    Empty for a lock whose tokens contradict the order of its grants: they prove nothing there.
    """
    if not ordered_tokens(case):
        return {}
    wrong = inversions(case)
    return {
        key: _best(_in_tokens(case, found), reach(case))
        for key, found in granted(case).items()
        if not wrong.get(key)
    }


def inversions(case: Case) -> Mapping[int, Sequence[tuple[Attempt, Attempt]]]:
    """Per lock (first, second) where second was asked for after first was granted, and yet has the
    smaller token. At most one per second; readers of one lock among themselves do not count."""
    if "inversions" not in case.memo:
        case.memo["inversions"] = {
            key: list(_inverted(case, found)) for key, found in granted(case).items()
        }
    found: dict[int, list[tuple[Attempt, Attempt]]] = case.memo["inversions"]
    return found


def in_token_order(found: Sequence[Attempt]) -> list[Attempt]:
    """Those with a token, the smallest first."""
    return sorted((a for a in found if a.token != NO_TOKEN), key=lambda a: a.token)


def meetings(
    ordered: Sequence[Attempt], reach: Reach, slack_ns: int
) -> Iterator[tuple[Attempt, Attempt]]:
    """All (a, b), a before b in the given order, where a reaches beyond the moment b was known.

    Linear where few holds are open at once, whatever the order.
    """
    last_ns = INF
    soonest = [last_ns := min(last_ns, b.known_ns) for b in reversed(ordered)]
    open_now: list[tuple[int, Attempt]] = []
    for b, soonest_ns in zip(ordered, reversed(soonest), strict=True):
        open_now = [(to_ns, a) for to_ns, a in open_now if to_ns > soonest_ns + slack_ns]
        for to_ns, a in open_now:
            if to_ns > b.known_ns + slack_ns:
                yield a, b
        open_now.append((reach(b), b))


def _in_time(case: Case, found: Sequence[Attempt]) -> Iterator[Overlap]:
    far, slack_ns = reach(case), slack(case)
    ordered = ordered_tokens(case)
    for a, b in meetings(found, far, slack_ns):
        if not conflict(a, b) or far(b) <= a.known_ns + slack_ns:
            continue
        proved = min(proof_reach(a) - b.known_ns, proof_reach(b) - a.known_ns) > slack_ns
        swap = ordered and NO_TOKEN < b.token < a.token
        older, newer = (b, a) if swap else (a, b)
        yield Overlap(older=older, newer=newer, proved=proved, by_tokens=False)


def _in_tokens(case: Case, found: Sequence[Attempt]) -> Iterator[Overlap]:
    far, slack_ns = reach(case), slack(case)
    for a, b in meetings(in_token_order(found), far, slack_ns):
        if not conflict(a, b) or a.token == b.token or far(b) > a.known_ns + slack_ns:
            continue
        proved = proof_reach(a) > b.known_ns + slack_ns
        yield Overlap(older=a, newer=b, proved=proved, by_tokens=True)


def _best(found: Iterable[Overlap], far: Reach) -> list[Overlap]:
    best: dict[int, Overlap] = {}
    for overlap in found:
        other = best.setdefault(overlap.newer.id, overlap)
        if (overlap.proved, far(overlap.older)) > (other.proved, far(other.older)):
            best[overlap.newer.id] = overlap
    return list(best.values())


def _inverted(case: Case, found: Sequence[Attempt]) -> Iterator[tuple[Attempt, Attempt]]:
    """Walks from the largest token down, knowing the grant that was known soonest so far."""
    slack_ns = slack(case)
    soonest: dict[bool, Attempt] = {}
    for _, group in groupby(reversed(in_token_order(found)), key=lambda a: a.token):
        same = list(group)
        for second in same:
            first = soonest.get(second.mode != Mode.EXCLUSIVE)
            if first is not None and second.inv_ns > first.known_ns + slack_ns:
                yield first, second
        for attempt in same:
            for beside_reader in (False, True):
                known = soonest.get(beside_reader)
                counts = not (beside_reader and attempt.mode != Mode.EXCLUSIVE)
                if counts and (known is None or attempt.known_ns < known.known_ns):
                    soonest[beside_reader] = attempt
