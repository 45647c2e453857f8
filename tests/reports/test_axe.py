"""axe, an accessibility checker, has nothing to say about our pages: reports, campaigns, serve and
the documentation.

Marked power: npm fetches axe for it, which is no part of Holdfast.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from holdfast.foreign.foreign_report import write_page
from holdfast.foreign.judge_foreign import judge_file
from holdfast.harness.campaigns.summary import summary
from holdfast.reports.many import campaign, matrix_pages
from holdfast.reports.many.matrix import matrix
from holdfast.serve.server import Server
from tests import needs
from tests.front.test_serve import served
from tests.reports import rendered as html
from tests.reports import specimens, test_coverage_table
from tests.reports.browser import chromium
from tests.reports.pieces import MANIFEST, PLAN
from tests.reports.recorded import recorded
from tests.reports.test_matrix import run

DOCS = Path(__file__).resolve().parents[2] / "docs"
pytestmark = [pytest.mark.browser, pytest.mark.power]

RUN = """axe.run(document, {resultTypes: ["violations"]}).then((found) => found.violations
  .map((one) => [one.id, one.nodes.map((node) => node.html.slice(0, 120))]))"""
OPEN = """() => { for (const one of document.querySelectorAll("details")) one.open = true;
  if (window.timeline) { timeline.details.select(1); timeline.act("list"); } }"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    return needs.axe(tmp_path_factory.mktemp("axe"))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    names = ("clean", "broken", "limit", "unknown", "hostile")
    runs = {name: getattr(specimens, name)() for name in names}
    for name, judged in (runs | {"held": test_coverage_table.run()}).items():
        folder = tmp_path_factory.mktemp(name)
        made[name] = html.write(folder, judged, MANIFEST, PLAN, recorded())
    results = [run("x", "kill", exit_code=1), run("+", "pause")]
    folder = tmp_path_factory.mktemp("many")
    history, made["foreign"] = folder / "bad.jsonl", folder / "foreign.html"
    ends = [(0, "invoke"), (0, "ok"), (1, "invoke"), (1, "ok")]
    rows = [
        {"process": client, "type": kind, "f": "acquire", "time": at}
        for at, (client, kind) in enumerate(ends)
    ]
    history.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = judge_file(history, "auto", "mutex")
    assert told["exit_code"] == 1
    write_page(made["foreign"], history, "auto", "mutex", told)
    results[0] = replace(results[0], run="runs/x")
    made["campaign"] = folder / "index.html"
    made["campaign"].write_text(campaign.page(summary("night", 9, results)))
    made["matrix"] = folder / "matrix.html"
    made["matrix"].write_text(matrix_pages.page(matrix(results), folder))
    return made


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "name",
    ["clean", "held", "broken", "limit", "unknown", "hostile", "campaign", "matrix", "foreign"],
)
def test_axe_finds_nothing(
    browser: Browser, axe: str, pages: dict[str, Path], name: str, scheme: Any, width: int
) -> None:
    # The page's own policy forbids any other script, axe too.
    context = browser.new_context(
        bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    page = context.new_page()
    page.goto(pages[name].as_uri())
    if page.locator("#timeline").count():
        page.wait_for_selector("html[data-timeline=ready]", state="attached")
    page.add_script_tag(content=axe)
    page.evaluate(OPEN)
    assert page.evaluate(RUN) == []
    context.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("runs")
    words = ["run", "--backend", "sim", "--system", "majority", "--time", "6s", "--lease", "1s"]
    words += ["--nemesis", "kill:target=leader", "--out", str(root)]
    for seed in ("7", "8"):
        # A process of its own: the command line sets signals that the browser's driver needs.
        command = [sys.executable, "-m", "holdfast", *words, "--seed", seed]
        assert subprocess.run(command, capture_output=True).returncode == 1
    with served(root) as started:
        yield started


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "path",
    ["/", "/map", "/trend", "/run?id={}", "/report?id={}", "/compare?run={}&run={}", "/nowhere"],
)
def test_axe_finds_nothing_in_what_is_served(
    browser: Browser, axe: str, server: Server, path: str, scheme: Any, width: int
) -> None:
    context = browser.new_context(
        bypass_csp=True, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    page = context.new_page()
    ids = [one.id for one in server.shelf.entries()]
    page.goto(f"http://{server.place}{path.format(*ids)}")
    page.add_script_tag(content=axe)
    page.evaluate(OPEN)
    assert page.evaluate(RUN) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    context.close()


SITE = (
    "index.html",
    "install.html",
    "tutorial/first-run.html",
    "howto/read-a-report.html",
    "howto/plug-ins.html",
    "reference/commands.html",
    "gallery/index.html",
    "atlas.html",
    "systems.html",
    "decisions/0058-opportunities.html",
)
"""Ten pages, of each kind one: with long tables, the heat map, code, pictures."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "site"
    # A process of its own, as above: a hook runs the command line.
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    subprocess.run(words, cwd=DOCS.parent, check=True)
    return folder


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", SITE)
def test_axe_finds_nothing_in_the_documentation(
    browser: Browser, axe: str, site: Path, name: str, scheme: Any, width: int
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    page.goto((site / name).as_uri())
    page.add_script_tag(content=axe)
    page.add_style_tag(content="* { transition: none !important }")
    assert page.evaluate(RUN) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    context.close()
