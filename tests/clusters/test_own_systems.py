"""Our own systems as the driver meets them: options, promises, what travels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems.majority.system import SYSTEM as MAJORITY
from holdfast.clusters.systems.reference.system import SYSTEM as REFERENCE
from holdfast.clusters.systems.single.system import SYSTEM as SINGLE
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.ports import Node, Place, System
from holdfast.harness.properties import PROPERTIES
from tests.clusters.live import SOURCES

SYSTEMS = pytest.mark.parametrize(
    "system", [REFERENCE, SINGLE, MAJORITY], ids=["reference", "single", "majority"]
)
ROOT = SOURCES.parent


@SYSTEMS
def test_only_known_properties_are_promised(system: System) -> None:
    assert set(system.promises({}).keeps) <= set(PROPERTIES)


@SYSTEMS
def test_an_unknown_option_is_refused(system: System) -> None:
    with pytest.raises(UsageError, match="unknown option 'colour'"):
        system.promises({"colour": "red"})


@pytest.mark.parametrize(
    ("system", "options", "message"),
    [
        (REFERENCE, {"quueue": "fifo"}, "did you mean 'queue'"),
        (REFERENCE, {"queue": "lifo"}, "fifo, racing or priority"),
        (REFERENCE, {"election_ms": "soon"}, "a whole number, 50 to 10000"),
        (MAJORITY, {"quorum": "0"}, "a whole number, 1 to"),
    ],
)
def test_a_bad_option_is_explained(system: System, options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        system.promises(options)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        REFERENCE.promises({"quueue": "fifo", "queue": "lifo", "election_ms": "0"})
    assert len(caught.value.problems) == 3


def test_a_quorum_beyond_the_servers_is_refused_when_they_are_known(tmp_path: Path) -> None:
    node = Node(name="n1", role="server", address="127.0.0.1")
    place = Place(run_id="r", run_dir=tmp_path, shared=(SOURCES,), label="r")
    with pytest.raises(UsageError, match="1 to 1"):
        MAJORITY.command(node, [node], place, {"quorum": "2"})


def test_the_single_server_promises_less_once_it_can_be_killed() -> None:
    promises = with_kinds(SINGLE.promises({}))
    assert promises.promised("mutual-exclusion", ["partition", "pause"])
    assert not promises.promised("mutual-exclusion", ["partition", "kill"])
    assert with_kinds(MAJORITY.promises({})).promised("mutual-exclusion", ["kill"])


def test_servers_and_clients_load_without_site_packages() -> None:
    modules = [
        f"holdfast.clusters.systems.{system}.{part}"
        for system, part in (
            ("reference", "service.server"),
            ("reference", "factory"),
            ("single", "server"),
            ("single", "client"),
            ("majority", "factory"),
        )
    ]
    loading = f"import {', '.join(modules)}"
    found = subprocess.run(
        [sys.executable, "-S", "-c", loading],
        env={"PYTHONPATH": str(SOURCES)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr


def test_the_service_knows_nothing_of_the_harness() -> None:
    systems = ROOT / "clusters" / "systems"
    allowed = {"client.py", "factory.py", "system.py"}
    clients = (systems / "reference" / "client", systems / "majority" / "mutants.py")
    files = [
        path
        for name in ("reference", "single", "majority")
        for path in (systems / name).rglob("*.py")
        if path.name not in allowed and path.parent not in clients and path not in clients
        if "specification" not in path.relative_to(systems).as_posix()
    ]
    assert len(files) > 20
    for path in files:
        assert "holdfast.harness" not in path.read_text(), path


def test_the_core_of_the_service_knows_no_clock_chance_or_loop() -> None:
    banned = ("import time", "import asyncio", "import os", "import socket", "datetime", "uuid")
    service = ROOT / "clusters" / "systems" / "reference"
    core = [*(service / "locks").glob("*.py"), *(service / "consensus").glob("*.py")]
    core += [service / "service" / "node.py", service / "service" / "timers.py"]
    core.remove(service / "consensus" / "storage.py")
    assert len(core) > 14
    for path in core:
        assert not [word for word in banned if word in path.read_text()], path
