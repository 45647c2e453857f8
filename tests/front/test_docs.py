"""What the documents say is there is there."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

from holdfast import catalogue
from holdfast.commands import COMMANDS
from holdfast.harness.properties import KINDS, PROPERTIES

ROOT = Path(__file__).resolve().parents[2]
Capture = pytest.CaptureFixture[str]


def commands(name: str) -> list[str]:
    """Every `holdfast ...` line in a code block of a document, without its comment."""
    text = (ROOT / name).read_text()
    return [
        line.removeprefix("$ ").split("  #")[0].strip()
        for block in re.findall(r"```console\n(.*?)```", text, re.S)
        for line in block.splitlines()
        if line.startswith("$ holdfast")
    ]


def finding_kinds() -> set[str]:
    """Every kind of finding that a checker can come to, read from the sources."""
    found = set()
    for path in (ROOT / "checkers").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding"):
                continue
            for keyword in node.keywords:
                if keyword.arg == "kind" and isinstance(keyword.value, ast.Constant):
                    found.add(str(keyword.value.value))
    return found


def test_every_kind_of_finding_has_its_words_and_its_line_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference" / "checkers.md").read_text()
    kinds = finding_kinds()
    assert len(kinds) >= 8
    assert sorted(kinds - set(KINDS)) == []
    listed = {kind for one in PROPERTIES.values() for kind in one.kinds}
    assert [kind for kind in sorted(listed) if f"- `{kind}`: " not in reference] == []
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    assert [kind for kind in sorted(kinds - listed) if f"`{kind}`" not in glossary] == []


def headings(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""


@pytest.mark.parametrize("name", list(catalogue.WORKLOADS))
def test_every_workload_says_what_it_asks_and_catches(name: str) -> None:
    entry = catalogue.WORKLOADS[name].entry.removeprefix("holdfast.")
    text = headings(ROOT / (entry.replace(".", "/") + ".py"))
    assert all(word in text for word in ("Asks:", "Catches:", "Checkers:"))


@pytest.mark.parametrize("name", list(catalogue.SYSTEMS))
def test_every_system_says_what_it_promises_and_what_not(name: str) -> None:
    module = catalogue.SYSTEMS[name].entry.partition(":")[0].removeprefix("holdfast.")
    text = headings(ROOT / (module.replace(".", "/") + ".py"))
    assert all(word in text for word in ("Promises:", "Does not promise:", "Tested with:"))


@pytest.mark.parametrize("prop", list(catalogue.CHECKERS))
def test_every_checker_says_what_it_claims_and_is_blind_to(prop: str) -> None:
    module = catalogue.CHECKERS[prop].partition(":")[0].removeprefix("holdfast.")
    text = headings(ROOT / (module.replace(".", "/") + ".py"))
    assert all(word in text for word in ("Claims", "Assumes", "Blind to", "Cost"))


def test_every_place_that_the_tour_names_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    places = re.findall(r"`([a-z][a-z0-9_/.-]*\.py)(?::(\w+))?`", text)
    assert len(places) > 20
    for path, name in places:
        source = ROOT / path
        assert source.is_file(), path
        defined = rf"^\s*(?:async )?(?:def|class) {name}\b|^{name}\b"
        assert not name or re.search(defined, source.read_text(), re.M), f"{path}: {name}"


def test_every_command_of_the_tour_exists() -> None:
    lines = commands("CONTRIBUTING.md")
    assert len(lines) >= 5
    assert [line for line in lines if shlex.split(line)[1] not in COMMANDS] == []


def test_every_picture_follows_the_colour_scheme_of_its_reader() -> None:
    """A photograph has a twin for dark screens; a drawing has its own dark colours."""
    photographs, drawings = [], []
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = page.read_text()
        assert not re.findall(r"!\[[^\]]*\]\([^)]*\.png\)", text), page
        for light in re.findall(r'<img src="([\w./-]+\.png)" alt="\w', text):
            dark = light.replace(".png", "-dark.png")
            twin = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
            assert twin in text, page
            assert (page.parent / light).is_file() and (page.parent / dark).is_file(), page
            photographs.append(light)
        drawings += [page.parent / one for one in re.findall(r"!\[[^\]]*\]\(([^)]*\.svg)\)", text)]
    assert len(photographs) >= 8 and drawings
    assert all("@media (prefers-color-scheme:dark)" in one.read_text() for one in drawings)
