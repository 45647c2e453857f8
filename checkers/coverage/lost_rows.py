"""Findings that rely on something *not* being in the log: if rows were lost, one of them may be it.

A release that was never sent ends a hold; an acquire that was never made has the token in question.
Findings of the other kinds and rules are proved by rows that are present: no lost row refutes them.
"""

from __future__ import annotations

from holdfast.harness.core.verdict import Finding

KINDS = frozenset(
    {
        # A hold by its lease: its release may be lost.
        "broken-lease",
        "early-grant",
        "multi-lock-deadlock",
        "lost-without-notice",
        # A hold that nothing but a release ends.
        "double-holder",
        # The end of a hold: a renewal may be lost, or an entry of the same owner.
        "expired-owner-write",
        "write-after-notice",
        # An acquire of the same owner in between, or a notice.
        "silent-reacquire",
        # That no client could hold a lock, or was in the way.
        "deadlock",
        "livelock",
        "orphan",
        "spurious-refusal",
        # A place in the queue: who overtook may have re-entered a lock that it held all along.
        "overtaken",
        "starved",
        "beyond-queue",
        # A response, a notice, or a job of which the log has nothing.
        "hung-request",
        "late-grant-notice",
        "wrong-reason",
        "false-entries",
        "job-never-done",
    }
)
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
