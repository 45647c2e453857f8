"""Lines and characters that a verdict takes in a terminal, in pytest and in the gate.

Run: `python -m benchmarks.output_lines [NAME ...] [--columns N ...] [--print]`. Three failures with
three causes (a pause, a clock step, a release by an unconditional DEL), a limit, an open question
and a pass; each is executed by `holdfast run` and by a pytest test, whose runs `holdfast gate` then
judges. Rows: lines as a terminal of so many columns shows them, which breaks a command that is
longer. Needs: `redis-server` and namespaces, for the DEL.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests import needs
from tests.front.author import Repository, file_of

from holdfast.interpreter import build

PAUSE = "pause:target=holder,every=6s,for=4s"
SIM: Mapping[str, object] = {"backend": "sim", "lease": "2s", "time": "20s"}
PLANS: Mapping[str, tuple[int, Mapping[str, object]]] = {
    "pause": (
        1,
        {**SIM, "system": "reference", "nemesis": PAUSE, "resource": "unfenced",
         "require": ["no-stale-write"]},
    ),
    "clock": (
        1,
        {**SIM, "system": "redlock", "nemesis": "clock:step=5s,target=majority,every=4s,for=2s",
         "require": ["mutual-exclusion"]},
    ),
    "del": (
        1,
        {"system": "mylock.py:MyLock", "lease": "500ms", "time": "10s",
         "nemesis": "pause:target=holder,every=3s,for=1500ms"},
    ),
    "limit": (0, {**SIM, "system": "reference", "nemesis": PAUSE, "resource": "unfenced"}),
    "limits": (
        0,
        {**SIM, "system": "redlock", "workload": "lost-update", "resource": "unfenced",
         "nemesis": "clock:step=5s,target=majority,every=4s,for=2s"},
    ),
    "unknown": (
        3,
        {**SIM, "system": "reference", "nemesis": "partition,kill,pause,freeze", "time": "5s"},
    ),
    "holds": (0, {**SIM, "system": "reference", "nemesis": PAUSE, "resource": "fenced"}),
}  # fmt: skip
"""A run -> the exit code of its verdict, and its plan as a pytest test has it."""
SEED = 7
MOST = {0: 10, 1: 25, 3: 16}
"""Exit code -> lines that its text may have; a test that fails has 25, whatever the reason."""
EMPTY = 'schema = "holdfast-baseline/1"\n'
TEST = """import pytest


@pytest.mark.holdfast(runs=1, **{plan!r})
def test_the_lock(lock_campaign):
    lock_campaign.check()
"""


def words(plan: Mapping[str, object]) -> str:
    """The options of `holdfast run` for a plan."""
    rows = ((key, value if isinstance(value, list) else [value]) for key, value in plan.items())
    given = (f"--{key} {each}" for key, several in rows for each in several)
    return " ".join(["--seed", str(SEED), *given])


def texts(folder: Path, name: str, columns: int) -> Iterator[tuple[str, str]]:
    """What each of the three prints about a plan; AssertionError if it ends in another way."""
    wanted, plan = PLANS[name]
    here = Repository(folder)
    here.write("mylock.py", file_of("../tutorial/redis-lock.md", "mylock.py"))
    here.write("test_lock.py", TEST.format(plan=dict(plan)))
    here.write("empty.toml", EMPTY)
    commands = {
        "terminal": f"holdfast run {words(plan)} 2>/dev/null",
        "pytest": f"pytest -q -p no:cacheprovider --holdfast-seed {SEED} test_lock.py",
        "gate": "holdfast gate .holdfast/pytest --baseline empty.toml",
    }
    for output, command in commands.items():
        done = here.run(f"COLUMNS={columns} {command}")
        code = min(wanted, 1) if output == "pytest" else wanted
        assert done.code == code, f"{name}, {output}: {done.code}\n{done.said}"
        yield output, done.said


def rows(text: str, columns: int) -> int:
    """Lines as a terminal shows them."""
    return sum(max(1, -(-len(line) // columns)) for line in text.splitlines())


def main(argv: Sequence[str] | None = None) -> None:
    """Print one line per plan, output and width."""
    parser = argparse.ArgumentParser(description=__doc__)
    # argparse of Python 3.11 compares no names at all with `choices`.
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PLANS)}")
    parser.add_argument("--columns", nargs="+", type=int, default=[100, 80])
    parser.add_argument("--print", action="store_true", dest="shown", help="the texts as well")
    args = parser.parse_args(argv)
    names = args.names or list(PLANS)
    if unknown := [name for name in names if name not in PLANS]:
        parser.error(f"unknown NAME {unknown[0]!r}")
    if "del" in names:
        needs.namespaces()
        needs.binary("redis-server")
    for name in names:
        for columns in args.columns:
            with tempfile.TemporaryDirectory() as folder:
                for output, text in texts(Path(folder), name, columns):
                    lines = len(text.splitlines())
                    code = PLANS[name][0]
                    code = min(code, 1) if output == "pytest" else code
                    over = "" if lines <= MOST[code] else " OVER"
                    sys.stdout.write(
                        f"{name} {columns} {output}: {lines} lines, {rows(text, columns)} rows,"
                        f" {len(text)} characters{over}\n{text if args.shown else ''}"
                    )
                    sys.stdout.flush()
    sys.stdout.write(f"{build()}\n")


if __name__ == "__main__":
    main()
