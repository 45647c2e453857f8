"""Judges runs at random at once and in parts, and prints where the two differ.

`python -m tests.power.parts [SEED] [SECONDS]`: systems, mutants, workloads and faults of the
simulator. Different are a verdict of a property that parts can judge, and a count. The exit code is
1 if parts hold what the whole does not, or violate it.
"""

from __future__ import annotations

import contextlib
import io
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from holdfast import catalogue
from holdfast.catalogue.mutants import MUTANTS
from holdfast.commands import main as holdfast
from holdfast.engine.checkers import with_named
from holdfast.engine.judging import judge_run
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.loading import load
from holdfast.harness.core.verdict import Verdict
from holdfast.harness.judging.parts import WHOLE, judge_in_parts
from holdfast.harness.runs.directory import RunDir

NEMESES = ("partition", "pause", "kill", "clock:step=60s", "freeze", "reset", "reply-loss",
           "cancel", "slow-links", "pause:target=holder", "kill:target=holder")  # fmt: skip
SYSTEMS = ("reference", "reference", "single", "majority", "redlock", "chubby")
WAYS = ((300, 6, 10), (120, 3, 5))
"""New rows of a part, margin and longest, s."""


def words(chance: random.Random) -> list[str]:
    """The command of one run."""
    system, mutant = chance.choice(SYSTEMS), ""
    if chance.random() < 0.5:
        mutant = chance.choice(list(MUTANTS))
        system = MUTANTS[mutant].system
    made = ["run", "--backend", "sim", "--system", system]
    made += ["--time", f"{chance.choice((10, 20, 30))}s", "--seed", str(chance.randrange(10**6))]
    made += ["--lease", chance.choice(("500ms", "1s")), "--clients", chance.choice("346")]
    made += [
        "--locks",
        chance.choice("123"),
        "--workload",
        chance.choice(list(catalogue.WORKLOADS)),
    ]
    faults = chance.sample(NEMESES, chance.randrange(3))
    made += ["--nemesis", ",".join(faults)] if faults else []
    made += ["--mutant", mutant] if mutant else []
    return made + (["--resource", "unfenced"] if chance.random() < 0.2 else [])


def differences(
    run: RunDir, rows: int, margin_s: int, longest_s: int
) -> list[tuple[str, str, str]]:
    """(property, at once, in parts) where the two differ."""
    manifest, checkers = with_named(run.read_manifest(), (), run.own)
    across = load(catalogue.ACROSS_PARTS)
    whole = judge_run(run)
    parts = judge_in_parts(
        run, manifest, checkers, across, rows, longest_s * SECOND, margin_s * SECOND
    )
    found = []
    for a, b in zip(whole.verdicts, parts.verdicts, strict=True):
        if a.property in WHOLE or (a.verdict, a.exercised) == (b.verdict, b.exercised):
            continue
        counts = "" if a.exercised == b.exercised else f" {dict(b.exercised)}"
        found.append((a.property, str(a.verdict), f"{b.verdict}{counts}"))
    return found


def main() -> int:
    """Try until the time is over."""
    seed, seconds = (int(word) for word in (*sys.argv[1:], "1", "60")[:2])
    chance, until_s, tried = random.Random(seed), time.monotonic() + seconds, Counter[str]()
    while time.monotonic() < until_s:
        with tempfile.TemporaryDirectory() as folder:
            command, said = [*words(chance), "--out", folder], io.StringIO()
            with (
                contextlib.suppress(SystemExit),
                contextlib.redirect_stdout(said),
                contextlib.redirect_stderr(said),
            ):
                holdfast(command)
            path = Path(folder, "latest")
            if not path.exists():
                tried["cannot be combined"] += 1
                continue
            for way in WAYS:
                tried["judged"] += 1
                for prop, once, parts in differences(RunDir(path.resolve()), *way):
                    worse = not parts.startswith(Verdict.UNKNOWN) and once != parts.split()[0]
                    tried["wrong" if worse else "different"] += 1
                    told = f"{way} {' '.join(command[:-2])}: {prop} {once}, in parts {parts}\n"
                    sys.stdout.write(told)
                    sys.stdout.flush()
    sys.stdout.write(f"{dict(tried)}\n")
    return 1 if tried["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
