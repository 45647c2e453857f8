"""What proves findings of no-hung-request, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners, alone
from holdfast.harness.verification.rule import ASK, Rule

_CALL = f"{ASK}|renew|release"
RULES: dict[str, Rule] = {
    "hung-request/answered": Rule(
        kinds=("hung-request",),
        lock="row",
        roles={"row": (_CALL, "ok|fail|info|not-owner")},
        values={"bound_ns": "bound_ns(row)", "starved": "starved(row, row.t_ret)"},
        facts=("0 <= bound_ns", "hang + bound_ns + starved < row.t_ret - row.t_inv"),
    ),
    "hung-request/unanswered": Rule(
        kinds=("hung-request",),
        lock="row",
        roles={"row": (_CALL, "invoked")},
        where=("lived_on(row)",),
        values={
            "bound_ns": "bound_ns(row)",
            "starved": "starved(row, end_ns())",
            "over": "end_ns()",
        },
        facts=("0 <= bound_ns", "hang + bound_ns + starved < over - row.t_inv"),
    ),
}
PATTERNS: Mapping[str, OwnerPattern] = {
    "no-hung-request/unbounded-wait/any": alone(Owners.unbounded),
}
