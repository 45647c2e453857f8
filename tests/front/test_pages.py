"""Every command of the tutorials and explanations is carried out, with the files that they show."""

from __future__ import annotations

import logging
import re
import shlex
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.utils import CountHandler

from holdfast import catalogue, docgen
from holdfast.catalogue.findings import FINDINGS
from tests.front.said import holdfast
from tests.front.test_howto import steps
from tests.reports.browser import chromium

DOCS = Path(__file__).resolve().parents[2] / "docs"
ELSEWHERE = {"tutorial/frozen-holder", "tutorial/own-lock", "tutorial/redis-lock"}
"""Pages with a test of their own."""
SERVERS = {
    f"gallery/{name}"
    for name in ("redis-py-cve-2023-28858", "redis-py-4279", "etcd-11456", "pgbouncer-102")
}
"""Pages whose commands need a server: `tests/front/test_findings.py` runs them."""
EXAMPLE_REPORT = "gallery/example-report.html"
"""Made with the site."""
SIMULATOR = DOCS / "simulator.md"
PAGES = [SIMULATOR, DOCS / "README.md"] + [
    page
    for folder in ("tutorial", "explanation", "gallery")
    for page in sorted((DOCS / folder).glob("*.md"))
    if page.relative_to(DOCS).with_suffix("").as_posix() not in ELSEWHERE | SERVERS
]
Capture = pytest.CaptureFixture[str]
MARKED = [
    pytest.param(page, marks=[pytest.mark.slow] * (page == SIMULATOR), id=page.stem)
    for page in PAGES
]
Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("page", MARKED)
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
            command, _, comment = line.removeprefix("$ ").partition("  # ")
            wanted = re.search(r"exit code (\d+)(?: or (\d+))?", comment)
            said = holdfast(capsys, *shlex.split(command)[1:])
            codes = [int(code) for code in wanted.groups() if code] if wanted else [0]
            assert said.code in codes, f"{command}\n{said.out}{said.err}"


def test_every_page_is_reached_from_the_index_and_every_link_leads_somewhere() -> None:
    index = (DOCS / "README.md").read_text()
    pages = [page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md"))]
    unlinked = [name for name in pages if f"]({name})" not in index and name != "README.md"]
    assert [name for name in unlinked if not name.startswith("decisions/")] == []
    for page in [DOCS / name for name in pages]:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            made = (page.parent / link) == DOCS / EXAMPLE_REPORT
            assert made or (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize("name", list(docgen.PAGES))
def test_the_reference_is_up_to_date(name: str) -> None:
    written = (DOCS / "reference" / f"{name}.md").read_text()
    assert written == docgen.PAGES[name](), "make reference writes it anew"


@pytest.mark.parametrize("name", sorted(SERVERS))
def test_a_page_about_a_published_package_names_a_finding_of_the_catalogue(name: str) -> None:
    page = (DOCS / f"{name}.md").read_text()
    finding = name.removeprefix("gallery/")
    assert finding in FINDINGS
    assert f"$ holdfast scenario finding:{finding}\n" in page


def test_the_readme_shows_what_its_first_run_prints(
    capsys: Capture, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    text = (DOCS.parent / "README.md").read_text()
    found = re.search(r"```console\n\$ holdfast (run [^\n]*)\n(.*?)```", text, re.S)
    assert found is not None
    said = holdfast(capsys, *shlex.split(found[1]))
    lines = iter(said.out.splitlines())
    # "..." stands for lines that the README leaves out; the others are printed in this order.
    missing = [line for line in found[2].splitlines() if line != "..." and line not in lines]
    assert missing == []


def test_the_readme_counts_what_there_is() -> None:
    text = (DOCS.parent / "README.md").read_text()
    drawing = (DOCS / "pictures" / "how-it-works.svg").read_text()
    assert f"[{len(FINDINGS)} bugs in published\npackages]" in text
    assert f"[{len(FINDINGS)} bugs reproduced" in (DOCS / "gallery" / "README.md").read_text()
    assert f">{len(catalogue.CHECKERS)} properties<" in drawing


LOADED = re.compile(
    r"""<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=["']?(https?:[^"'\s>]+)"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation as a site, which is built without a warning."""
    folder = tmp_path_factory.mktemp("built") / "site"
    config = load_config(str(DOCS.parent / "mkdocs.yml"), site_dir=str(folder))
    assert config.strict
    counted = CountHandler()
    counted.setLevel(logging.WARNING)
    logging.getLogger("mkdocs").addHandler(counted)
    try:
        build(config)
    finally:
        logging.getLogger("mkdocs").removeHandler(counted)
    assert counted.get_counts() == []
    return folder


def test_the_site_has_every_page_and_the_example_report(site: Path) -> None:
    report = (site / EXAMPLE_REPORT).read_text()
    assert "Stale accepted write" in report
    pages = [path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")]
    made = [name.with_name("index.html") if name.stem == "README" else name for name in pages]
    assert [str(name) for name in made if not (site / name).is_file()] == []


def test_no_page_of_the_site_loads_anything_from_elsewhere(site: Path) -> None:
    loaded = {
        (page.name, found)
        for page in site.rglob("*.html")
        for found in LOADED.findall(page.read_text())
    }
    assert loaded == set()
    assert LOADED.findall('<script src="https://unpkg.com/x"></script>') == ["https://unpkg.com/x"]


@pytest.mark.browser
def test_the_search_works_from_disk_without_a_network(site: Path) -> None:
    with chromium() as browser:
        page = browser.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        # On a wide page the field of the search is always there; a click opens its results.
        page.set_viewport_size({"width": 1400, "height": 900})
        page.goto((site / "tutorial" / "first-run.html").as_uri())
        page.locator("input.md-search__input").click()
        page.keyboard.type("fencing token")
        first = page.locator(".md-search-result__item a").first
        first.wait_for(timeout=30_000)
        assert "token" in page.locator(".md-search-result__list").inner_text().lower()
        assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []


UNNAMED = """() => [...document.querySelectorAll("[role=dialog], nav")].filter((one) =>
  one.getAttribute("role") !== "none" && !one.ariaLabel && !one.hasAttribute("aria-labelledby"))
  .map((one) => one.outerHTML.slice(0, 80))"""
UNREACHED = """() => [...document.querySelectorAll(".md-typeset__scrollwrap, .heat-map")]
  .filter((one) => (one.scrollWidth > one.clientWidth) !== (one.tabIndex === 0)).length"""


@pytest.mark.browser
def test_a_page_of_the_site_names_its_parts_and_its_wide_tables_are_reached_with_tab(
    site: Path,
) -> None:
    with chromium() as browser:
        page = browser.new_page()
        for width, wide in ((390, True), (1400, False)):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto((site / "systems.html").as_uri())
            page.wait_for_selector(".md-typeset__scrollwrap", state="attached")
            page.wait_for_function(f"({UNREACHED})() === 0", timeout=30_000)
            assert (page.locator(".md-typeset__scrollwrap[tabindex]").count() > 0) is wide
            page.wait_for_function(f"({UNNAMED})().length === 0", timeout=30_000)
        link = page.locator(".md-typeset p a:not(.headerlink)").first
        assert "underline" in link.evaluate("(one) => getComputedStyle(one).textDecorationLine")
