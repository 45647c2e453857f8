"""Histories short enough to read, each call drawn as a span on a line of its own."""

from __future__ import annotations

from holdfast.harness.core.operations import NO_TOKEN, Status
from holdfast.harness.foreign.operations import OPEN, ForeignOp


def drawn(*lines: str) -> list[ForeignOp]:
    """Operations from lines `process f[=value][:token][*] |span`, in order of begin.

    In a span `[` begins and `]` ends what returned ok; `?` instead of `]` means that nobody
    learned the outcome. A `*` marks a reader's acquire, `->` the value that was read.

        1 acquire:7    |  [--]
        2 write=3      |    [---?
    """
    ops = []
    for number, line in enumerate(lines, 1):
        words, _, span = line.partition("|")
        process, what = words.split()
        shared = what.endswith("*")
        what = what.rstrip("*")
        what, _, answer = what.partition("->")
        what, _, token = what.partition(":")
        f, _, value = what.partition("=")
        known = "]" in span
        ops.append(
            ForeignOp(
                process=int(process),
                f=f,
                key=None,
                value=value or None,
                result=(None if answer == "nil" else answer) if answer else None,
                begin=span.index("["),
                end=span.index("]") if known else OPEN,
                status=Status.OK if known else Status.INFO,
                told_value=bool(answer),
                token=int(token) if token else NO_TOKEN,
                shared=shared,
                line=number,
                end_line=number if known else 0,
            )
        )
    return sorted(ops, key=lambda op: op.begin)
