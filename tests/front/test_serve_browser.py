"""`holdfast serve` in a real browser: nothing foreign runs, reports work in their own origin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.front.test_serve import ids, runs, served
from tests.reports import rendered as html
from tests.reports import specimens
from tests.reports.browser import chromium
from tests.reports.pieces import MANIFEST, PLAN
from tests.reports.recorded import recorded

pytestmark = pytest.mark.browser
__all__ = ["runs"]

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
HOSTILE_FILE = (
    "<!doctype html><p>old<script>window.hit = 1</script><img src=x onerror='window.hit=1'>"
)


@pytest.mark.slow
def test_pages_are_read_compared_and_opened_without_anything_foreign_running(runs: Path) -> None:
    foe = next(path for path in runs.iterdir() if path.name.startswith("foe"))
    mine = next(path for path in sorted(runs.iterdir()) if path.name.endswith("majority-7"))
    html.write(mine, specimens.broken(), MANIFEST, PLAN, recorded())
    (foe / "report.html").write_text(HOSTILE_FILE)
    with served(runs) as server, chromium() as browser:
        home = f"http://127.0.0.1:{server.server_address[1]}/"
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        said: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.on("request", lambda one: asked.append(one.url))
        page.goto(home)
        assert page.evaluate(OVERFLOW) <= 0
        assert page.locator("td.id").count() == len(ids(server)) == 3
        for box in page.locator("input[type=checkbox]").all()[:2]:
            box.check()
        page.locator(".compare-button").click()
        page.wait_for_load_state()
        assert page.locator("h1").inner_text() == "Two runs side by side"
        assert page.evaluate(OVERFLOW) <= 0
        page.goto(f"{home}map")
        shown = (
            "[...document.querySelectorAll('.heat-box')].filter((one) => one.offsetHeight).length"
        )
        assert page.locator(".heat-box").count() > 2
        assert page.evaluate(shown) == 1
        page.locator(".chips label").last.click()
        assert page.evaluate(shown) == 1
        assert page.locator(".heat-box").last.is_visible()
        page.goto(home)
        page.locator("td.id a", has_text="foe").click()
        page.wait_for_url(re.compile("/run.id=foe"), wait_until="load")
        assert page.evaluate(OVERFLOW) <= 0
        page.go_back()
        page.locator("td.id a", has_text="majority").click()
        page.get_by_text("Open the report").click()
        page.wait_for_selector("html[data-timeline=ready]", state="attached")
        page.locator("#finding-1 a.show").click()
        page.wait_for_url(re.compile("#t="))
        assert page.evaluate("self.origin") == "null"
        assert said == []
        assert [url for url in asked if not url.startswith((home, "data:"))] == []
        page.goto(f"{home}report?id=foe%3Cb%3E%26")
        assert page.evaluate("window.hit") is None
        assert page.locator("p").inner_text().startswith("old")
        page.close()


@pytest.mark.slow
def test_the_proof_of_a_run_is_at_most_three_keys_away(runs: Path) -> None:
    mine = next(path for path in sorted(runs.iterdir()) if path.name.endswith("majority-7"))
    html.write(mine, specimens.broken(), MANIFEST, PLAN, recorded())
    with served(runs) as server, chromium() as browser:
        home = f"http://127.0.0.1:{server.server_address[1]}/"
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        for start in ("", f"run?id={mine.name}"):
            page.goto(f"{home}{start}")
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            page.wait_for_url("**/report?id=*#finding-1")
            top = "document.querySelector('#finding-1').getBoundingClientRect().top"
            assert page.evaluate(top) < 900
        page.close()


INNER = """() => [...document.querySelectorAll('.many')]
  .filter((one) => one.offsetHeight && one.scrollWidth > one.clientWidth)
  .map((one) => one.getAttribute('aria-label'))"""
"""Tables that are wider than their boxes."""
COVERED = """() => {
  const boxes = [...document.querySelectorAll('.many td, .many th[scope=row]')]
    .flatMap((one) => { const range = document.createRange(); range.selectNodeContents(one);
      return [...range.getClientRects()].map((box) => [one, box]); })
    .filter(([, box]) => box.width > 2);
  return boxes.flatMap(([one, a], i) => boxes.slice(i + 1)
    .filter(([other, b]) => other !== one && a.left + 2 < b.right && b.left + 2 < a.right
      && a.top + 3 < b.bottom && b.top + 3 < a.bottom)
    .map(([other]) => [one.textContent, other.textContent]));
}"""
"""Cells whose words lie on those of another cell."""


def test_on_a_telephone_lists_and_tables_are_cards_without_scrolling(runs: Path) -> None:
    with served(runs) as server, chromium() as browser:
        home = f"http://127.0.0.1:{server.server_address[1]}"
        page = browser.new_page(viewport={"width": 390, "height": 844})
        named = next(one for one in ids(server) if "foe" not in one)
        for path in ("/", f"/run?id={named}"):
            page.goto(home + path)
            assert page.locator(".many").count() > 0
            assert page.evaluate(INNER) == [], path
            assert page.evaluate(COVERED) == [], path
            assert page.get_by_role("columnheader").count() > 3
        page.close()
