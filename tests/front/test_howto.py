"""Every command of the how-to pages is carried out, in order, with the files they show."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests import needs
from tests.front.said import holdfast

pytestmark = pytest.mark.slow

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "howto").glob("*.md"))
ELSEWHERE = ("ssh-hosts",)
"""Pages whose commands need machines of the reader's: `tests/clusters/test_ssh.py` has some."""
LONG = ("own-lock", "hunt", "package")
Capture = pytest.CaptureFixture[str]


def steps(page: Path) -> list[tuple[str, str]]:
    """The blocks of a page: ("toml" or "python", text with its name first), ("console", text).

    JSON has no comments, so the page names its file before it: ("json", name on a line, then text).
    """
    blocks = r"(?:In `([\w.-]+)`:\n\n)?```(toml|python|console|json)\n(.*?)```"
    found = re.findall(blocks, page.read_text(), re.S)
    return [(kind, f"{name}\n{text}" if kind == "json" else text) for name, kind, text in found]


def served(words: list[str]) -> int:
    """Start a server as the page says, ask it for its list, end it with ^C; its exit code."""
    argv = [sys.executable, "-m", "holdfast", *words]
    with subprocess.Popen(
        argv,
        stdout=subprocess.PIPE,
        text=True,
        # A shell that starts the tests in the background makes them ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as server:
        try:
            assert server.stdout is not None
            place = re.search(r"http://\S+", server.stdout.readline())
            assert place is not None
            with urllib.request.urlopen(place[0], timeout=20) as answer:
                assert b"2 runs" in answer.read()
            server.send_signal(signal.SIGINT)
            return server.wait(timeout=20)
        finally:
            server.kill()


@pytest.mark.parametrize(
    "page",
    [
        # The commands of own-lock are also those of `test_pytest_plugin` and of the tutorial.
        pytest.param(page, marks=[pytest.mark.power] if page.stem in LONG else [])
        for page in PAGES
        if page.stem not in ELSEWHERE
    ],
    ids=lambda page: page.stem,
)
def test_the_commands_of_a_page_do_what_it_says(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: Path
) -> None:
    if page.stem == "system-calls":
        needs.tracing()
    if page.stem == "links":
        needs.namespaces()
    if page.stem in ("hunt", "package", "server-records"):
        needs.namespaces()
        needs.binary("redis-server")
    if page.stem == "power-loss":
        needs.disks()
        needs.binary("redis-server")
    monkeypatch.chdir(tmp_path)
    for kind, text in steps(page):
        if kind != "console":
            name = text.splitlines()[0].removeprefix("# ")
            assert re.fullmatch(r"[\w.-]+", name), f"{page.name}: a file begins with its name"
            (tmp_path / name).write_text(text)
            continue
        for line in text.splitlines():
            command, _, comment = line.removeprefix("$ ").partition("  #")
            words = shlex.split(command)
            if words[0] != "holdfast":
                continue
            if words[1] == "serve":
                assert served(words[1:]) == 130
                continue
            said = holdfast(capsys, *words[1:])
            wanted = re.search(r"exit code (\d+)(?: or (\d+))?", comment)
            codes = [int(code) for code in wanted.groups() if code] if wanted else [0]
            assert said.code in codes, f"{command}\n{said.out}{said.err}"
