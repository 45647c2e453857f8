"""Doctor says everything it can find out, whatever else is missing or broken."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import pytest

from holdfast import catalogue
from holdfast.clusters.backends import abilities
from holdfast.clusters.backends.docker import backend as docker
from holdfast.clusters.backends.docker import engine
from holdfast.clusters.backends.docker.image import build
from holdfast.clusters.backends.local import backend as local
from holdfast.clusters.libraries import environments
from holdfast.clusters.systems import cockroachdb
from holdfast.nemesis.agent import nft
from holdfast.nemesis.agent.request_errors import Refused
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
NO_NFT = "missing command nft; install nftables"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: Patch) -> None:
    """A user without runs, so that nothing depends on what others left on this machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("package", "backend"), [("paramiko", "backend ssh"), ("docker", "backend docker")]
)
def test_one_broken_package_hides_nothing_but_what_needs_it(
    capsys: Capture, tmp_path: Path, monkeypatch: Patch, package: str, backend: str
) -> None:
    (tmp_path / f"{package}.py").write_text("raise OSError('cannot open shared object')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    said = holdfast(capsys, "doctor", "--json")
    assert said.code == 0, said.err
    told = json.loads(said.out)
    rows = {row["what"]: row["missing"] for row in told["checks"]}
    assert "cannot open shared object" in rows[backend]
    assert {f"backend {name}" for name in catalogue.BACKENDS} <= set(rows)
    assert {f"system {name}" for name in catalogue.SYSTEMS} <= set(rows)
    assert rows["backend sim"] is None and told["unseen"] is None


def test_a_look_that_fails_is_the_reason_of_its_own_row(
    capsys: Capture, monkeypatch: Patch
) -> None:
    def look() -> str | None:
        raise OSError("no such device")

    monkeypatch.setattr(local, "precheck", look)
    said = holdfast(capsys, "doctor", "--json")
    rows = {row["what"]: row["missing"] for row in json.loads(said.out)["checks"]}
    assert rows["backend local"] == "check failed: OSError: no such device"
    assert rows["backend sim"] is None


def test_its_columns_stand_apart(capsys: Capture) -> None:
    lines = holdfast(capsys, "doctor").out.splitlines()
    names = [row["what"] for row in json.loads(holdfast(capsys, "doctor", "--json").out)["checks"]]
    for name in names:
        # A name that leaves its row no room stands alone, above what is said of it.
        shown = [line for line in lines if f"{line[7:]}  ".startswith(f"{name}  ")]
        assert shown and all(line[2:5].strip() in ("yes", "no") for line in shown), name


def test_local_gives_way_to_proxies_where_no_packet_can_be_dropped_and_says_why(
    capsys: Capture, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(local, "TOOLS", {})
    monkeypatch.setattr(local, "_links", lambda: None)
    monkeypatch.setattr(abilities, "cut", lambda prefix: NO_NFT)
    words = f"holdfast: local cannot drop packets here: {NO_NFT}; using --backend local-proxy"
    for _ in range(2):  # each command of a process says it
        said = holdfast(capsys, "run", "--dry-run", "--backend", "local", "--seed", "7")
        assert said.code == 0
        assert 'backend = "local-proxy"' in said.out
        assert len([line for line in said.err.splitlines() if line.startswith(words)]) == 1


def test_without_nftables_the_agent_says_what_to_install(monkeypatch: Patch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(nft, "SBIN", "")
    with pytest.raises(Refused, match="install nftables"):
        nft.output_of(["nft", "-f", "-"], "list tables", of="nftables")


def test_a_probe_of_the_agent_says_what_this_machine_says() -> None:
    told = abilities.of_agent()
    assert told["pause"] is True and told["kill"] is True
    assert abilities.cut() == (None if told["cut"] is True else told["cut"])


def test_an_agent_that_cannot_be_started_as_wanted_can_do_nothing_and_says_why() -> None:
    """For every ability that anything asks for, among them the disks of servers."""
    prefix = ("sh", "-c", "echo unshare: cannot do this >&2; exit 1", "sh")
    reason = "no response from the fault agent: unshare: cannot do this"
    assert abilities.disk(prefix) == abilities.cut(prefix) == reason
    assert set(abilities.of_agent(prefix)) >= set(abilities.of_agent()) - {"pid", "proxy"}


class FakeEngine:
    """An engine with these images."""

    def __init__(self, *images: str) -> None:
        self._images = images

    def images(self, name: str) -> list[str]:
        return [image for image in self._images if image == name]


@pytest.mark.parametrize(
    ("images", "uncut", "said"),
    [
        ((), None, "missing image holdfast-node:1; run `make docker-image`"),
        (("holdfast-node:1",), NO_NFT, f"packets cannot be dropped here: {NO_NFT}"),
        (("holdfast-node:1",), None, None),
    ],
    ids=["no image", "no nftables", "all there"],
)
def test_docker_is_asked_for_all_that_a_run_uses(
    monkeypatch: Patch, images: tuple[str, ...], uncut: str | None, said: str | None
) -> None:
    monkeypatch.setattr(engine, "precheck", lambda: None)
    monkeypatch.setattr(engine, "connect", lambda timeout_s: FakeEngine(*images))
    monkeypatch.setattr(build, "tag", lambda: "holdfast-node:1")
    monkeypatch.setattr(abilities, "cut", lambda: uncut)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    reason = docker.precheck()
    assert (said in reason) if said and reason else reason == said


def test_a_system_whose_servers_are_not_there_says_what_is_missing(
    capsys: Capture, monkeypatch: Patch
) -> None:
    """CockroachDB is deployed by the user, the emulator of DynamoDB is a library."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setattr(cockroachdb, "DEFAULTS", {**cockroachdb.DEFAULTS, "at": at(listening)})
        assert missing(capsys)["system cockroachdb"] in (
            None,
            missing(capsys)["library psycopg==3.3.9"],
        )
        free = at(listening)
    monkeypatch.setattr(cockroachdb, "DEFAULTS", {**cockroachdb.DEFAULTS, "at": free})
    monkeypatch.setattr(environments, "problem", unfetched)
    told = missing(capsys)
    assert told["system dynamodb"] == "not fetched"
    monkeypatch.setattr(environments, "problem", fetched)
    told = missing(capsys)
    assert told["system dynamodb"] is None
    assert "--set at=HOST:PORT" in (told["system cockroachdb"] or "")


def at(listening: socket.socket) -> str:
    return f"127.0.0.1:{listening.getsockname()[1]}"


def unfetched(pins: object) -> str | None:
    return "not fetched"


def fetched(pins: object) -> str | None:
    return None


def missing(capsys: Capture) -> dict[str, str | None]:
    told = json.loads(holdfast(capsys, "doctor", "--json").out)
    return {row["what"]: row["missing"] for row in told["checks"]}
