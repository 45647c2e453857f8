"""What proves findings of ownership, and its opportunities."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.owner_opportunities import OwnerPattern, Owners
from holdfast.harness.verification.rule import ASK, OK, Rule, in_order, known, knows, proves, sides

RULES: dict[str, Rule] = {}
_FOREIGN = {"foreign-release": "release", "foreign-renewal": "renew"}
_SAID = {"row": ("renew|release", OK)}
RULES["foreign/refused"] = Rule(
    kinds=tuple(_FOREIGN),
    calls=_FOREIGN,
    lock="attempt",
    roles={"attempt": (ASK, "fail"), **_SAID},
    where=("row.attempt == attempt.attempt", "says_owned(row)"),
    facts=("attempt.t_inv <= row.t_inv",),
)
RULES["foreign/given-back"] = Rule(
    kinds=tuple(_FOREIGN),
    calls=_FOREIGN,
    lock="attempt",
    roles={"attempt": (ASK, OK), "release": ("release", OK), **_SAID},
    where=(
        "release.attempt == attempt.attempt",
        "row.attempt == attempt.attempt",
        "says_owned(row)",
        "settled(attempt)",
    ),
    facts=("release.t_ret < row.t_inv",),
)
for _how, _more, _values, _where in (
    ("after", (), {}, ("renewals_prove(attempt)",)),
    (
        "held",
        ("row.t_ret + slack < other_reach",),
        {"other_reach": "reach(other)"},
        ("lasting(other)",),
    ),
    ("proved", ("row.t_ret + slack < other_proof.t_inv",), {}, proves("other")),
):
    RULES |= in_order(
        f"foreign/{_how}",
        "attempt",
        "other",
        Rule(
            kinds=tuple(_FOREIGN),
            calls=_FOREIGN,
            lock="attempt",
            roles={
                **known("attempt"),
                **(sides("other") if _how == "proved" else known("other")),
                **_SAID,
            },
            where=(
                *knows("attempt", "other"),
                "row.attempt == attempt.attempt",
                "conflict(attempt, other)",
                "row.f == 3 or says_owned(row)",
                *_where,
            ),
            values=_values,
            facts=("other_known.t_ret + slack < row.t_inv", *_more),
        ),
    )
PATTERNS: Mapping[str, OwnerPattern] = {
    "ownership/foreign-release/any": OwnerPattern(("owner", "call"), Owners.release),
    "ownership/foreign-renewal/any": OwnerPattern(("owner", "call"), Owners.renewal),
}
