"""What --server-record costs: `python -m benchmarks.server_record [SYSTEM ...] [--runs N]`.

Runs of one system without and with the record, in turns. CPU time of the driver and of the servers
per grant and per second, and grants per second; with the record as a ratio to without.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdfast.harness.core.json_value import Json
from holdfast.interpreter import build

SYSTEMS: dict[str, Sequence[str]] = {
    "etcd": (),
    "redis": (),
    "zookeeper": (),
    "postgres-lease": ("--set", "wal_level=logical"),
}
"""System -> options without which it has no record."""
PROGRAMS = ("etcd", "redis-server", "java", "postgres", "postgres:")
EVERY_S = 0.2
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Of one run: CPU seconds of the driver and of the servers, and grants."""

    driver_s: float
    servers_s: float
    grants: int


def cost(system: str, seed: int, seconds: int, *, recorded: bool) -> Cost:
    """One run."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            "run",
            "--system",
            system,
            *SYSTEMS[system],
            "--seed",
            str(seed),
            "--time",
            f"{seconds}s",
            "--json",
        ]
        words += ["--out", folder, *(["--server-record"] if recorded else [])]
        over = threading.Event()
        used: dict[int, tuple[str, float]] = {}
        watching = threading.Thread(target=_watch, args=(folder, used, over))
        watching.start()
        try:
            done = subprocess.run(
                [sys.executable, "-m", "holdfast", *words], capture_output=True, text=True
            )
        finally:
            over.set()
            watching.join()
        if done.returncode not in (0, 3):
            raise SystemExit(done.stderr)
        judged: dict[str, Json] = json.loads(done.stdout)
    by_role = dict.fromkeys(("driver", "server"), 0.0)
    for role, seconds in used.values():
        by_role[role] += seconds
    evidence = judged["evidence"]
    assert isinstance(evidence, dict)
    return Cost(
        driver_s=by_role["driver"],
        servers_s=by_role["server"],
        grants=evidence["acquire"]["granted"],
    )


def _watch(folder: str, used: dict[int, tuple[str, float]], over: threading.Event) -> None:
    """The CPU time of the run's driver and servers as last seen, until the run is over."""
    while not over.is_set():
        for place in Path("/proc").glob("[0-9]*"):
            try:
                words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")
                stat = (place / "stat").read_text().rpartition(")")[2].split()
                role = _role(place, words, folder)
            except OSError:
                continue
            if role:
                used[int(place.name)] = (role, (int(stat[11]) + int(stat[12])) / TICKS)
        time.sleep(EVERY_S)


def _role(place: Path, words: Sequence[str], folder: str) -> str:
    # Some write other words over their command line, and work in their data folder.
    program = Path(words[0].split(" ")[0]).name
    at = os.readlink(place / "cwd") if program in PROGRAMS else ""
    if not any(word.startswith(folder) for word in (*words, at)):
        return ""
    if "holdfast.harness.driver.process" in words:
        return "driver"
    return "server" if program in PROGRAMS else ""


def compared(system: str, runs: int, seconds: int) -> str:
    """One row of the table."""
    pairs = [
        (cost(system, seed, seconds, recorded=False), cost(system, seed, seconds, recorded=True))
        for seed in range(1, runs + 1)
    ]
    driver = statistics.median(b.driver_s / a.driver_s for a, b in pairs)
    servers = statistics.median(
        (b.servers_s / b.grants) / (a.servers_s / a.grants) for a, b in pairs
    )
    grants = statistics.median(b.grants / a.grants for a, b in pairs)
    added = statistics.median((b.driver_s - a.driver_s) / seconds for a, b in pairs)
    return f"{system:<10} {driver:>10.2f}x {servers:>23.2f}x {grants:>7.2f}x {added:>+17.1%}\n"


def main() -> None:
    """Prints one row per system."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("systems", nargs="*", default=list(SYSTEMS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=15)
    given = parser.parse_args()
    sys.stdout.write(f"{build()}\n")
    sys.stdout.write(
        "system      driver CPU   servers' CPU per grant   grants   driver, of a core\n"
    )
    for system in given.systems:
        sys.stdout.write(compared(system, given.runs, given.seconds))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
