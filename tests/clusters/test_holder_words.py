"""What adapters of etcd, ZooKeeper and PostgreSQL say, against what the server lists of a lock.

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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.clusters.libraries.rows import LIBRARIES
from holdfast.clusters.libraries.system import entry
from holdfast.clusters.systems.postgres import deploy
from holdfast.clusters.systems.zookeeper.system import JARS, JVM, MAIN
from holdfast.harness.core.loading import load
from tests import needs
from tests.clusters.holder_trial import SERVICES, Etcd, ZooKeeper

ROOT = Path(__file__).resolve().parents[2]
OWN = {
    "etcd": "holdfast.clusters.systems.etcd.client:client",
    "zookeeper": "holdfast.clusters.systems.zookeeper.client:client",
    "postgres-advisory": "holdfast.clusters.systems.postgres.advisory.client:client",
}
SYSTEMS = {
    "etcd": "holdfast.clusters.systems.etcd.system:SYSTEM",
    "zookeeper": "holdfast.clusters.systems.zookeeper.system:SYSTEM",
    "postgres-advisory": "holdfast.clusters.systems.postgres.advisory.system:SYSTEM",
}
TRIALS = [(service, "") for service in OWN] + [
    (row.system, name) for name, row in LIBRARIES.items() if row.system in OWN
]
POOLED = "the library's own word: its pool keeps the session, and the lock; a finding"
KNOWN = {
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
    if service == "postgres-advisory":
        needs.unless(deploy.missing())
        config = json.dumps({"data": str(folder), "address": address})
        return (*deploy.UNPRIVILEGED[:-1], sys.executable, "-m", deploy.MODULE, "--config", config)
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
    """What the trial of an adapter prints."""
    made: Any = load(entry(service, {"library": name})) if name else None
    pins = made.libraries if made else load(_system(service, "")).libraries
    packages = [str(needs.libraries(pins, made.built if made else ()))] if pins else []
    client = made.client if made else OWN[service]
    base = f"127.{1 + os.getpid() % 250}"
    near, far = f"{base}.7.9", f"{base}.8.9"
    with serving(folder, service, far):
        argv = [sys.executable, "-S", "-P", "-m", "tests.clusters.holder_trial", service, client]
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT), *packages])
        done = subprocess.run(
            [*argv, f"{near}={far}"],
            env={"PYTHONPATH": path}, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.real_server
@pytest.mark.parametrize(("service", "name"), TRIALS)
def test_what_an_adapter_says_of_its_holds_is_true(tmp_path: Path, service: str, name: str) -> None:
    rows = rows_of(tmp_path, service, name)
    calls = {(row["call"], row["state"]) for row in rows}
    met = set(SERVICES[service].states) - {"released"}
    assert {(call, state) for call in ("renew", "release") for state in met} <= calls
    assert {"OK", "FAIL", "INFO"} <= {row["outcome"] for row in rows}
    unclear = [row for row in rows if row["state"] == "ours" and row["outcome"] == "INFO"]
    assert unclear == [], "nothing is lost here"
    promises = load(_system(service, name)).promises({})
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
        and (name or service, row["call"], row["state"]) not in KNOWN
    ]
    assert lies == []


def _system(service: str, name: str) -> str:
    if name:
        return entry(service, {"library": name})
    return SYSTEMS[service]
