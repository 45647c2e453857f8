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
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.catalogue import SYSTEMS as CATALOGUE
from holdfast.clusters.libraries.rows import LIBRARIES
from holdfast.clusters.libraries.system import entry
from holdfast.clusters.programs.rows import PROGRAMS, ProgramRow
from holdfast.clusters.programs.system import ProgramLibrary, is_program
from holdfast.clusters.programs.system import entry as program_entry
from holdfast.clusters.systems.postgres import deploy
from holdfast.clusters.systems.zookeeper.system import JARS, JVM, MAIN
from holdfast.harness.core.errors import HoldfastError
from holdfast.harness.core.loading import load
from tests import needs
from tests.clusters.holder_trial import SERVICES, Etcd, ZooKeeper

ROOT = Path(__file__).resolve().parents[2]
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
}
SYSTEMS = {name: CATALOGUE[name].entry for name in OWN}
TRIALS = [(service, "") for service in OWN] + [
    (row.system, name) for name, row in LIBRARIES.items() if row.system in OWN
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
ROW = "the row still has its owner: nobody was granted it since, which is what an ok means there"
QUEUED = "a Lock cannot be given up: the program unlocks it at once when it is granted"
GO_ZOOKEEPER = "deb:golang-github-samuel-go-zookeeper-dev"
KNOWN = {
    **{
        (GO_ZOOKEEPER, call, state): QUEUED
        for call in ("try", "acquire")
        for state in ("theirs", "undone, cut")
    },
    ("postgres-lease", "release", "expired"): ROW,
    ("mariadb-lease", "release", "expired"): ROW,
    ("python-etcd", "try", "theirs"): "the library's own word: its entry stays; a finding",
    ("SQLAlchemy", "release", "ours"): POOLED,
    ("SQLAlchemy", "release", "released"): POOLED,
}
"""(library, call, state) -> why the claim is not true there, and stays."""
Row = dict[str, Any]


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


@contextmanager
def serving(folder: Path, service: str, address: str) -> Iterator[None]:
    """One server at an address, ready."""
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(_argv(folder, service, address), stdout=log, stderr=log)
    probe = SERVICES[service]
    try:
        deadline = time.monotonic() + 40
        while True:
            assert time.monotonic() < deadline and process.poll() is None, "no server"
            try:
                probe(address).contenders("any")
                break
            except (OSError, ValueError):
                time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


def _argv(folder: Path, service: str, address: str) -> Sequence[str]:
    if service == "etcd":
        here, peers = (f"http://{address}:{port}" for port in (Etcd.port, 2380))
        return (
            needs.binary("etcd"), "--enable-v2=true", "--data-dir", str(folder / "etcd"),
            "--listen-client-urls", here, "--advertise-client-urls", here,
            "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
            "--initial-cluster", f"default={peers}",
        )  # fmt: skip
    config = ("--config", json.dumps({"data": str(folder), "address": address}))
    if service.startswith("postgres"):
        needs.unless(deploy.missing())
        return (*deploy.UNPRIVILEGED[:-1], sys.executable, "-m", deploy.MODULE, *config)
    if service.startswith("mariadb"):
        needs.unless(load(SYSTEMS[service]).precheck())
        return (sys.executable, "-m", "holdfast.clusters.systems.mariadb.server", *config)
    if service in ("redis", "redlock"):
        return (needs.binary("redis-server"), "--bind", address, "--save", "", "--dir", str(folder))
    if service == "memcached":
        user = ("-u", "root") if not os.getuid() else ()
        return (needs.binary("memcached"), "-l", address, "-U", "0", *user)
    java = needs.binary("java")
    needs.file(Path(JARS[0]))
    settings = {
        "tickTime": 500,
        "minSessionTimeout": 1000,
        "dataDir": folder / "zookeeper",
        "clientPort": ZooKeeper.port,
        "clientPortAddress": address,
    }
    file = folder / "zoo.cfg"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    quiet = "-Dzookeeper.admin.enableServer=false"
    return (java, *JVM, quiet, "-cp", ":".join(JARS), MAIN, str(file))


def rows_of(folder: Path, service: str, name: str) -> list[Row]:
    """What the trial of an adapter or client program prints."""
    made: Any = load(_system(service, name))
    options: Mapping[str, str] = {}
    if is_program(name):
        packages, options = [], shipped(made, folder / "program", _options(name))
    else:
        pins, built = made.libraries, made.built if name else ()
        packages = [str(needs.libraries(pins, built))] if pins else []
    client = made.client if name else OWN[service]
    base = f"127.{1 + os.getpid() % 250}"
    near, far = f"{base}.7.9", f"{base}.8.9"
    with serving(folder, service, far):
        argv = [sys.executable, "-S", "-P", "-m", "tests.clusters.holder_trial", service, client]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT), *packages])
        done = subprocess.run(
            [*argv, f"{near}={far}", json.dumps(options)],
            env={"PYTHONPATH": path, "PATH": os.environ["PATH"]},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def shipped(made: ProgramLibrary, target: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Options of the client of a program, which is installed and compiled on first use."""
    try:
        installed, _ = made.install(lambda line: None)
    except HoldfastError as error:
        needs.unless(str(error))
        raise
    return made.ship(installed, target, given)


@pytest.mark.real_server
@pytest.mark.parametrize(("service", "name"), [*TRIALS, *PROGRAM_TRIALS])
def test_what_an_adapter_says_of_its_holds_is_true(tmp_path: Path, service: str, name: str) -> None:
    rows = rows_of(tmp_path, service, name)
    calls = {(row["call"], row["state"]) for row in rows}
    met = set(SERVICES[service].states) - {"released"}
    assert {(call, state) for call in ("renew", "release") for state in met} <= calls
    assert {"OK", "FAIL", "INFO"} <= {row["outcome"] for row in rows}
    unclear = [row for row in rows if row["state"] == "ours" and row["outcome"] == "INFO"]
    assert unclear == [], "nothing is lost here"
    promises = load(_system(service, name)).promises(_options(name))
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
        and ((name or service).split()[0], row["call"], row["state"]) not in KNOWN
    ]
    assert lies == []


def _system(service: str, name: str) -> str:
    if not name:
        return SYSTEMS[service]
    find = program_entry if is_program(name) else entry
    return find(service, {"library": name.split()[0]})


def _options(name: str) -> dict[str, str]:
    """The options that stand behind the name of a package."""
    return dict(word.split("=") for word in name.split()[1:])
