"""What adapters of locks with a queue, a session or a row say, against what their server lists.

As `test_adapter_words.py` does for the Redis family: each class of error of an adapter's table is
provoked (`holder_trial.py`): a lock that another holds or took over, one that is gone or expired,
a request, a reply, or the request that takes a contender back, that is lost. Then `ok`, `fail` and
`not_owner` are each true, or listed in KNOWN with the reason; `info` claims nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.catalogue import SYSTEMS as CATALOGUE
from holdfast.clusters.libraries.rows import LIBRARIES
from holdfast.clusters.libraries.system import entry
from holdfast.clusters.programs.rows import PROGRAMS, ProgramRow
from holdfast.clusters.programs.system import ProgramLibrary, is_program
from holdfast.clusters.programs.system import entry as program_entry
from holdfast.clusters.systems import postgres
from holdfast.harness.core.errors import HoldfastError
from holdfast.harness.core.loading import load
from tests import needs
from tests.clusters.at_once import Row, Trials, running
from tests.clusters.holder_servers import ROOT, SHARED, serving
from tests.clusters.holder_trial import AT, WRITES, states_of

OWN = {
    "etcd": "holdfast.clusters.systems.etcd.client:client",
    "zookeeper": "holdfast.clusters.systems.zookeeper.client:client",
    "postgres-advisory": "holdfast.clusters.systems.postgres.advisory.client:client",
    "postgres-row": "holdfast.clusters.systems.postgres.row.client:client",
    "postgres-lease": "holdfast.clusters.systems.sql_lease.postgres:client",
    "mariadb-row": "holdfast.clusters.systems.mariadb.client:client",
    "mariadb-get-lock": "holdfast.clusters.systems.mariadb.get_lock:client",
    "mariadb-lease": "holdfast.clusters.systems.sql_lease.mariadb:client",
    "memcached": "holdfast.clusters.systems.memcached.client:client",
    "cockroachdb": "holdfast.clusters.systems.cockroachdb.client:client",
    "galera-lease": "holdfast.clusters.systems.galera.lease:client",
    "galera-get-lock": "holdfast.clusters.systems.galera.get_lock:client",
    "dynamodb": "holdfast.clusters.systems.dynamodb.client:client",
    "s3": "holdfast.clusters.systems.s3.client:client",
    "gcs": "holdfast.clusters.systems.gcs.client:client",
    "azure-blob": "holdfast.clusters.systems.azure_blob.client:client",
    "kubernetes": "holdfast.clusters.systems.kubernetes.client:client",
    "nats-kv": "holdfast.clusters.systems.nats.client:client",
}
OPTIONS = {
    "cockroachdb": {
        "at": f"{AT}:{postgres.PORT}", "user": postgres.USER, "database": postgres.DATABASE,
    }
}  # fmt: skip
VARIANTS = [
    ("s3", "leases=timed"),
    ("s3", "leases=timed tokens=counter"),
    ("s3", "leases=none tokens=counter"),
    ("gcs", "leases=timed"),
    ("azure-blob", "leases=infinite"),
]
SYSTEMS = {name: CATALOGUE[name].entry for name in OWN}
TRIALS = [(service, "") for service in OWN if service != "azure-blob"]
# The lease of a blob is 15 s at least.
TRIALS += [("azure-blob", "leases=timed"), *VARIANTS]
TRIALS += [
    (row.system, f"{name} api={api}" if api in row.kinds else name)
    for name, row in LIBRARIES.items()
    for api in ("", *row.kinds)
    if row.system in OWN
]


def _usual(row: ProgramRow, version: str, api: str, renew: str) -> bool:
    first = next(one for one in PROGRAMS.values() if one.program == row.program)
    return row is first and not version and (api, renew) == (row.apis[0], row.renewals[0])


PROGRAM_TRIALS = [
    pytest.param(
        service,
        " ".join((f"{name}{version}", f"api={api}", f"renew={renew}")),
        # Each program once, as a run has it by default; it takes up to a minute, mostly of waiting.
        marks=() if _usual(row, version, api, renew) else pytest.mark.power,
        id=f"{service}-{name}{version}-{api}-{renew}",
    )
    for (service, name), row in PROGRAMS.items()
    for version in ("", *(f"@{first}" for first in row.older))
    for api in row.apis
    for renew in row.renewals_of(f"{version[1:]}.0" if version else row.version)
]
POOLED = "the library's own word: its pool keeps the session, and the lock; a finding"
TIMED = ("postgres-lease", "mariadb-lease", "galera-lease", "s3", "gcs", "azure-blob")
ROW = "the record still has its owner: nobody was granted it since, which is what an ok means there"
LOST_CALLS = ("cut", "reply-lost", *WRITES)
QUEUED = "a Lock cannot be given up: the program unlocks it at once when it is granted"
GO_ZOOKEEPER = "deb:golang-github-samuel-go-zookeeper-dev"
RUNS_OUT = "the library cannot step down: its renewals end, and the lease runs out"
WITHDRAWN = {"kubernetes_asyncio": "FAIL"}
"""Library -> what it never claims: a candidate that is withdrawn may have a request on its way."""
KNOWN = {
    **{
        (GO_ZOOKEEPER, call, state): QUEUED
        for call in ("try", "acquire")
        for state in ("theirs", "undone, cut")
    },
    **{(service, "release", "expired"): ROW for service in TIMED},
    ("azure-blob", "release", "gone"): ROW,
    **{
        (library, "release", state): RUNS_OUT
        for library in ("kubernetes", "kubernetes_asyncio")
        for state in ("ours", "released", *LOST_CALLS)
    },
    ("python-etcd", "try", "theirs"): "the library's own word: its entry stays; a finding",
    ("SQLAlchemy", "release", "ours"): POOLED,
    ("SQLAlchemy", "release", "released"): POOLED,
}
"""(library, call, state) -> why the claim is not true there, and stays."""


def untrue(row: Row, *, renew_proves: bool, release_proves: bool) -> str:
    """Why the claimed outcome of a call contradicts the contenders, "" if it does not."""
    before, after, ours = row["before"], row["after"], row["ours"]
    held, holds = before[:1] == [ours], after[:1] == [ours]
    outcome, call = row["outcome"], row["call"]
    if outcome == "INFO":
        return ""
    if call in ("try", "acquire"):
        if outcome == "OK":
            return "" if set(after[:1]) - set(before) else "granted, but it does not hold"
        more = sorted(set(after) - set(before))
        return f"no effect, but {more} contend" if more else ""
    if outcome == "NOT_OWNER":
        return "not the owner, but it held the lock" if held else ""
    if outcome == "FAIL":
        return "" if held == holds else "no effect, but the holder changed"
    if call == "renew":
        return "" if holds or not renew_proves else "renewed, but it does not hold"
    if holds:
        return "released, but it still holds"
    return "released, but it did not hold" if release_proves and not held else ""


def rows_of(folder: Path, address: str, service: str, name: str) -> list[Row]:
    """What the trial of an adapter or client program prints."""
    made: Any = load(_system(service, name))
    options: Mapping[str, str] = OPTIONS.get(service, {})
    packages = packages_of(service, name)
    if is_program(_library(name)):
        options = shipped(made, folder / "program", _options(name))
    elif name:
        options = {**options, **_options(name)}
    client = made.client if _library(name) else OWN[service]
    near, far = f"{address}.9", f"{address}.10"
    with serving(folder, service, far, options):
        argv = [sys.executable, "-S", "-P", "-m", "tests.clusters.holder_trial", service, client]
        path = os.pathsep.join([SHARED, str(ROOT), *packages])
        done = subprocess.run(
            [*argv, f"{near}={far}", json.dumps(options)],
            env={"PYTHONPATH": path, "PATH": os.environ["PATH"]},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[:1500] + done.stderr[-1500:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def packages_of(service: str, name: str) -> list[str]:
    """Folders of the packages of a client; those of a program are its own."""
    made: Any = load(_system(service, name))
    if is_program(_library(name)):
        return []
    built = made.built if _library(name) else ()
    return [str(needs.libraries(made.libraries, built))] if made.libraries else []


def shipped(made: ProgramLibrary, target: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Options of the client of a program, which is installed and compiled on first use."""
    try:
        installed, _ = made.install(lambda line: None)
    except HoldfastError as error:
        needs.unless(str(error))
        raise
    return made.ship(installed, target, given)


