"""The one server of a trial of `holder_trial.py`, started at an address of the trial's own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.catalogue import SYSTEMS
from holdfast.clusters.programs import npm
from holdfast.clusters.systems.postgres import deploy
from holdfast.clusters.systems.zookeeper.system import JARS, JVM, MAIN
from holdfast.harness.core.loading import load
from holdfast.harness.core.ports import FromPackages, Node, Place
from tests import needs
from tests.clusters.holder_trial import SERVICES, Etcd, ZooKeeper

ROOT = Path(__file__).resolve().parents[2]
SHARED = str(ROOT / "src")
READY_S = 60
Words = tuple[Sequence[str], Mapping[str, str]]
"""A command and its environment."""


@contextmanager
def serving(folder: Path, service: str, address: str, options: Mapping[str, str]) -> Iterator[None]:
    """One server at an address, ready."""
    argv, env = _words(folder, service, address, options)
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, env=env, start_new_session=True)
    probe: Any = SERVICES[service]
    try:
        deadline = time.monotonic() + READY_S
        while True:
            last = (folder / "server.log").read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline and process.poll() is None, f"no server: {last}"
            try:
                probe(address, options).contenders("any")
                break
            except (OSError, ValueError):
                time.sleep(0.05)
        yield
    finally:
        # A server may have children, which end with it.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def packages_of_server(service: str) -> list[str]:
    """Folders of the packages that the server itself consists of."""
    made: Any = load(SYSTEMS[service].entry)
    pins = made.server_pins({}) if isinstance(made, FromPackages) else ()
    pins = [pin.removeprefix(npm.PREFIX) for pin in pins if pin.startswith(npm.PREFIX)]
    if not pins:
        return []
    needs.unless(npm.missing())
    return [str(npm.fetch(pins, lambda line: None))]


def _words(folder: Path, service: str, address: str, options: Mapping[str, str]) -> Words:
    argv = _own_words(folder, service, address)
    return (argv, os.environ) if argv else _deployed(folder, service, address, options)


def _own_words(folder: Path, service: str, address: str) -> Sequence[str]:
    """The command of a server that needs other settings than a run gives it; () for others."""
    if service == "etcd":
        here, peers = (f"http://{address}:{port}" for port in (Etcd.port, 2380))
        return (
            needs.binary("etcd"), "--enable-v2=true", "--data-dir", str(folder / "etcd"),
            "--listen-client-urls", here, "--advertise-client-urls", here,
            "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
            "--initial-cluster", f"default={peers}",
        )  # fmt: skip
    if service.startswith("postgres") or service == "cockroachdb":
        needs.unless(deploy.missing())
        config = ("--config", json.dumps({"data": str(folder), "address": address}))
        return (*deploy.UNPRIVILEGED[:-1], sys.executable, "-m", deploy.MODULE, *config)
    if service.startswith("mariadb"):
        needs.unless(load(SYSTEMS[service].entry).precheck())
        config = ("--config", json.dumps({"data": str(folder), "address": address}))
        return (sys.executable, "-m", "holdfast.clusters.systems.mariadb.server", *config)
    if service in ("redis", "redlock"):
        return (needs.binary("redis-server"), "--bind", address, "--save", "", "--dir", str(folder))
    if service == "memcached":
        user = ("-u", "root") if not os.getuid() else ()
        return (needs.binary("memcached"), "-l", address, "-U", "0", *user)
    return _zookeeper(folder, address) if service == "zookeeper" else ()


def _zookeeper(folder: Path, address: str) -> Sequence[str]:
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


def _deployed(folder: Path, service: str, address: str, options: Mapping[str, str]) -> Words:
    """As a run starts it, on one node."""
    made: Any = load(SYSTEMS[service].entry)
    needs.unless(made.precheck() if hasattr(made, "precheck") else None)
    own = [str(needs.libraries(made.libraries))] if made.libraries else []
    packages = [*own, *packages_of_server(service)]
    shared = [Path(SHARED), *map(Path, packages)]
    node = Node(name="n1", role="server", address=address, python=sys.executable)
    place = Place(run_id="trial", run_dir=folder, shared=shared, label="trial")
    command = made.command(node, [node], place, options)
    path = os.pathsep.join(map(str, shared))
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": path, **command.env}
    outer = () if not command.nobody or os.getuid() else deploy.UNPRIVILEGED[:-1]
    return (*outer, *command.argv), env
