"""A system of the user's own is one system in every comparison: by its name and description."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from holdfast.campaigns.result_collection import gather
from holdfast.catalogue import user_system
from tests import needs
from tests.front.author import Repository
from tests.front.said import holdfast

Capture = pytest.CaptureFixture[str]
CLIENT = """import json, sys
for line in sys.stdin:
    ask = json.loads(line)
    print(json.dumps({"id": ask["id"], "outcome": "fail"}), flush=True)
"""
"""Refuses whatever is asked for."""
TABLE = '[system]\nname = "refuser"\nclient = "{python} client.py"\nfiles = ["client.py"]\n'
CAMPAIGN = """
systems = ["./none.toml"]
backend = "local"
clients = 1
time = "1s"
lease = "200ms"
seeds = 2
"""


def written(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "client.py").write_text(CLIENT)
    (folder / "none.toml").write_text(TABLE)
    return folder


def test_an_identity_is_the_name_and_the_description_and_not_the_folder(tmp_path: Path) -> None:
    one, other = written(tmp_path / "a"), written(tmp_path / "b")
    first = user_system.identity(f"{one}/none.toml")
    assert first.startswith("refuser@") and first == user_system.identity(f"{other}/none.toml")
    # A plan beside the table and another order of its keys describe the same system.
    (other / "none.toml").write_text('time = "3s"\n' + "\n".join(sorted(TABLE.split("\n"))))
    assert user_system.identity(f"{other}/none.toml") == first
    (other / "none.toml").write_text(TABLE + "proves = false\n")
    assert user_system.identity(f"{other}/none.toml") != first
    (one / "mine.py").write_text("class Mine: ...\n")
    mine = user_system.identity(f"{one}/mine.py:Mine")
    (one / "mine.py").write_text("class Mine: pass\n")
    assert mine.startswith("mine.py:Mine@") and user_system.identity(f"{one}/mine.py:Mine") != mine
    assert user_system.identity("redis") == "redis"


@pytest.mark.slow
def test_runs_of_a_described_lock_are_one_system_for_campaign_and_gate(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs.namespaces()
    monkeypatch.chdir(written(tmp_path / "there"))
    Path("own.toml").write_text(CAMPAIGN)
    said = holdfast(capsys, "campaign", "own.toml", "-j", 1, "--json")
    cells = json.loads(said.out)["cells"]
    name = user_system.identity("none.toml")
    assert [(cell["cell"].partition(" / ")[0], cell["runs"]) for cell in cells] == [
        (f"{name} unfenced", 2)
    ]
    folder = ".holdfast/campaigns/own"
    assert holdfast(capsys, "gate", folder, "--update-baseline").code == 3
    same = holdfast(capsys, "gate", folder)
    assert "changed-description" not in same.out and "lost-exercise" not in same.out
    Path("none.toml").write_text(TABLE + "proves = false\n")
    words = ("--clients", "1", "--time", "1s", "--lease", "200ms", "--seed", "1")
    holdfast(capsys, "run", "--system", "./none.toml", *words)
    run = Path(".holdfast/runs/latest").resolve()
    assert run.parent == Path(".holdfast/runs").resolve() and "-refuser-1" in run.name
    changed = holdfast(capsys, "gate", run)
    assert changed.code == 3 and changed.out.count("changed-description") == 1, changed.out
    assert name in changed.out and gather([run])[0].system in changed.out
    assert "--update-baseline" in changed.out


@pytest.mark.slow
def test_the_marker_takes_a_described_lock_from_beside_the_test(tmp_path: Path) -> None:
    needs.namespaces()
    repository = Repository(tmp_path)
    for name, text in (("client.py", CLIENT), ("none.toml", TABLE)):
        repository.write(f"tests/{name}", text)
    repository.write(
        "tests/test_lock.py",
        "import pytest\n\n"
        '@pytest.mark.holdfast("none.toml", backend="local", runs=1, time="1s", clients=1)\n'
        "def test_it(lock_campaign):\n    lock_campaign.check()\n",
    )
    ran = repository.run("pytest -p no:cacheprovider tests")
    assert "refuser@" in ran.said and "Error" not in ran.said, ran.said
    assert re.search(r"gate INCONCLUSIVE: \d+ problems? in 1 run", ran.said)
