"""The report as a browser shows it: offline, quiet, readable in light, dark, narrow and print."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.page_heights import measured
from playwright.sync_api import Browser, Page

from holdfast.harness.campaigns.summary import summary
from holdfast.reports.many import campaign, matrix_pages
from holdfast.reports.many.matrix import matrix
from tests.reports import rendered as html
from tests.reports import specimens
from tests.reports.browser import chromium
from tests.reports.pieces import MANIFEST, PLAN
from tests.reports.recorded import recorded
from tests.reports.specimens import HOSTILE
from tests.reports.test_coverage_table import run as tables_of_opportunities
from tests.reports.test_matrix import run

pytestmark = pytest.mark.browser

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((c) => {
      c /= 255;
      return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!colour.endsWith(", 0)")) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  return [...document.querySelectorAll("p, td, th, dd, dt, h1, h2, h3, summary, a, small")]
    .filter((e) => e.textContent.trim() && e.checkVisibility())
    .map((e) => {
      const pair = [light(getComputedStyle(e).color), light(ground(e))].sort((a, b) => b - a);
      return [(pair[0] + 0.05) / (pair[1] + 0.05), e.tagName, e.textContent.slice(0, 40)];
    })
    .sort((a, b) => a[0] - b[0])[0];
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def test_the_textbook_table_is_seen_as_a_whole(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "matrix.html"
    path.write_text(matrix_pages.page(matrix([run("x", "kill"), run("+", "pause")]), tmp_path))
    for width in (1400, 390):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto(path.as_uri())
        box = page.locator(".many", has=page.locator(".wraps"))
        assert box.evaluate("one => one.scrollWidth - one.clientWidth") <= 0, width
        page.close()


def opened(browser: Browser, tmp_path: Path, name: str, *, width: int, scheme: str) -> Page:
    """The report of a specimen from its file; any request elsewhere or complaint fails the test."""
    path = html.write(tmp_path, getattr(specimens, name)(), MANIFEST, PLAN)
    page = browser.new_page(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    if scheme == "print":
        page.emulate_media(media="print")
    page.goto(path.as_uri())
    assert [url for url in asked if not url.startswith(path.as_uri()) and url != "data:,"] == []
    assert said == []
    return page


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
@pytest.mark.parametrize("width", [1280, 700])
def test_a_report_opens_from_its_file_and_stays_within_the_window(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    page = opened(browser, tmp_path, "broken", width=width, scheme=scheme)
    shot = page.screenshot(path=tmp_path / f"{scheme}-{width}.png", full_page=True)
    assert len(shot) > 20_000
    assert page.evaluate(OVERFLOW) <= 0
    assert page.locator("h1").inner_text().startswith("Two clients held a lock at the same time")
    assert page.locator(".hero .word").inner_text() == "VIOLATED"
    page.close()


@pytest.mark.parametrize("name", ["broken", "clean", "limit", "unknown", "hostile"])
def test_a_telephone_shows_the_whole_width(browser: Browser, tmp_path: Path, name: str) -> None:
    page = opened(browser, tmp_path, name, width=390, scheme="light")
    assert page.evaluate(OVERFLOW) <= 0
    page.close()


@pytest.mark.parametrize(("verdict", "table"), [("HOLDS", "#tried"), ("UNKNOWN", "#asked")])
def test_on_a_telephone_a_row_of_opportunities_is_a_card_that_needs_no_scrolling(
    browser: Browser, tmp_path: Path, verdict: str, table: str
) -> None:
    content = tables_of_opportunities()
    if verdict == "UNKNOWN":
        content |= {"verdict": verdict, "exit_code": 3, "remedy": "holdfast run --time 60s"}
        content["verdicts"][0]["verdict"] = verdict
        content["verdicts"][0]["under"]["kill"]["verdict"] = verdict
    path = html.write(tmp_path, content, MANIFEST, PLAN)
    named = "all => all.map((one) => getComputedStyle(one, '::before').content)"
    for width, cards in ((1280, False), (390, True)):
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.goto(path.as_uri())
        box = page.locator(f"{table} .scroll")
        assert box.evaluate("one => one.scrollWidth - one.clientWidth") <= 0
        labels = page.locator(f"{table} tbody td").evaluate_all(named)
        assert any(text.startswith('"') for text in labels) is cards
        # To a screen reader it is a table at any width.
        assert box.get_by_role("rowheader").count() == box.locator("tbody tr").count() > 1
        assert box.get_by_role("columnheader").count() > 1
        page.close()


@pytest.mark.parametrize("name", ["clean", "limit", "unknown", "hostile"])
def test_no_specimen_bursts_the_page_or_runs_anything(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    page = opened(browser, tmp_path, name, width=1280, scheme="light")
    assert page.evaluate(OVERFLOW) <= 0
    assert page.evaluate("document.scripts.length") == 0
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["broken", "limit", "unknown"])
def test_all_text_has_enough_contrast(
    browser: Browser, tmp_path: Path, name: str, scheme: str
) -> None:
    page = opened(browser, tmp_path, name, width=1280, scheme=scheme)
    worst = page.evaluate(CONTRAST)
    assert worst[0] >= 4.5, worst
    page.close()


def test_no_two_labels_of_a_drawing_touch_on_the_narrowest_page(
    browser: Browser, tmp_path: Path
) -> None:
    page = opened(browser, tmp_path, "broken", width=700, scheme="light")
    touching = page.evaluate(
        """() => [...document.querySelectorAll('.card .canvas svg')].flatMap((svg) => {
          const boxes = [...svg.querySelectorAll('text.event')]
            .map((e) => [e.getBoundingClientRect(), e.textContent]);
          return boxes.flatMap(([a, s], i) => boxes.slice(i + 1)
            .filter(([b]) => a.left < b.right && b.left < a.right
              && a.top + 3 < b.bottom && b.top + 3 < a.bottom)
            .map(([, t]) => [s, t]));
        })"""
    )
    assert touching == []
    page.close()


def test_the_keyboard_reaches_links_details_and_scroll_boxes(
    browser: Browser, tmp_path: Path
) -> None:
    page = opened(browser, tmp_path, "broken", width=1280, scheme="light")
    seen: set[str] = set()
    focused = "[document.activeElement.tagName, getComputedStyle(document.activeElement).outline]"
    for _ in range(60):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(focused)
        if name == "BODY":
            break
        assert "solid 3px" in outline, (name, outline)
        seen.add(name.lower())
    assert {"a", "summary", "div", "code"} <= seen
    page.close()


SPILLED = """() => [...document.querySelectorAll("th, td")]
  .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent.slice(0, 60))"""


@pytest.mark.parametrize("width", [1280, 700])
def test_long_and_hostile_names_stay_in_their_cells_of_the_pages_about_many_runs(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    long = run("x", "kill", system="reference option=" + "x" * 50, exit_code=1)
    long = replace(
        long, key="-".join(["critical-section"] * 7), scenario="redlock-clock-step", nemesis="kill"
    )
    foe = run("x", HOSTILE, system=HOSTILE, text=HOSTILE, problems=(HOSTILE,), exit_code=1)
    foe = replace(foe, scenario=HOSTILE, key=HOSTILE)
    results = [long, foe]
    pages = {
        "index": campaign.page(summary("night<b>", 9, results, (HOSTILE,))),
        "matrix": matrix_pages.page(matrix(results), tmp_path),
    }
    said: list[str] = []
    for name, text in pages.items():
        path = tmp_path / f"{name}.html"
        path.write_text(text, "utf-8", "backslashreplace")
        page = browser.new_page(viewport={"width": width, "height": 900})
        page.on("console", lambda message: said.append(message.text))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.goto(path.as_uri())
        assert page.evaluate(SPILLED) == []
        assert page.evaluate(OVERFLOW) == 0
        assert said == []
        page.close()


def test_from_a_campaign_the_proof_of_its_worst_failure_is_three_keys_away(
    browser: Browser, tmp_path: Path
) -> None:
    folder = tmp_path / "runs" / "x"
    folder.mkdir(parents=True)
    html.write(folder, specimens.broken(), MANIFEST, PLAN, recorded())
    worst = replace(run("x", exit_code=1), run="runs/x")
    path = tmp_path / "index.html"
    path.write_text(campaign.page(summary("night", 2, [run("+", "pause"), worst])))
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(path.as_uri())
    for key in ("Tab", "Tab", "Enter"):
        page.keyboard.press(key)
    page.wait_for_url("**/report.html#finding-1")
    assert page.evaluate("document.querySelector('#finding-1').getBoundingClientRect().top") < 900
    page.close()


def test_the_filter_of_a_campaign_hides_rows_without_a_script(
    browser: Browser, tmp_path: Path
) -> None:
    results = [
        run("x", system="redis", exit_code=1),
        run("+", system="etcd"),
        run("x", system="etcd", promised=False),
        run("+", system="redis", text="other"),
    ]
    path = tmp_path / "index.html"
    path.write_text(campaign.page(summary("night", 9, results)))
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto(path.as_uri())
    page.locator("#runs > summary").click()
    page.locator("#cells > summary").click()
    rows = page.locator("#runs > .many > table > tbody > tr:visible")
    assert rows.count() == 4
    page.get_by_label("violated", exact=True).check()
    assert rows.count() == 1
    page.locator("#state-1").press("ArrowLeft")
    page.get_by_label("etcd").check()
    assert rows.count() == 2
    assert page.locator("#cells tbody tr:visible").count() == 1
    page.goto(path.as_uri())
    shown = page.locator("table.heat:visible")
    assert shown.count() == 1 and shown.locator(".cell.broken").count() == 1
    assert page.evaluate(OVERFLOW) <= 0
    page.close()


@pytest.mark.parametrize("name", ["limit", "broken", "unknown", "clean"])
def test_a_story_and_its_timeline_stand_near_the_top(
    browser: Browser, tmp_path: Path, name: str
) -> None:
    """The bounds are those of a page with one cause; a further cause is one row."""
    path = html.write(tmp_path, getattr(specimens, name)(), MANIFEST, PLAN, recorded())
    places = measured(browser, path.as_uri(), (1400, 900), "light")
    assert places["timeline"] < 900 and places["page"] < 1800, places
    phone = measured(browser, path.as_uri(), (390, 844), "light")
    assert phone["sideways"] <= 0 and phone["guilty"] in (None, True), phone
