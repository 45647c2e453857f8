"""Locks in any language: the line protocol, the `[system]` table, and what is wrong with either."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.catalogue import user_system
from holdfast.catalogue.design_sheet import with_kinds
from holdfast.clusters.systems.program import protocol
from holdfast.clusters.systems.program.client import ProgramClient
from holdfast.clusters.systems.program.system import ProgramSystem
from holdfast.harness.core.clock import SECOND
from holdfast.harness.core.errors import UsageError
from holdfast.harness.core.loading import load
from holdfast.harness.core.operations import Answer, Grant, Mode, Status
from holdfast.harness.core.ports import Image, Mount, Node, Place, System
from holdfast.harness.plans.plan import Plan
from holdfast.planning.prepare import complete
from tests.clusters.client_setup import client_setup

TABLE = """
[system]
client = "./client {servers}"
server = "./server --data {data} --peers {others} {address}"
ports = [7400]
nodes = 3
env = { ME = "{node}" }
tokens = "ordered"
[system.promises]
mutual-exclusion = ["pause"]
"""


def test_an_answer_becomes_an_outcome_and_a_token() -> None:
    said = protocol.read(b'{"id": 3, "outcome": "ok", "token": 7}\n')
    assert isinstance(said, tuple) and said[0] == 3
    answer = protocol.answer(said[1], 5)
    assert (answer.outcome, answer.token, answer.ttl_ns) == (Status.OK, 7, 5)


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("hello", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"outcome": "ok"}', "without the id"),
        ('{"id": 1}', "outcome is not one of ok, fail"),
        ('{"id": 1, "outcome": "ok", "token": "7"}', "not a whole number"),
        ('{"id": 1, "outcome": "ok", "fence": 7}', "an unknown key (fence)"),
        ('{"event": "gone", "lock": "a", "attempt": 1}', "not one of lost, waiting"),
        ('{"event": "lost", "lock": "a"}', "without its lock and attempt"),
    ],
)
def test_a_line_that_is_no_answer_is_told_with_what_would_be(line: str, part: str) -> None:
    with pytest.raises(protocol.Garbage) as wrong:
        protocol.read(line.encode())
    assert part in str(wrong.value) and line in str(wrong.value)


def described(folder: Path, text: str) -> str:
    path = folder / "lock.toml"
    path.write_text(text)
    return str(path)


def test_a_table_says_how_servers_start_and_what_is_promised(tmp_path: Path) -> None:
    (tmp_path / "server").write_text("")
    row = user_system.row(described(tmp_path, TABLE))
    assert row.nodes == 3
    system = ProgramSystem(json.loads(row.entry.partition(":")[2]))
    promises = with_kinds(system.promises({}))
    assert promises.keeps == {"mutual-exclusion": ("pause",)} and promises.tokens == "ordered"
    nodes = [Node(name=f"n{n}", role="server", address=f"10.0.0.{n}") for n in (1, 2, 3)]
    place = Place(run_id="r", run_dir=tmp_path / "run", shared=(), label="r")
    (place.run_dir / "program").mkdir(parents=True)
    (place.run_dir / "program" / "server").write_text("")
    command = system.command(nodes[1], nodes, place, {})
    assert command.argv == (
        f"{place.run_dir}/program/server",
        *("--data", f"{place.run_dir}/data/n2", "--peers", "n1=10.0.0.1,n3=10.0.0.3", "10.0.0.2"),
    )
    assert command.env["ME"] == "n2"


def test_an_image_is_given_words_and_a_folder_of_its_own_and_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "server").write_text("")
    text = TABLE.replace("[system]\n", '[system]\nimage = "my-lock:1"\ndata = "/kept"\n', 1)
    name = described(tmp_path, text.replace("./server", "server"))
    row = user_system.row(name)
    system = ProgramSystem(json.loads(row.entry.partition(":")[2]))
    assert row.nodes == 3 and system.backends == ("docker",) and system.server_words() == []
    nodes = [Node(name=f"n{n}", role="server", address=f"10.0.0.{n}") for n in (1, 2, 3)]
    place = Place(run_id="r", run_dir=tmp_path / "run", shared=(), label="r")
    (place.run_dir / "program").mkdir(parents=True)
    (place.run_dir / "program" / "server").write_text("")
    command = system.command(nodes[1], nodes, place, {})
    assert command.argv == (
        *("server", "--data", "/kept", "--peers", "n1=10.0.0.1,n3=10.0.0.3", "10.0.0.2"),
    )
    kept = Mount(source=place.run_dir / "data/n2", at="/kept", writable=True)
    assert command.image == Image(name="my-lock:1", mounts=(kept,))
    assert command.env == {"ME": "n2"} and command.image.mounts[0].source.is_dir()


def test_an_image_alone_starts_with_its_own_words_and_keeps_under_our_path(tmp_path: Path) -> None:
    system = ProgramSystem({"client": "./client", "image": "my-lock", "ports": [7400]})
    node = Node(name="n1", role="server", address="10.0.0.2")
    place = Place(run_id="r", run_dir=tmp_path, shared=(), label="r")
    command = system.command(node, [node], place, {})
    assert system.nodes == 1 and command.argv == ()
    assert command.image is not None and command.image.mounts[0].at == str(tmp_path / "data/n1")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('image = "My Lock"\nports = [1]', "image: expected the name of a docker image"),
        ('image = "a"\nports = [1]\ndata = "kept"', "data: expected a path inside the image"),
        ('image = "a"\nports = [1]\ndata = "/a/../b"', "data: expected a path inside the image"),
        ('server = "a"\nports = [1]\ndata = "/kept"', "data without image"),
        ('image = "a"', "missing ports: the ports"),
        ("nodes = 3", "nodes without a server or image"),
    ],
)
def test_what_is_wrong_about_an_image_is_told(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        user_system.row(described(tmp_path, f'[system]\nclient = "./client"\n{text}\n'))


def test_an_image_on_another_backend_is_refused(tmp_path: Path) -> None:
    (tmp_path / "client").write_text("")
    table = '[system]\nclient = "./client"\nimage = "a:1"\nports = [1]\n'
    name = described(tmp_path, table)
    for backend in ("local", "local-proxy", "ssh", "sim"):
        with pytest.raises(UsageError, match=f"use --backend docker instead of {backend}"):
            complete(Plan(system=name, backend=backend, seed=1))


def test_all_that_is_wrong_with_a_table_is_told_at_once(tmp_path: Path) -> None:
    bad = """
    [system]
    clinet = "./client"
    server = "./server {adress}"
    nodes = 0
    tokens = "some"
    ready = { sent = "x" }
    leader = { send = "who" }
    [system.promises]
    exclusion = "any"
    """
    with pytest.raises(UsageError) as caught:
        user_system.row(described(tmp_path, bad))
    told = str(caught.value)
    for part in (
        "unknown key: clinet; did you mean 'client'?",
        "server: unknown {adress}",
        "nodes: expected a number, 1 to 9",
        "tokens: expected one of none",
        "ready: unknown 'sent'",
        "leader: missing expect",
        "unknown property: exclusion; did you mean 'mutual-exclusion'?",
        "missing client: the command line",
        "missing ports",
    ):
        assert part in told
    assert len(caught.value.problems) == 9


@pytest.mark.parametrize(
    ("text", "part"),
    [("x = 1", r"missing table \[system\]"), ("[system", "not TOML")],
)
def test_a_file_without_a_table_is_told(tmp_path: Path, text: str, part: str) -> None:
    with pytest.raises(UsageError, match=part):
        user_system.row(described(tmp_path, text))


def made(name: str) -> System:
    system: System = load(user_system.row(name).entry)
    return system


def test_files_travel_under_their_paths_and_missing_ones_are_told(tmp_path: Path) -> None:
    (tmp_path / "client").write_text("x")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "part").write_text("y")
    name = described(tmp_path, '[system]\nclient = "./client {node}"\nfiles = ["lib"]\n')
    told = user_system.program_options(name, made(name), {}, tmp_path / "copy")
    assert json.loads(told["argv"]) == ["./client", "{node}"]
    assert (tmp_path / "copy" / "client").read_text() == "x"
    assert (tmp_path / "copy" / "lib" / "part").read_text() == "y"
    lost = described(tmp_path, '[system]\nclient = "./gone"\nfiles = ["away"]\n')
    assert (
        len(user_system.missing_files(lost, made(lost), {})) == 2
        and user_system.missing_files("redis", made("redis"), {}) == []
    )
    assert user_system.program_options("redis", made("redis"), {}, tmp_path / "none") == {}


def test_the_client_loads_without_site_packages() -> None:
    import subprocess

    from tests.clusters.live import SOURCES

    loading = "import holdfast.clusters.systems.program.client"
    argv = [sys.executable, "-S", "-c", loading]
    found = subprocess.run(argv, env={"PYTHONPATH": str(SOURCES)}, capture_output=True, check=False)
    assert found.returncode == 0, found.stderr


ECHO = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"id": asked["id"], "outcome": "ok"}), flush=True)
"""


