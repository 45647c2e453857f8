"""`holdfast-verify RUN`: the second program, which needs the standard library and nothing else.

It can be installed by itself (`src/holdfast_verify`), so that who doubts a verdict does not have to
trust an installation of what came to it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.harness.core.errors import HoldfastError
from holdfast.harness.runs.version import VERSION
from holdfast.harness.verification.verify import Outcome, verify_run

UNREADABLE = 2
INTERRUPTED = 130
REFUSED = 4
"""Exit code if a certificate or a witness was refused."""


def main(argv: Sequence[str]) -> int:
    """The exit code: 0 all accepted, 4 something was refused, 2 the run cannot be read."""
    words = _parser().parse_args(argv)
    try:
        outcome = verify_run(Path(words.run).resolve())
    except HoldfastError as error:
        sys.stderr.write(f"holdfast-verify: {_printable(str(error))}\n")
        return UNREADABLE
    except KeyboardInterrupt:
        sys.stderr.write("holdfast-verify: interrupted; the same command starts again\n")
        return INTERRUPTED
    said = [json.dumps(outcome._asdict())] if words.json else lines(outcome)
    try:
        sys.stdout.writelines(f"{_printable(line)}\n" for line in said)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough; nothing is written at the exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exit_code(outcome)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="holdfast-verify",
        description="Check every certificate of a judged run, and the witnesses of opportunities,"
        " against the recorded rows. Exit code 0: all accepted; 4: one refused; 2: the run cannot"
        " be read.",
    )
    parser.add_argument("run", metavar="RUN", help="a run directory, such as .holdfast/runs/latest")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--version", action="version", version=f"holdfast-verify {VERSION}")
    return parser


def _printable(text: str) -> str:
    """A run directory is hostile input: no control sequence reaches the terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def exit_code(outcome: Outcome) -> int:
    """0: all accepted."""
    return REFUSED if outcome.refused else 0


def lines(outcome: Outcome) -> Iterator[str]:
    """What was refused first, then the counts, then what no rule covers."""
    for refused in outcome.refused:
        yield f"refused: {refused}"
    if outcome.why:
        yield f"nothing was verified: {outcome.why}"
    counts = f"{outcome.accepted} certificates accepted, {len(outcome.refused)} refused"
    yield f"{counts}; {outcome.bare} findings have none" if outcome.bare else counts
    if outcome.opportunities:
        yield f"the first witnesses of {outcome.opportunities} kinds of opportunity accepted"
    if outcome.unruled:
        yield f"opportunities that no rule verifies: {', '.join(outcome.unruled)}"
    if outcome.unordered:
        names = ", ".join(name.replace("-", " ") for name in outcome.unordered)
        yield f"{len(outcome.unordered)} properties hold without an order to verify: {names}"
    if outcome.unverifiable:
        names = ", ".join(outcome.unverifiable)
        yield f"not independently verified: checker of the user: {names}"
