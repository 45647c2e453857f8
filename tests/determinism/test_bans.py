"""What runs inside the simulator asks nobody outside it: no clock, no chance, no order of sets."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INSIDE = (
    "clusters/backends/sim",
    "clusters/systems/reference",
    "clusters/systems/single",
    "clusters/systems/majority",
    "clusters/systems/controls/none",
    "harness/client/context.py",
    "harness/client/worker.py",
    "harness/driver",
    "harness/core/waiting.py",
    "harness/core/seeds.py",
    "nemesis/kinds/clock.py",
    "nemesis/kinds/freeze.py",
    "nemesis/kinds/freeze_write.py",
    "nemesis/kinds/kill.py",
    "nemesis/kinds/partition.py",
    "nemesis/kinds/pause.py",
    "nemesis/kinds/slow_links.py",
    "nemesis/targets.py",
    "nemesis/timetable.py",
    "nemesis/kinds/torn_write.py",
    "workloads",
)
HOST_ONLY = {
    "clusters/systems/reference/consensus/storage.py": "the disk of a host; the simulator has one",
    "workloads/resource/client.py": "sockets of a host; the simulator has its own",
}
BANNED_CALLS = {
    "time.time",
    "time.time_ns",
    "time.monotonic",
    "time.monotonic_ns",
    "time.perf_counter",
    "time.sleep",
    "time.clock_gettime_ns",
    "datetime.now",
    "os.urandom",
    "os.getpid",
    "asyncio.all_tasks",
    "threading.Thread",
}
BANNED_NAMES = {"hash", "id", "set", "frozenset"}
BANNED_MODULES = {"uuid", "secrets", "socket", "threading", "subprocess", "weakref"}
CHANCE = {"random", "randrange", "randint", "choice", "choices", "sample", "shuffle", "uniform"}

EXCUSED = {
    (
        "clusters/backends/sim/interrupts.py",
        "threading",
    ): "whether ^C of the person at the terminal arrives in this thread",
    (
        "clusters/backends/sim/forbidden_calls.py",
        "threading",
    ): "tells its own thread from those of the process",
    (
        "clusters/systems/reference/service/server.py",
        "time.clock_gettime_ns",
    ): "stamps of log lines",
    (
        "clusters/systems/reference/wire/frames.py",
        "socket",
    ): "options of real sockets, if there is one",
    ("clusters/backends/sim/endings.py", "asyncio.all_tasks"): "a bag that is only kept",
    ("harness/client/worker.py", "os.getpid"): "the process on a host, not its clients",
    ("nemesis/targets.py", "set"): "membership only, the order is that of the names",
    ("clusters/systems/reference/consensus/raft.py", "set"): "sorted at once",
    ("clusters/backends/sim/observed/states.py", "id"): "knows an object again; nothing is ordered",
    ("workloads/resource/process.py", "os.getpid"): "the process on a host, not its rules",
    ("nemesis/kinds/clock.py", "set"): "compared, never walked",
}


def files() -> list[Path]:
    found: list[Path] = []
    for place in INSIDE:
        path = ROOT / place
        found += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return [path for path in found if name_of(path) not in HOST_ONLY]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def breaches(tree: ast.AST) -> list[str]:
    """What a module does that a simulated run must not depend on."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = dotted(node.func)
            if called in BANNED_CALLS | BANNED_NAMES:
                found.append(called)
            module, _, function = called.partition(".")
            if module == "random" and function in CHANCE:
                found.append(called)
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in BANNED_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in BANNED_MODULES:
            found.append(str(node.module))
        elif isinstance(node, ast.For | ast.comprehension) and _is_set(node.iter):
            found.append("iteration over a set")
        elif isinstance(node, ast.FunctionDef) and node.name == "__del__":
            found.append("__del__")
    return found


def _is_set(node: ast.expr) -> bool:
    made = isinstance(node, ast.Call) and dotted(node.func) in ("set", "frozenset")
    return made or isinstance(node, ast.Set | ast.SetComp)


@pytest.mark.parametrize("path", files(), ids=name_of)
def test_what_runs_inside_asks_nobody_outside(path: Path) -> None:
    found = breaches(ast.parse(path.read_text()))
    left = [what for what in found if (name_of(path), what) not in EXCUSED]
    assert not left, f"{name_of(path)} uses {', '.join(left)}"


def test_no_excuse_outlives_its_reason() -> None:
    used = [(name_of(p), what) for p in files() for what in breaches(ast.parse(p.read_text()))]
    assert [excuse for excuse in EXCUSED if excuse not in used] == []


@pytest.mark.parametrize(
    "source",
    [
        "import time\nnow = time.monotonic_ns()",
        "import random\nx = random.random()",
        "for name in {1, 2}: print(name)",
        "x = [n for n in set(names)]",
        "import uuid",
        "key = id(task)",
    ],
)
def test_a_breach_is_seen(source: str) -> None:
    assert breaches(ast.parse(source))