def test_a_cancellation_that_meets_the_response_of_a_program_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "echo.py").write_text(ECHO)
    argv = json.dumps([sys.executable, "echo.py"])
    setup = client_setup(None, {"folder": str(tmp_path), "argv": argv})
    held = Grant(lock="db", attempt=1, token=1, ttl_ns=SECOND, granted_at_ns=0)

    async def lost(client: ProgramClient, hear: Callable[..., None]) -> bool:
        """Whether a renewal goes on whose response and cancellation come in one step."""
        task = asyncio.ensure_future(client.renew(held, ttl_ns=SECOND))

        def heard(said: tuple[int, dict[str, object]] | protocol.Event) -> None:
            hear(said)
            assert task.cancel(), "it is over already"

        client._hear = heard  # type: ignore[method-assign]
        await asyncio.wait({task}, timeout=20)
        return not task.cancelled()

    async def work() -> list[bool]:
        client = ProgramClient(setup)
        hear = client._hear
        await client.open()
        try:
            return [await lost(client, hear) for _ in range(3)]
        finally:
            await client.close()

    assert asyncio.run(work()) == [False] * 3


# Serves each request by itself, as a program on promises does; grants when there is a file `gate`
# beside it.
CONCURRENT = """
import json, os, sys, threading, time
held, out = set(), threading.Lock()
gate = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gate")
def serve(asked):
    attempt, outcome = asked["attempt"], "ok"
    if asked["op"] in ("acquire", "try"):
        while not os.path.exists(gate):
            time.sleep(0.01)
        held.add(attempt)
    elif attempt not in held:
        outcome = "not_owner"
    else:
        held.discard(attempt)
    with out:
        print(json.dumps({"id": asked["id"], "outcome": outcome}), flush=True)
for line in sys.stdin:
    threading.Thread(target=serve, args=(json.loads(line),), daemon=True).start()
"""


