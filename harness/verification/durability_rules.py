"""Rules of findings about power losses; see `rules`.

The times of a power loss (`cut_from`, `cut_to`) and of a hang are in no recorded row: a certificate
states them, and they must be those of an effective fault of a majority of the servers, as the fault
agent measured it.
"""

from __future__ import annotations

from holdfast.harness.verification.rule import ASK, OK, Rule, known, knows, proves, sides

_CUT = ("cut_from", "cut_to")
_LOST = "power_lost(cut_from, cut_to)"
_ACROSS = ("older_known.t_ret + slack < cut_from", "cut_to + slack < newer.t_inv")
_PAIR = ("conflict(older, newer)", *knows("older", "newer"), _LOST)

DURABILITY: dict[str, Rule] = {
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
    "token-after-power-loss": Rule(
        kinds=("token-after-power-loss",),
        lock="second",
        roles=known("first", "second"),
        where=(
            "tokens == 'ordered'",
            "conflict(first, second)",
            *knows("first", "second"),
            _LOST,
        ),
        facts=(
            "first_known.t_ret + slack < cut_from",
            "cut_to + slack < second.t_inv",
            "-1 < second_known.token",
            "second_known.token <= first_known.token",
        ),
        states=_CUT,
    ),
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
            _LOST,
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
