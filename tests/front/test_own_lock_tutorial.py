"""The tutorial for a lock in any language is carried out word by word, from an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import needs
from tests.front.author import ROOT, Repository

pytestmark = pytest.mark.slow

LISTENS = """import socket, time
for _ in range(600):
    try:
        socket.create_connection(('127.0.0.1', 7400)).close(); break
    except OSError:
        time.sleep(0.05)"""


def blocks_of(part: int) -> tuple[list[str], list[str]]:
    """The commands before (0) or below (1) the heading about images, and what they print."""
    page = (ROOT / "docs" / "tutorial" / "own-lock.md").read_text()
    text = page.split("\n## In an image of its own\n")[part]
    blocks = "".join(re.findall(r"```console\n(.*?)```", text, re.S)).splitlines()
    lines = [line.removeprefix("$ ") for line in blocks if line.startswith("$ ")]
    return lines, [line for line in blocks if not line.startswith("$ ")]


def kept(text: str, system: str) -> bool:
    """Whether a run kept all promises. An owner that wakes up late may write before a newer one
    does, which no token stops and nobody promised: that alone may stand beside it."""
    flat = " ".join(text.split())
    if f"HOLDS: {system} kept the" in flat:
        return True
    limits = re.findall(r"to fail: --require ([a-z,-]+)", flat)
    # Where there are many lines, the first is short.
    ends = (f". {system} kept its promises", ": never promised.")
    late = any(f"LIMIT: a late write was accepted{end}" in flat for end in ends)
    return late and limits == ["no-expired-write"]


@pytest.mark.docker
def test_a_server_in_an_image_of_its_own_holds_under_pauses_and_clock_steps(
    tmp_path: Path,
) -> None:
    needs.engine()
    needs.binary("gcc")
    lines, said = blocks_of(1)
    assert len(lines) == 5 and not said
    author = Repository(tmp_path)
    try:
        ran = author.run("\n".join(lines))
    finally:
        author.run("docker rmi my-lock:1")
    assert ran.code == 0, ran.said
    assert kept(ran.said, "image.toml"), ran.said
    flat = " ".join(ran.said.split())
    effective = " ".join(re.findall(r"grants, [^;.]*faults?[^;.]*", flat))
    assert all(kind in effective for kind in ("pause", "clock")), ran.said


def test_every_command_of_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    needs.namespaces()
    needs.binary("gcc")
    needs.binary("node")
    lines, said = blocks_of(0)
    assert len(lines) == 6 and len(said) == 1
    # A reader takes longer to type the next command than a server to start.
    waiting = f'python3 -c "{LISTENS}"'
    script = [part for line in lines for part in ([line, waiting] if "&" in line[-1:] else [line])]
    author = Repository(tmp_path)
    ran = author.run("\n".join(script))
    assert ran.code == 0, ran.said
    assert said[0] in ran.said
    assert kept(ran.said, "mylock.toml"), ran.said
    # The second way where the first makes the text too long.
    tried = r"2 effective faults \(pause\)|2 pause faults"
    assert re.search(tried, " ".join(ran.said.split())), ran.said