@pytest.mark.parametrize("granted", [True, False])
def test_an_acquire_that_was_given_up_is_answered_before_its_release_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, granted: bool
) -> None:
    """Else the program knows no lock of the attempt, and keeps what it is granted a moment later:
    with a package that renews by itself, for the rest of the run."""
    (tmp_path / "program.py").write_text(CONCURRENT)
    argv = json.dumps([sys.executable, "program.py"])
    setup = client_setup(None, {"folder": str(tmp_path), "argv": argv})
    hold = Grant(lock="db", attempt=1, token=1, ttl_ns=SECOND, granted_at_ns=0)
    if not granted:
        monkeypatch.setattr("holdfast.clusters.systems.program.client.ANSWER_NS", SECOND // 5)

    async def work() -> tuple[Answer, Answer]:
        client = ProgramClient(setup)
        await client.open()
        try:
            asking = asyncio.ensure_future(
                client.acquire("db", attempt=1, ttl_ns=SECOND, wait_ns=0, mode=Mode.EXCLUSIVE)
            )
            await asyncio.sleep(0)
            asking.cancel()
            releasing = asyncio.ensure_future(client.release(hold))
            if granted:
                # Long enough for an answer that comes too early.
                assert not (await asyncio.wait({releasing}, timeout=0.5))[0]
                (tmp_path / "gate").touch()
            return await releasing, await client.release(hold)
        finally:
            await client.close()

    first, second = asyncio.run(work())
    if granted:
        assert (first.outcome, second.outcome) == (Status.OK, Status.NOT_OWNER)
    else:
        assert first.outcome is second.outcome is Status.INFO
        assert "may be granted later" in first.error


# What a program does that catches everything: the reason is on its stderr only.
CATCHES = """
import json
import sys
import traceback

for line in sys.stdin:
    asked = json.loads(line)
    try:
        asked["lease_ms"] + "s"
    except Exception:
        print(json.dumps({"id": asked["id"], "outcome": "info"}), flush=True)
        PRINT
"""


@pytest.mark.parametrize(
    ("prints", "error"),
    [
        ("traceback.print_exc()", "TypeError: unsupported operand type"),
        ("pass", "the client program answered info without an error"),
    ],
)
def test_an_unknown_outcome_without_an_error_has_that_of_stderr(
    tmp_path: Path, prints: str, error: str
) -> None:
    (tmp_path / "catches.py").write_text(CATCHES.replace("PRINT", prints))
    argv = json.dumps([sys.executable, "catches.py"])
    setup = client_setup(None, {"folder": str(tmp_path), "argv": argv})

    async def work() -> Answer:
        client = ProgramClient(setup)
        await client.open()
        try:
            asked = {"attempt": 1, "ttl_ns": SECOND, "wait_ns": 0}
            return await client.acquire("db", **asked, mode=Mode.EXCLUSIVE)
        finally:
            await client.close()

    answer = asyncio.run(work())
    assert answer.outcome is Status.INFO and answer.error.startswith(error)
    assert ("stderr" in answer.error) is (prints != "pass")
