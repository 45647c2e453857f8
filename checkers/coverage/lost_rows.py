"""Findings that rely on something *not* being in the log: if rows were lost, one of them may be it.

A release that was never sent ends a hold; an acquire that was never made has the token in question.
Findings of the other kinds and rules are proved by rows that are present: no lost row refutes them.
"""

from __future__ import annotations

from holdfast.harness.core.verdict import Finding
from holdfast.harness.properties import KINDS as EVERY_KIND

KINDS = frozenset(name for name, kind in EVERY_KIND.items() if kind.lost_row)
RULES = frozenset(
    {
        # The other's release may be lost.
        "token-inversion/lease",
        "foreign/held/time",
        "foreign/held/tokens",
        "false-answer/nobody",
        "false-answer/waits/tokens",
        "false-answer/waits/proved",
        # An entry of the same owner may be lost, into which it was let in again.
        "token-repeated/anew",
        # A renewal of unknown outcome may have revived the hold.
        "foreign/given-back",
        # An acquire may be lost: the one that was meant, or one more with its token.
        "false-answer/no-hold",
        "false-answer/text",
        "false-answer/renewed-more",
        "false-answer/renewed-less",
        "false-answer/too-old",
        "false-answer/too-young",
        "false-answer/lease-left",
        "false-answer/in-force",
        # One that waited, or was granted in between.
        "false-answer/place",
        "false-length/more",
        "false-condition/refused",
    }
)
"""Rules of kinds of which other rules need no more than the rows that they name."""


def could_explain(finding: Finding) -> bool:
    """Whether a lost row could explain a finding."""
    rule = finding.proof.rule if finding.proof else ""
    return finding.kind in KINDS or rule in RULES
