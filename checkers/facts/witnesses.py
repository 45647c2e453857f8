"""The rows that prove a finding, by their roles in its rule."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.checkers.facts.stalls import Stall
from holdfast.checkers.facts.wording import known_row
from holdfast.checkers.holds.derive import Attempt
from holdfast.checkers.holds.overlaps import proof_reach, slack
from holdfast.checkers.holds.waits import Passed
from holdfast.harness.core.case import Case
from holdfast.harness.core.verdict import Proof


def known(case: Case, **attempts: Attempt) -> dict[str, int]:
    """Of each attempt its acquire, and as `name_known` the row that proves its grant."""
    found: dict[str, int] = {}
    for name, a in attempts.items():
        found |= {name: a.row, f"{name}_known": known_row(case, a)}
    return found


def how(case: Case, a: Attempt, b: Attempt) -> str:
    """What proves that b was granted after a: "time", else "tokens"."""
    return "time" if b.inv_ns > a.known_ns + slack(case) else "tokens"


def sides(case: Case, **attempts: Attempt) -> dict[str, int]:
    """The rows of `known` and, as `name_proof`, the row at whose call it certainly still held."""
    found = known(case, **attempts)
    for name, a in attempts.items():
        found[f"{name}_proof"] = a.proof_row if proof_reach(a) > a.inv_ns else a.row
    return found


def stalled(kind: str, stall: Stall, **counted: int) -> Proof:
    """Proof that a lock which no client could hold was requested without success for too long."""
    excused = {"excused": stall.excused_ns}
    if stall.whole:
        roles = {"first": stall.asked[0].row, "last": stall.latest.row}
        return Proof(rule=kind, roles=roles, values={**excused, "until": stall.to_ns, **counted})
    part = {"from_ns": stall.from_ns, "to_ns": stall.to_ns}
    return Proof(rule=f"{kind}/part", roles={"asked": stall.latest.row}, values=excused | part)


def overtaken(kind: str, case: Case, one: Passed, by: Sequence[int], bound: int) -> Proof:
    """Proof of an overtaken wait: one more predecessor than the order allows is enough."""
    stamps = case.history.rows["t_inv"]
    waiting = min(one.attempt.waitings, key=lambda row: int(stamps[row]))
    first = {f"by{n}": row for n, row in enumerate(by[: bound + 1], 1)}
    roles = {"a": one.attempt.row, "waiting": waiting, **first}
    return Proof(rule=kind, roles=roles, values={"allowed": bound})
