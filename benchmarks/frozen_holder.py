"""Counts stale writes of a holder frozen inside its send, for clients in four languages.

`python -m benchmarks.frozen_holder COUNT [LANGUAGE...]` as root, with the servers installed. Runs
the plan `examples/frozen-in-send.toml` with seeds 1, 2, ... until COUNT freezes have shown it, once
with a resource that checks no token and once with one that does. A freeze counts if the process was
seen stopped inside a send to the resource, and the resource had a newer token when its write came.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import holdfast as hf
from holdfast.interpreter import build

ROOT = Path(__file__).resolve().parents[1]
PLAN = ROOT / "examples" / "frozen-in-send.toml"
STARTER = ROOT / "src" / "holdfast" / "starters" / "program"
BY_PROGRAM = {"sender": "program"}
LANGUAGES = ("Python", "C", "Node", "Java")
EARLY_S, LATE_S = 0.3, 2.0
"""The frozen write comes within this time before the recorded end of the fault, and after it."""
MOST_RUNS = 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """A lock and its client. options: what `--set` takes."""

    lock: str
    system: str
    options: Mapping[str, str]


@dataclass(slots=True)
class Count:
    """Of the freezes that took effect: whose write came after a newer owner's, and was accepted."""

    frozen: int = 0
    stale: int = 0
    accepted: int = 0


def subjects(folder: Path) -> dict[str, Subject]:
    """Language -> its lock and client; compiles the client in C into a folder."""
    for name in ("server.js", "client.c", "mylock.toml"):
        (folder / name).write_text((STARTER / name).read_text())
    subprocess.run(["gcc", "-O2", "-o", folder / "client", folder / "client.c"], check=True)
    return {
        "Python": Subject(
            lock="redis-py on Redis, with a counter",
            system="redis",
            options={"tokens": "counter"},
        ),
        "C": Subject(
            lock="`holdfast new program`", system=str(folder / "mylock.toml"), options=BY_PROGRAM
        ),
        "Node": Subject(
            lock="etcd3 on etcd, with the create revision",
            system="etcd",
            options={**BY_PROGRAM, "library": "npm:etcd3", "tokens": "revision"},
        ),
        "Java": Subject(
            lock="Curator on ZooKeeper, with the czxid",
            system="zookeeper",
            options={
                **BY_PROGRAM,
                "library": "deb:libcurator-recipes-java",
                "tokens": "czxid",
            },
        ),
    }


def counted(subject: Subject, resource: str, wanted: int, out: Path) -> Count:
    """Runs until so many freezes took effect, and their writes came."""
    count = Count()
    for seed in range(1, MOST_RUNS + 1):
        if count.stale >= wanted:
            break
        run = hf.run(
            PLAN,
            out=out,
            system=subject.system,
            resource=resource,
            seed=seed,
            options=subject.options,
        )
        add(count, run, wanted)
    return count


def add(count: Count, run: hf.Run, wanted: int) -> None:
    """Adds the freezes of one run, in their order."""
    log = run.resource_log()
    for fault in run.faults().to_dict("records"):
        if not fault["effective"] or count.stale >= wanted:
            continue
        count.frozen += 1
        since, until = fault["to"] - EARLY_S, fault["to"] + LATE_S
        own = log[(log.client == fault["nodes"][0]) & (log.t > since) & (log.t < until)]
        late = own[own.token < own.highest_token_before]
        if len(late):
            count.stale += 1
            count.accepted += bool(late.iloc[0].accepted)


def main(words: list[str]) -> int:
    """Prints the table, a line for each language as it is done."""
    wanted, chosen = int(words[0]), words[1:]
    write = sys.stdout.write
    if unknown := [word for word in chosen if word not in LANGUAGES]:
        sys.stderr.write(f"unknown: {', '.join(unknown)} (known: {', '.join(LANGUAGES)})\n")
        return 2
    write(
        "| client | lock | resource | freezes in a send | came after a newer write | accepted |\n"
    )
    write("| --- | --- | --- | --- | --- | --- |\n")
    with tempfile.TemporaryDirectory(prefix="frozen-holder-") as place:
        for language, subject in subjects(Path(place)).items():
            for resource in ("unfenced", "fenced") if language in (chosen or [language]) else ():
                done = counted(subject, resource, wanted, Path(place) / "runs")
                counts = f"{done.frozen} | {done.stale} | {done.accepted} of {done.stale}"
                write(f"| {language} | {subject.lock} | {resource} | {counts} |\n")
                sys.stdout.flush()
    write(f"\n{build()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["100"]))
