"""Every command of the tutorials and explanations is carried out, with the files that they show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from holdfast import docgen
from tests.front.said import holdfast
from tests.front.test_howto import steps

DOCS = Path(__file__).resolve().parents[2] / "docs"
ELSEWHERE = {"frozen-holder", "own-lock"}
PAGES = [
    page
    for folder in ("tutorial", "explanation")
    for page in sorted((DOCS / folder).glob("*.md"))
    if page.stem not in ELSEWHERE
]
Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_end_as_it_says(
    capsys: Capture, tmp_path: Path, monkeypatch: Patch, page: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, text in steps(page):
        if kind != "console":
            head, _, rest = text.partition("\n")
            whole = rest if kind == "json" else text
            name = head.removeprefix("# ")
            assert "/" not in name, "a reader has no sources to write into"
            (tmp_path / name).write_text(whole)
            continue
        for line in text.splitlines():
            command, _, comment = line.removeprefix("$ ").partition("  #")
            wanted = re.search(r"exit code (\d+)", comment)
            said = holdfast(capsys, *shlex.split(command)[1:])
            assert said.code == (int(wanted[1]) if wanted else 0), (
                f"{command}\n{said.out}{said.err}"
            )


def test_every_page_is_reached_from_the_index_and_every_link_leads_somewhere() -> None:
    index = (DOCS / "README.md").read_text()
    pages = [page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md"))]
    unlinked = [name for name in pages if f"]({name})" not in index and name != "README.md"]
    assert [name for name in unlinked if not name.startswith("decisions/")] == []
    for page in [DOCS / name for name in pages]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize("name", list(docgen.PAGES))
def test_the_reference_is_up_to_date(name: str) -> None:
    written = (DOCS / "reference" / f"{name}.md").read_text()
    assert written == docgen.PAGES[name](), "make reference writes it anew"
