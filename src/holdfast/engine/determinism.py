"""Checks that a seed gives one history: runs it again in a fresh process and compares.

That process has another PYTHONHASHSEED, so that a dependence on the order of a set of strings
is detected; a second run in the same process would miss it.

`python -m holdfast.engine.determinism FOLDER`: a manifest on standard input is simulated and kept
in FOLDER.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from holdfast.harness.core.case import History
from holdfast.harness.core.errors import EnvironmentFailed
from holdfast.harness.core.json_value import plain
from holdfast.harness.core.loading import load
from holdfast.harness.history import reader
from holdfast.harness.history.diff import first_difference
from holdfast.harness.plans.manifest import Manifest, parsed, to_table
from holdfast.harness.runs import journal
from holdfast.harness.runs.directory import RunDir

WITHIN_S = 600


def difference(manifest: Manifest, world: Any, seen: History) -> str:
    """Simulate a manifest in another process: "" if equal, else the first difference.

    world, seen   results of this process. EnvironmentFailed if the other process failed
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-twice-") as folder:
        run = RunDir(Path(folder))
        run.history.mkdir()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "holdfast.engine.determinism", folder],
            input=json.dumps(to_table(manifest)),
            env={**os.environ, "PYTHONHASHSEED": _other_hash_seed(manifest.plan.seed)},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
        )
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise EnvironmentFailed(f"the second run of a seed failed: {last}")
        return (
            first_difference(seen, reader.load(run.history).history)
            or _lines("fault", world.faults, list(journal.faults(run)))
            or _lines("mark", world.marks, list(journal.marks(run)))
        )


def _other_hash_seed(seed: int) -> str:
    """A PYTHONHASHSEED different from this process's."""
    mine = os.environ.get("PYTHONHASHSEED", "random")
    return next(text for text in (str(1 + seed % 1000), str(2 + seed % 1000)) if text != mine)


def _lines(what: str, ours: Sequence[object], theirs: Sequence[object]) -> str:
    for n, (one, other) in enumerate(zip_longest(plain(ours), plain(theirs))):
        if one != other:
            return f"first difference: {what} event {n}: {one}, against {other}"
    return ""


def main(argv: Sequence[str]) -> int:
    """Simulate the manifest on standard input and write the results to a folder."""
    manifest = parsed(json.load(sys.stdin))
    load(manifest.entries.backend)(manifest).keep(RunDir(Path(argv[1])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
