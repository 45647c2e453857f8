"""Which failed tests CI may try once more: `tried_again.py LASTFAILED [TRIED]`.

LASTFAILED is the file in which pytest keeps them, TRIED how many were tried again before. Prints
their names and exits with 0. Where one of them may not, or too many failed, it says why on standard
error and exits with 1: a first try that often fails is news, and so is a test that failed of what
must not happen even once.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

MOST = 5
# No clock and no chance but their seed: a failure is one.
EXACT = re.compile(r"^tests/(checkers|determinism|workloads)/")
# Kills, teardown, fault agents: what they leave is left once in many times, or never.
ONCE = re.compile(
    r"^tests/nemesis/|agent|abort|kill|teardown|clean|left|leav|leftover|outliv|orphan|thaw|frozen"
    r"|freez|signal|interrupt",
    re.IGNORECASE,
)


def refused(failed: Sequence[str], tried: int = 0) -> str:
    """Why these tests are not tried again, "" if they are."""
    if not failed:
        return "no test is known to have failed"
    if tried + len(failed) > MOST:
        return f"{tried + len(failed)} tests failed; at most {MOST} are tried again"
    for name in failed:
        if "::" not in name:
            return f"{name} could not be collected"
        if EXACT.search(name):
            return f"{name}: knows no chance but its seed, so it is not tried again"
        if ONCE.search(name.partition("[")[0]):
            return f"{name}: of kills, teardown or agents, which are not tried again"
    return ""


def main(argv: Sequence[str]) -> int:
    """The exit code."""
    record = Path(argv[0])
    failed = sorted(json.loads(record.read_text())) if record.exists() else []
    why = refused(failed, int(argv[1]) if argv[1:] else 0)
    sys.stdout.writelines(f"{name}\n" for name in failed)
    if why:
        sys.stderr.write(f"{why}\n")
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
