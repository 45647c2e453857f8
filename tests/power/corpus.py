"""Runs the track record again: python -m tests.power.corpus [--tries N] [-j N] [FINDING ...]

Each finding's command runs with seeds 1 to N, unmodified, on real servers. What was seen goes to
`catalogue/track_record.toml`: the date, violated runs of all runs, and the versions. A row that no
longer shows is printed, is not written, and the exit code is 1. `make corpus` runs all of them.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

import msgspec

from holdfast.catalogue.findings import FINDINGS, RECORD, TRACK_RECORD, Shown

DEBIAN = {
    "redis": "redis-server", "redlock": "redis-server", "redis-sentinel": "redis-server",
    "etcd": "etcd-server", "zookeeper": "zookeeper", "nats-kv": "nats-server",
    "postgres-advisory": "postgresql-15", "kubernetes": "etcd-server", "pgbouncer": "pgbouncer",
    "galera-lease": "mariadb-server",
}  # fmt: skip
"""System, or the value of `via` -> the package of Debian that holds its server."""
RUN_WITHIN_S = 240


@dataclass(frozen=True, kw_only=True)
class Try:
    """One run. verdict: of the property that the finding breaks, "" without one; told: why"""

    verdict: str
    told: str
    libraries: Sequence[str] = ()


def tried(words: str, seed: int, breaks: str) -> Try:
    """One run of a finding's command in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="holdfast-corpus-") as folder:
        argv = [sys.executable, "-P", "-m", "holdfast", "run", *shlex.split(words)]
        more = ("--seed", str(seed), "--out", folder, "--json")
        try:
            done = subprocess.run(
                [*argv, *more], capture_output=True, text=True, timeout=RUN_WITHIN_S, check=False
            )
        except subprocess.TimeoutExpired:
            return Try(verdict="", told=f"no end within {RUN_WITHIN_S} s")
        if done.returncode not in (0, 1, 3):
            return Try(verdict="", told=done.stderr.strip().rpartition("\n")[2])
        rows = {row["property"]: row for row in json.loads(done.stdout)["verdicts"]}
        manifest = json.loads((Path(folder) / "latest" / "manifest.json").read_text())
        row = rows[breaks]
        return Try(verdict=row["verdict"], told=row["reason"], libraries=manifest["pins"])


def versions(words: Sequence[str], libraries: Iterable[str]) -> list[str]:
    """What the runs of a command used: packages of servers, the interpreter, the libraries."""
    named = [word.removeprefix("via=") for word in words]
    if any(word.startswith("version=") for word in words):
        named = []  # Its servers are among the libraries.
    found = [_installed(DEBIAN[name]) for name in dict.fromkeys(named) if name in DEBIAN]
    return [*filter(None, found), f"CPython {platform.python_version()}", *libraries]


def _installed(package: str) -> str:
    """A package of Debian with its version, "" if it is not installed."""
    words = ["dpkg-query", "-W", "-f", "${Package} ${Version}", package]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    return told.stdout if told.returncode == 0 else ""


def again(name: str, tries: int, today: date) -> tuple[Shown | None, str]:
    """What a finding's command shows today, None if nothing; and a line about it."""
    finding = FINDINGS[name]
    words = finding.command
    runs = [tried(words, seed, finding.breaks) for seed in range(1, tries + 1)]
    violated = [one for one in runs if one.verdict == "VIOLATED"]
    if not violated:
        return None, f"{name:<32} NOT SHOWN in {tries}: {runs[-1].told}"
    shown = Shown(
        last=today,
        seen=(len(violated), tries),
        versions=tuple(versions(words.split(), violated[0].libraries)),
    )
    return shown, f"{name:<32} {len(violated)} of {tries}"


def written(record: Mapping[str, Shown]) -> str:
    """The text of the record, in the order of the findings."""
    lines = ["# Written by `make corpus`; do not edit. When each finding was last shown, in how"]
    lines += ["# many runs of how many (seeds 1 to n), and with which versions."]
    for name in FINDINGS:
        if name in record:
            shown = record[name]
            lines += ["", f"[{name}]", f"last = {shown.last.isoformat()}"]
            lines += [f"seen = {list(shown.seen)}", f"versions = {json.dumps(shown.versions)}"]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Prints a line per finding and writes the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=2)
    parser.add_argument("-j", dest="processes", type=int, default=2)
    parser.add_argument("names", nargs="*", metavar="FINDING")
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in FINDINGS]:
        parser.error(f"no such finding: {', '.join(unknown)}; see holdfast list findings")
    names = args.names or list(FINDINGS)
    record, missing = dict(TRACK_RECORD), 0
    today = datetime.now(UTC).date()
    with ThreadPoolExecutor(args.processes) as pool:
        run = partial(again, tries=args.tries, today=today)
        for name, (shown, line) in zip(names, pool.map(run, names), strict=True):
            print(line, flush=True)  # noqa: T201
            missing += shown is None
            if shown is not None:
                record[name] = shown
                RECORD.write_text(written(record))
    msgspec.toml.decode(RECORD.read_bytes(), type=dict[str, Shown])
    return min(missing, 1)


if __name__ == "__main__":
    sys.exit(main())
