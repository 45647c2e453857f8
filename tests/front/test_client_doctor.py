"""`holdfast doctor --client`: each way of breaking the line protocol is named with its line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.conformance import client_conformance
from tests import needs
from tests.front.said import Said, holdfast

SOURCES = Path(client_conformance.__file__).parents[1]
Capture = pytest.CaptureFixture[str]
GOOD = """import json, sys
held = {}
def say(said):
    sys.stdout.write(json.dumps(said) + "\\n")
    sys.stdout.flush()
for line in sys.stdin:
    ask = json.loads(line)
    lock, who, op = ask["lock"], ask["attempt"], ask["op"]
    if op in ("acquire", "try"):
        outcome = "ok" if held.setdefault(lock, who) == who else "fail"
    else:
        outcome = "ok" if held.get(lock) == who else "not_owner"
        if op == "release" and outcome == "ok":
            del held[lock]
    say({"id": ask["id"], "outcome": outcome})
"""
SENDS = GOOD.replace(
    "    lock, who, op",
    """    if ask["op"] == "send":
        import socket
        said = {"id": ask["id"], "outcome": "fail"}
        try:
            with socket.create_connection((ask["address"], ask["port"]), 2) as plug:
                plug.sendall(ask["line"].encode() + b"\\n")
                said = {"id": ask["id"], "outcome": "ok", "answer": plug.makefile().readline()[:-1]}
        except OSError:
            pass
        say(said)
        continue
    lock, who, op""",
)
SAY = 'say({"id": ask["id"], "outcome": outcome})'


def doctor(capsys: Capture, folder: Path, text: str, *more: str) -> Said:
    path = folder / "client.py"
    path.write_text(text)
    return holdfast(capsys, "doctor", "--client", f"{{python}} {path}", *more)


def test_a_client_that_speaks_the_protocol_is_told_so(capsys: Capture, tmp_path: Path) -> None:
    said = doctor(capsys, tmp_path, GOOD)
    assert said.code == 0 and "conforms to the line protocol" in said.out, said.out


def test_a_client_that_sends_to_the_resource_itself_is_tested(
    capsys: Capture, tmp_path: Path
) -> None:
    said = doctor(capsys, tmp_path, SENDS, "--sends")
    assert said.code == 0 and "conforms to the line protocol" in said.out, said.out
    assert "--sends needs --client" in holdfast(capsys, "doctor", "--sends").err


def faults_of_sending(*argv: str) -> list[str]:
    trial = client_conformance.Trial(argv, {})
    try:
        return [*client_conformance._sending(trial), *trial.faults]
    finally:
        trial.kill()


def test_the_client_in_c_that_is_shipped_sends(tmp_path: Path) -> None:
    needs.binary("gcc")
    source, program = SOURCES / "starters" / "program" / "client.c", tmp_path / "client"
    subprocess.run(["gcc", "-O2", "-o", program, source], check=True)
    assert faults_of_sending(str(program), "127.0.0.1", "7400") == []


def test_the_clients_for_node_that_are_shipped_send(tmp_path: Path) -> None:
    node = needs.binary("node")
    shared = SOURCES / "clusters" / "programs" / "node" / "protocol.mjs"
    (tmp_path / "protocol.mjs").write_text(shared.read_text())
    program = tmp_path / "program.mjs"
    program.write_text('import { serve } from "./protocol.mjs";\nserve(() => ({}));\n')
    assert faults_of_sending(node, str(program), str(tmp_path), "none", "127.0.0.1", "1000") == []


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        (' + b"\\n")', ".upper() + b'\\n')", "expected the text of `line` and a line feed"),
        ('"answer": ', '"error": ', "the line that the resource answered as the string `answer`"),
        ('"answer": plug', '"answer": 7 or plug', "an answer of the resource that is not"),
        ('"outcome": "fail"', '"outcome": "ok"', "send to a closed port returned 'ok'"),
    ],
)
def test_each_mistake_of_a_client_that_sends_is_named(
    capsys: Capture, tmp_path: Path, before: str, after: str, part: str
) -> None:
    assert before in SENDS
    said = doctor(capsys, tmp_path, SENDS.replace(before, after, 1), "--sends")
    # Lines are wrapped where the terminal ends.
    assert said.code == 2 and part in " ".join(said.out.split()), said.out


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        ("held = {}", "held = {}; print('ready', flush=True)", "not JSON"),
        ('"id": ask["id"]', '"id": 900 + ask["id"]', "response with an unknown id"),
        (', "outcome": outcome', "", "outcome is not one of ok"),
        (SAY, f"{SAY}; {SAY}", "two responses to id 1"),
        ("for line in sys.stdin", "for line in sys.stdin.readlines()", "no response to"),
        (SAY, "sys.exit('no server')", "its last output: no server"),
        ("del held[lock]", "pass", "the release had no effect"),
        ('if held.get(lock) == who else "not_owner"', "", "freed the lock of attempt 1"),
        ('if held.setdefault(lock, who) == who else "fail"', "", "while attempt 1 holds"),
        (
            "import json, sys",
            "import json, sys, atexit, time; ATEXIT",
            "after the end of standard input",
        ),
    ],
)
def test_each_way_to_break_it_is_named(
    capsys: Capture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    after: str,
    part: str,
) -> None:
    monkeypatch.setattr("holdfast.conformance.client_conformance.ANSWER_S", 0.5)
    monkeypatch.setattr("holdfast.conformance.client_conformance.END_S", 0.5)
    after = after.replace("ATEXIT", "atexit.register(time.sleep, 9)")
    assert before in GOOD
    said = doctor(capsys, tmp_path, GOOD.replace(before, after), "--json")
    assert said.code == 2 and part in said.out, said.out


@pytest.mark.parametrize(
    ("freed", "declared", "wrong"),
    [
        ("held.get(lock) == who", "", "expected not_owner (if every release returns ok, declare"),
        ("held.get(lock) == who", "proves = false", ""),
        ("lock in held", "proves = false", "returned ok and freed the lock of attempt 1"),
    ],
)
def test_a_release_that_always_returns_ok_is_a_fault_unless_it_is_declared_and_frees_nothing(
    capsys: Capture, tmp_path: Path, freed: str, declared: str, wrong: str
) -> None:
    always = GOOD.replace(
        'if op == "release" and outcome == "ok":',
        f'outcome = "ok" if op == "release" else outcome\n        if op == "release" and {freed}:',
    )
    (tmp_path / "client.py").write_text(always)
    table = tmp_path / "lock.toml"
    table.write_text(f'[system]\nclient = "{{python}} client.py"\n{declared}\n')
    said = holdfast(capsys, "doctor", "--system", str(table))
    assert said.code == (2 if wrong else 0), said.out
    assert wrong in " ".join(said.out.split())


def test_a_program_that_is_not_there_is_told(capsys: Capture) -> None:
    said = holdfast(capsys, "doctor", "--client", "./gone")
    assert said.code == 2 and "no executable program './gone'" in said.out
    said = holdfast(capsys, "doctor", "--client", "./gone {nod}")
    assert said.code == 2 and "{nod}" in said.err


def test_a_client_imports_from_the_environment_of_its_project(
    capsys: Capture, tmp_path: Path
) -> None:
    own = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = tmp_path / ".venv" / "lib" / own / "site-packages"
    packages.mkdir(parents=True)
    (packages / "of_the_project.py").write_text("")
    (tmp_path / ".venv" / "pyvenv.cfg").write_text(f"version = {own.removeprefix('python')}.1\n")
    (tmp_path / "client.py").write_text(f"import of_the_project\n{GOOD}")
    table = '[system]\nclient = "{python} client.py"\n'
    (tmp_path / "lock.toml").write_text(table)
    assert holdfast(capsys, "doctor", "--system", str(tmp_path / "lock.toml")).code == 2
    (tmp_path / "lock.toml").write_text(f'{table}environment = ".venv"\n')
    said = holdfast(capsys, "doctor", "--system", str(tmp_path / "lock.toml"))
    assert said.code == 0, said.out
