"""Holds that passed to another client while their own clients still acted as owners."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from holdfast.checkers.facts.reachable import out_of_reach
from holdfast.checkers.holds.attempt_table import table
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.history_index import Ints, column
from holdfast.checkers.holds.leases import longest
from holdfast.checkers.holds.overlaps import Reach, proof_reach, reach, slack
from holdfast.checkers.holds.succession import succession_of
from holdfast.harness.core.case import Case, memoised
from holdfast.harness.core.operations import Op
from holdfast.harness.history.distinct_values import distinct, placed


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """A hold that was lost to another by lost_ns; its client acted as owner until claimed_ns."""

    attempt: Attempt
    other: Attempt
    lost_ns: int
    claimed_ns: int


@memoised
def losses(case: Case) -> tuple[Loss, ...]:
    """All holds that were certainly lost while their clients still acted as owners; memoised."""
    return _losses(case)


def _losses(case: Case) -> tuple[Loss, ...]:
    far, slack_ns, seen_ns, every = bound_reach(case), slack(case), last_seen(case), table(case)
    seen = np.minimum(every.end, _by_process(seen_ns, every.process))
    found: dict[int, Loss] = {}
    for key, entries in every.by_lock().items():
        succession = succession_of(case, key)
        claims = entries[every.certain[entries]]
        claims = claims[succession.overtaken(claims, seen[claims])]
        for attempt in every.pick(claims):
            claimed_ns = min(attempt.end_ns, seen_ns[attempt.process])
            other = succession.first(attempt, claimed_ns)
            if other is not None:
                lost_ns = max(other.known_ns, far(attempt)) + slack_ns
                loss = Loss(attempt=attempt, other=other, lost_ns=lost_ns, claimed_ns=claimed_ns)
                known = found.setdefault(attempt.id, loss)
                found[attempt.id] = min(known, loss, key=lambda one: one.lost_ns)
    return tuple(loss for loss in found.values() if loss.lost_ns < loss.claimed_ns)


def bound_reach(case: Case) -> Reach:
    """How far a hold lasted if the service kept its promise: where a library renews it by itself at
    a service with leases, for its first lease and as far as responses prove it."""
    if not case.promises.lapses:
        return reach(case)
    return lambda a: max(proof_reach(a), first_lease_end(case, a))


def first_lease_end(case: Case, a: Attempt) -> int:
    """The latest end of the lease that an ok acquire was granted, without its renewals."""
    return a.ret_ns + longest(max(a.ttl_ns, case.promises.lapse_ns), case.promises)


def _by_process(seen_ns: dict[int, int], process: Ints) -> Ints:
    names = distinct(process)
    seen = np.array([seen_ns[name] for name in names.tolist()], np.int64)
    return seen[np.searchsorted(names, process)]


def last_seen(case: Case) -> dict[int, int]:
    """The last time at which each process did anything: after that it may no longer exist."""
    kind = column(case, "f")
    edges = np.maximum(column(case, "t_inv"), column(case, "t_ret"))
    edges = np.where((kind == Op.SERVED_READ) | (kind == Op.SERVED_WRITE), -1, edges)
    processes, place = placed(column(case, "process"))
    last = np.full(len(processes), -1)
    np.maximum.at(last, place, edges)
    known = last >= 0
    return dict(zip(processes[known].tolist(), last[known].tolist(), strict=True))


def calm_from(case: Case, loss: Loss, limit_ns: int) -> int:
    """Where limit_ns begin in which the client was reachable and not notified; -1: nowhere."""
    from_ns = loss.lost_ns
    for start_ns, end_ns in out_of_reach(case, loss.attempt.node):
        if from_ns + limit_ns < start_ns:
            break
        from_ns = max(from_ns, end_ns)
    return from_ns if from_ns + limit_ns < loss.claimed_ns else -1
