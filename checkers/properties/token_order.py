"""Order of fencing tokens: a later grant has a larger token, and no two grants share one.

Claims: of two conflicting grants of one lock of which one was certainly first, the other has the
larger token; if the system declares it, no token is granted twice
Assumes: nothing about clocks. Proofs of a hold show the order of grants, and so do leases if
exclusion is promised, unless the run shows that lock held twice at once
Blind to: the order of grants whose calls overlap, without a proof of either hold
Cost: n log n in the number of attempts
Source: the earliest ends in token order, e = max(previous e, call, last proof), against each return
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from holdfast.checkers.coverage.requirements import conclude, exercise
from holdfast.checkers.facts import witnesses
from holdfast.checkers.facts.wording import drawn, known_row, lock_name, name, seconds
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.held_at_once import disjoint
from holdfast.checkers.holds.overlaps import granted, proof_reach, reach, slack
from holdfast.checkers.holds.token_order import disordered, disputes, inversions, repeated
from holdfast.checkers.opportunities.places.granted_beside import numbered_after
from holdfast.checkers.opportunities.places.near_faults import Where, near_faults
from holdfast.checkers.opportunities.renumbered import RENUMBERED, renumbered
from holdfast.checkers.opportunities.row import (
    ALL,
    CONTENDED,
    FaultClass,
    OpportunityRow,
    of_any_fault,
)
from holdfast.checkers.opportunities.strokes import (
    LONG,
    NEW_NS,
    OFTEN,
    OPERATING,
    SHORT,
    of_cut_servers,
    of_deciders,
    of_leaders,
    of_minorities,
    of_operations,
)
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import Finding, Proof, PropertyVerdict

PROPERTY = "token-order"
NEEDS = ("tokens", "contention", "faults")
OPPORTUNITIES: Sequence[OpportunityRow] = (
    OpportunityRow(
        id="token-order/counter-restarts/crash",
        property="token-order",
        faults=FaultClass.CRASH,
        defect="counts its tokens from an old value when it restarts",
        sentence="a token was known before the restart of the servers that decide, and another"
        " client was granted the lock after it",
        twin="single",
        look=partial(renumbered, strokes=of_deciders, what="the servers that decide"),
        change=replace(SHORT, target="majority|one"),
        bounds=ALL,
        tokens=True,
    ),
    OpportunityRow(
        id="token-order/unsynced-counter/crash",
        property="token-order",
        faults=FaultClass.CRASH,
        defect="acknowledges a token before it is durable",
        sentence="a token of less than a second was known before the restart of the servers that"
        " decide, and another client was granted the lock after it",
        twin="redis --set persistence=everysec --set tokens=counter",
        look=partial(
            renumbered, strokes=of_deciders, what="the servers that decide", new_ns=NEW_NS
        ),
        change=OFTEN,
        bounds=ALL,
        tokens=True,
        unsynced=True,
    ),
    OpportunityRow(
        id="token-order/new-leader-counts/crash",
        property="token-order",
        faults=FaultClass.CRASH,
        defect="counts its tokens from an old state after a change of leader",
        sentence="a token was known before the loss of the leader, and another client was granted"
        " the lock after it",
        twin="reference:late-disk",
        look=partial(renumbered, strokes=of_leaders, what="the leader"),
        change=replace(SHORT, target="leader|one"),
        bounds=ALL,
        tokens=True,
    ),
    OpportunityRow(
        id="token-order/too-few-votes/crash",
        property="token-order",
        faults=FaultClass.CRASH,
        defect="counts its tokens without a majority that keeps them",
        sentence="a token was known before a minority of the servers was struck, and another client"
        " was granted the lock after it",
        twin="reference:late-disk",
        look=partial(renumbered, strokes=of_minorities, what="a minority of the servers"),
        change=replace(SHORT, target="minority|one"),
        bounds=ALL,
        tokens=True,
    ),
    OpportunityRow(
        id="token-order/new-leader-counts/cut",
        property="token-order",
        faults=FaultClass.CUT,
        defect="counts its tokens from an old state after a change of leader",
        sentence="a token was known before the leader was cut off, and another client was granted"
        " the lock after it",
        twin="reference:lone-commit",
        look=partial(renumbered, strokes=of_leaders, what="the leader"),
        change=replace(LONG, target="leader|one"),
        bounds=ALL,
        tokens=True,
    ),
    OpportunityRow(
        id="token-order/both-sides-decide/cut",
        property="token-order",
        faults=FaultClass.CUT,
        defect="counts its tokens on both sides of a partition",
        sentence="a token was known before servers were cut off from each other, and another"
        " client was granted the lock after it",
        twin="reference:small-quorum",
        look=partial(renumbered, strokes=of_cut_servers, what="servers that agree with others"),
        change=LONG,
        bounds=ALL,
        tokens=True,
    ),
    OpportunityRow(
        id="token-order/undone-token/operations",
        property="token-order",
        faults=FaultClass.OPERATION,
        defect="counts its tokens from an old value after an operation",
        sentence=RENUMBERED,
        twin="reference",
        look=partial(renumbered, strokes=of_operations, what="the servers"),
        change=OPERATING,
        bounds=ALL,
        tokens=True,
    ),
    of_any_fault(
        id="token-order/out-of-order/any",
        property="token-order",
        defect="grants tokens that are not in the order of its grants",
        sentence="a client was granted the lock after another client's token was known",
        twin="reference:dead-predecessor",
        look=partial(
            near_faults,
            where=Where(numbered_after, "no grant with a token came after another client's"),
        ),
        tokens=True,
        change=CONTENDED,
        beside=True,
    ),
)


def check(case: Case) -> PropertyVerdict:
    """The verdict, with a finding per grant whose token does not fit; UNKNOWN without tokens."""
    met = exercise(case, needs=NEEDS)
    if case.promises.tokens == "none":
        reason = "this system has no fencing tokens"
        met = replace(met, missing=(reason, *met.missing))
        return conclude(case, PROPERTY, (), (), met)
    inverted = {
        (first.id, second.id): _inversion(case, first, second, proved)
        for key in granted(case)
        for first, second, proved in _inverted(case, key)
    }
    repetitions = {
        (first.id, second.id): _repetition(case, first, second)
        for _, first, second, in_order in repeated(case)
        if case.promises.tokens_unique or in_order
    }
    findings = [*inverted.values(), *repetitions.values()]
    findings.sort(key=lambda finding: finding.t_ns)
    met = replace(met, either=tuple(disputes(case).values()))
    return conclude(case, PROPERTY, findings, (), met)


def _inverted(case: Case, key: int) -> Iterator[tuple[Attempt, Attempt, bool]]:
    """(first, second, whether proofs or calls show it) in the only order in which the two can have
    held one after the other.

    Not by holds if the run shows one of their locks held twice at once: then they do not show
    which came first. By leases only if it is promised that no grant falls within one. Pairs that
    are left out here are a doubt: their tokens are out of order, or both held at once. Tokens that
    are out of order by their calls elsewhere explain no such pair.
    """
    yield from ((first, second, True) for first, second in inversions(case)[key])
    kinds = {window.do for window in case.windows}
    leases = case.promises.promised("mutual-exclusion", kinds)
    for larger, smaller, proved in disordered(case)[key]:
        once = disjoint(case, larger.key) and disjoint(case, smaller.key)
        if once and (proved or leases):
            yield larger, smaller, proved


def _inversion(case: Case, first: Attempt, second: Attempt, proved: bool) -> Finding:
    owner, lock = name(case, second.process), lock_name(case, second)
    asked = second.inv_ns > first.known_ns + slack(case)
    rows: tuple[int, ...] = (first.row, second.row)
    if asked:
        why = f"requested at {seconds(case, second.inv_ns)}, after"
    elif proved:
        why = f"still held at {seconds(case, second.proof_ns)}, when"
        rows = (first.row, second.row, second.proof_row)
    else:
        until_ns = reach(case)(second)
        why = f"to be held until {seconds(case, min(until_ns, case.end_ns))} at least, when"
    if asked or proved:
        roles = witnesses.known(case, first=first) | witnesses.sides(case, second=second)
        if asked:
            roles["second_proof"] = second.row
        proof = Proof(rule="token-inversion", roles=roles)
    else:
        proof = Proof(
            rule="token-inversion/lease",
            roles=witnesses.known(case, first=first, second=second),
            values={"second_reach": reach(case)(second)},
        )
    return Finding(
        kind="token-inversion",
        sentence=(
            f"{owner}'s grant of '{lock}' carries token {second.token} although it was {why}"
            f" {name(case, first.process)} had been granted it with the larger token"
            f" {first.token} by {seconds(case, first.known_ns)}"
            + ("" if asked else ": its token is out of order, or both held at once")
        ),
        witnesses=tuple(dict.fromkeys((*rows, known_row(case, first)))),
        lock=lock,
        t_ns=second.known_ns,
        spans=(
            drawn(case, first, proof_reach(first)),
            drawn(case, second, proof_reach(second)),
        ),
        proof=proof,
    )


def _repetition(case: Case, first: Attempt, second: Attempt) -> Finding:
    lock = lock_name(case, second)
    rule = "token-repeated/unique" if case.promises.tokens_unique else "token-repeated/order"
    if first.owner == second.owner:
        rule = "token-repeated/anew"
    return Finding(
        kind="token-repeated",
        sentence=(
            f"'{lock}' was granted with token {second.token} to {name(case, first.process)} by"
            f" {seconds(case, first.known_ns)} and to {name(case, second.process)} by"
            f" {seconds(case, second.known_ns)}"
        ),
        witnesses=_known(case, first, second),
        lock=lock,
        t_ns=second.known_ns,
        spans=(
            drawn(case, first, proof_reach(first)),
            drawn(case, second, proof_reach(second)),
        ),
        proof=Proof(rule=rule, roles=witnesses.known(case, first=first, second=second)),
    )


def _known(case: Case, *grants: Attempt) -> tuple[int, ...]:
    """Their rows, and those that prove that they held."""
    rows = [row for a in grants for row in (a.row, known_row(case, a))]
    return tuple(dict.fromkeys(row for row in rows if row >= 0))
