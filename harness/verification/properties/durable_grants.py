"""Durable grants: findings about power losses and operations on servers.

The times of a power loss or an operation (`cut_from`, `cut_to`) and of a hang are in no recorded
row: a certificate states them, and they must be those of an effective fault as it was measured. A
power loss and a hang must be of a majority of the servers.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.harness.verification.rule import ASK, OK, Rule, known, knows, proves, sides
from holdfast.harness.verification.stroke_opportunities import (
    DECIDERS,
    StrokePattern,
    Strokes,
    held,
    numbered,
)

_CUT = ("cut_from", "cut_to")
_UNDONE = "lost_or_operated(cut_from, cut_to)"
_ACROSS = ("older_known.t_ret + slack < cut_from", "cut_to + slack < newer.t_inv")
_PAIR = ("conflict(older, newer)", *knows("older", "newer"), _UNDONE)


def _token_after(what: str, happened: str) -> Rule:
    return Rule(
        kinds=(f"token-after-{what}",),
        lock="second",
        roles=known("first", "second"),
        where=(
            "tokens == 'ordered'",
            "conflict(first, second)",
            *knows("first", "second"),
            happened,
        ),
        facts=(
            "first_known.t_ret + slack < cut_from",
            "cut_to + slack < second.t_inv",
            "-1 < second_known.token",
            "second_known.token <= first_known.token",
        ),
        states=_CUT,
    )


RULES: dict[str, Rule] = {
    "lost-grant/proved": Rule(
        kinds=("lost-grant",),
        lock="older",
        roles=sides("older", "newer"),
        where=(*_PAIR, *proves("older", "newer")),
        facts=(
            *_ACROSS,
            "newer_known.t_ret + slack < older_proof.t_inv",
            "older_known.t_ret + slack < newer_proof.t_inv",
        ),
        states=_CUT,
    ),
    "lost-grant/promised": Rule(
        kinds=("lost-grant",),
        lock="older",
        roles=known("older", "newer"),
        where=_PAIR,
        values={"older_reach": "reach(older)", "newer_reach": "reach(newer)"},
        facts=(
            *_ACROSS,
            "newer_known.t_ret + slack < older_reach",
            "older_known.t_ret + slack < newer_reach",
        ),
        assumes=("bound",),
        states=_CUT,
    ),
    "token-after-power-loss": _token_after("power-loss", "power_lost(cut_from, cut_to)"),
    "token-after-operation": _token_after("operation", "operated(cut_from, cut_to)"),
    "revived-hold": Rule(
        kinds=("revived-hold",),
        lock="attempt",
        roles={
            "attempt": (ASK, OK),
            "release": ("release", OK),
            "row": ("renew|release", OK),
        },
        where=(
            "release.attempt == attempt.attempt",
            "row.attempt == attempt.attempt",
            "says_owned(row)",
            "settled(attempt)",
            _UNDONE,
        ),
        facts=("release.t_ret + slack < cut_from", "cut_to + slack < row.t_inv"),
        states=_CUT,
    ),
    "grant-before-sync": Rule(
        kinds=("grant-before-sync",),
        lock="a",
        roles={"a": (ASK, OK)},
        where=("a.op % 2 == 0", "disks_hung(frozen_from, frozen_to)"),
        facts=("frozen_from + slack < a.t_inv", "a.t_ret + slack < frozen_to"),
        states=("frozen_from", "frozen_to"),
    ),
}
PATTERNS: Mapping[str, StrokePattern] = {
    "durable-grants/undone-grant/crash": held(DECIDERS, Strokes.outlived),
    "durable-grants/undone-token/crash": numbered(DECIDERS, Strokes.renumbered),
}