@pytest.fixture(scope="module")
def trials(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trials]:
    """The rows of all trials that are asked for here."""
    with running(request, tmp_path_factory, rows_of, ("service", "name")) as made:
        yield made


@pytest.mark.real_server
@pytest.mark.parametrize(("service", "name"), [*TRIALS, *PROGRAM_TRIALS])
def test_what_an_adapter_says_of_its_holds_is_true(trials: Trials, service: str, name: str) -> None:
    rows = trials[service, name].result()
    calls = {(row["call"], row["state"]) for row in rows}
    options = {**OPTIONS.get(service, {}), **_options(name)}
    met = set(states_of(service, options)) - {"released", "overtaken" if _library(name) else ""}
    assert {(call, state) for call in ("renew", "release") for state in met} <= calls
    claimed = {"OK", "FAIL"} - {WITHDRAWN.get(_library(name), "")}
    assert {*claimed, "INFO"} <= {row["outcome"] for row in rows}
    unclear = [row for row in rows if row["state"] == "ours" and row["outcome"] == "INFO"]
    assert unclear == [], "nothing is lost here"
    promises = load(_system(service, name)).promises(options)
    lies = [
        f"{row['call']} of {row['state']}: {row['outcome']}, {why}; {row['error']}"
        for row in rows
        if (
            why := untrue(
                row,
                renew_proves=promises.renew_proves,
                release_proves=promises.release_proves,
            )
        )
        and (_library(name) or service, row["call"], row["state"]) not in KNOWN
    ]
    assert lies == []


def _system(service: str, name: str) -> str:
    library = _library(name)
    if not library:
        return SYSTEMS[service]
    find = program_entry if is_program(library) else entry
    return find(service, {**_options(name), "library": library})


def _library(name: str) -> str:
    """The package that a name begins with, "" for an adapter of our own and its options."""
    first = name.split(" ")[0]
    return "" if "=" in first else first


def _options(name: str) -> dict[str, str]:
    """The options that stand behind the name of a package."""
    return dict(word.split("=") for word in name.split() if "=" in word)
