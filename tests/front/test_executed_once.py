"""A user's file is executed once per process; a simulated run has a new one and one trial."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from holdfast import catalogue
from holdfast.engine import seed_search
from holdfast.harness.plans.plan import Plan
from holdfast.planning import prepare
from tests.front.said import holdfast

LOCK = '''
import os
with open({log!r}, "a") as log:
    log.write(f"{{os.getpid()}}\\n")


class Lock:
    """A lock in memory: the file says how often it was executed."""

    held = {{}}

    def __init__(self, servers, options, now):
        self.now = now

    def acquire(self, lock, owner, lease):
        if self.held.get(lock, ("", 0.0))[1] > self.now():
            return None
        self.held[lock] = (owner, self.now() + lease)
        return True

    def release(self, lock, owner):
        return self.held.pop(lock, None) is not None


class Work:
    """A workload beside it."""

    ASKS = ("mutual-exclusion",)

    @staticmethod
    async def client(ctx):
        while not ctx.over:
            if await ctx.acquire("a") is not None:
                await ctx.release("a")


WORK = Work()
'''


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "executed"


@pytest.fixture
def file(tmp_path: Path, log: Path) -> Path:
    """A lock class and a workload in one file."""
    path = tmp_path / "counted.py"
    path.write_text(LOCK.format(log=str(log)))
    return path


def executions(log: Path) -> Counter[int]:
    """Process -> number of times that it executed the file."""
    return Counter(int(line) for line in log.read_text().split())


def test_every_process_of_a_run_executes_the_file_once(
    file: Path, log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--system", f"{file}:Lock", "--workload", f"{file}:WORK", "--backend", "local")
    said = holdfast(
        capsys, "run", *words, "--time", "2s", "--clients", 2, "--out", tmp_path, "--json"
    )
    assert said.code in (0, 1, 3), said.err
    found = executions(log)
    # This process, the driver and the clients.
    assert found[os.getpid()] == 1 and len(found) >= 4
    assert set(found.values()) == {1}, found


def test_a_simulated_run_begins_with_a_new_module(file: Path, log: Path) -> None:
    for runs in (1, 2):
        plan = Plan(system=f"{file}:Lock", backend="sim", seed=runs, nodes=0, time_ns=2 * 10**9)
        prepared = prepare.prepared(plan)
        seed_search.in_memory(prepare.manifest(prepared, "once", ""))
        assert executions(log) == {os.getpid(): 1 + runs}


def test_changed_files_are_executed_again(file: Path, log: Path) -> None:
    plan = Plan(system=f"{file}:Lock", workload=f"{file}:WORK", backend="local", nodes=0, seed=1)
    before = prepare.prepared(plan)
    prepare.prepared(plan)
    assert catalogue.WORKLOADS[f"{file}:WORK"].asks() == ("mutual-exclusion",)
    assert executions(log) == {os.getpid(): 1}
    file.write_text(
        file.read_text().replace("class Lock:", "class Lock:\n    tokens = 'ordered'\n")
    )
    assert (before.promises.tokens, prepare.prepared(plan).promises.tokens) == ("none", "ordered")
    assert executions(log) == {os.getpid(): 2}
