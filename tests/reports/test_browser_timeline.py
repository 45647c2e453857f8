"""The interactive timeline in a real browser: pointer, keyboard, links, dark mode, print, foes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page

from holdfast.harness.core.operations import Op
from tests.reports import rendered as html
from tests.reports import specimens
from tests.reports.browser import chromium
from tests.reports.pieces import MANIFEST, MS, PLAN
from tests.reports.recorded import STRINGS, recorded

pytestmark = pytest.mark.browser

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
VIEW = "[timeline.view.from / 1e6, timeline.view.to / 1e6]"
INK = """(id) => {
  const canvas = document.getElementById(id);
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  return seen.size;
}"""
HOSTILE = (
    "",
    "<img src=x onerror=window.hit=1>\u202e\x00\x1b[31m\"'`",
    "</script><script>window.hit=1</script>" + "A" * 10_000_000,
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A report with a timeline per specimen."""
    made = {}
    for name in ("clean", "broken", "limit", "hostile"):
        folder = tmp_path_factory.mktemp(name)
        history = recorded(strings=HOSTILE if name == "hostile" else STRINGS)
        plan = PLAN + ("# </pre><script>window.hit=1</script>\n" if name == "hostile" else "")
        made[name] = html.write(folder, getattr(specimens, name)(), MANIFEST, plan, history)
    return made


def opened(browser: Browser, path: Path, link: str = "", **more: Any) -> Page:
    """The page when its timeline is ready; a complaint, or a request off the file, fails."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, **more)
    said: list[str] = []
    page.on("request", lambda request: said.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(path.as_uri() + link)
    page.wait_for_selector("html[data-timeline=ready]", state="attached")
    assert [one for one in said if not one.startswith(path.as_uri()) and one != "data:,"] == []
    return page


def settled(page: Page) -> list[float]:
    """The view, once the address says it."""
    page.wait_for_timeout(250)
    found: list[float] = page.evaluate(VIEW)
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["clean", "broken", "limit", "hostile"])
def test_the_timeline_is_drawn_and_stays_within_the_window(
    browser: Browser, files: dict[str, Path], name: str, scheme: Any
) -> None:
    page = opened(browser, files[name], color_scheme=scheme)
    assert page.evaluate(OVERFLOW) <= 0
    assert page.evaluate(INK, "timeline-lanes") > 20
    assert page.evaluate(INK, "timeline-panels") > 4
    assert page.evaluate("window.hit") is None
    assert page.locator("#timeline-numbers tr").count() >= 4
    shot = page.locator("#timeline").screenshot(path=files[name].parent / f"{scheme}.png")
    assert len(shot) > 20_000
    page.close()


def test_a_finding_is_shown_on_the_timeline_and_its_address_leads_back(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["broken"])
    whole = page.evaluate(VIEW)
    page.locator("#finding-1 a.show").click()
    low, high = settled(page)
    moment = page.evaluate("timeline.data.about.findings[0].t / 1e6")
    assert low < moment < high
    assert high - low < (whole[1] - whole[0]) / 2
    assert page.evaluate("document.activeElement.id") == "timeline-lanes"
    link = page.evaluate("location.hash")
    assert link.startswith("#t=")
    assert "findings 1" in page.locator("#timeline-said").inner_text()
    page.close()
    again = opened(browser, files["broken"], link)
    assert settled(again) == pytest.approx([low, high], abs=1e-5)
    again.close()


def test_pointer_and_wheel_zoom_and_move(browser: Browser, files: dict[str, Path]) -> None:
    page = opened(browser, files["clean"])
    page.locator("#timeline-lanes").scroll_into_view_if_needed()
    box = page.locator("#timeline-lanes").bounding_box()
    assert box is not None
    x, y = box["x"] + 500, box["y"] + 160
    first = page.evaluate(VIEW)
    page.mouse.dblclick(x, y)
    zoomed = settled(page)
    assert zoomed[1] - zoomed[0] == pytest.approx((first[1] - first[0]) * 0.4, rel=0.01)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 200, y, steps=4)
    page.mouse.up()
    moved = settled(page)
    assert moved[0] > zoomed[0]
    assert moved[1] - moved[0] == pytest.approx(zoomed[1] - zoomed[0], rel=0.01)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    closer = settled(page)
    assert closer[1] - closer[0] < moved[1] - moved[0]
    page.close()


def test_the_keyboard_alone_zooms_moves_finds_and_lists(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["broken"])
    for _ in range(80):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "timeline-lanes":
            break
    assert page.evaluate("document.activeElement.id") == "timeline-lanes"
    whole = page.evaluate(VIEW)
    page.keyboard.press("+")
    page.keyboard.press("+")
    zoomed = settled(page)
    assert zoomed[1] - zoomed[0] == pytest.approx((whole[1] - whole[0]) / 4, rel=0.01)
    page.keyboard.press("ArrowRight")
    assert settled(page)[0] > zoomed[0]
    page.keyboard.press("n")
    low, high = settled(page)
    assert low < page.evaluate("timeline.data.about.findings[0].t / 1e6") < high
    page.keyboard.press("Enter")
    assert page.locator("#timeline-ops tr").count() > 3
    assert "ops in view" in page.locator("#timeline-listed").inner_text()
    page.locator("#timeline-lanes").focus()
    page.keyboard.press("0")
    assert settled(page) == pytest.approx(whole)
    page.close()


def test_numbers_are_those_of_the_ops_in_view(browser: Browser, files: dict[str, Path]) -> None:
    page = opened(browser, files["clean"])
    count = "document.querySelector('#timeline-numbers td').textContent"
    assert page.evaluate(count) == "108"
    page.evaluate("timeline.go(0.1e6, 1.1e6)")
    settled(page)
    assert page.evaluate(count) == "5"
    page.close()


@pytest.mark.parametrize(("late", "marks"), [(True, 0), (False, 1)])
def test_a_token_is_marked_only_where_its_grant_was_asked_for_after_a_larger_one(
    browser: Browser, tmp_path: Path, late: bool, marks: int
) -> None:
    """An answer that comes late stands behind a larger token, and says nothing of their order."""
    history = recorded()
    rows = history.history.rows
    first, second = np.flatnonzero(rows["f"] == Op.ACQUIRE)[:2]
    if late:
        rows["t_ret"][first] = rows["t_ret"][second] + MS
    else:
        rows["token"][first] = rows["token"][second] + 1
        rows["token"][second + 1 :] += 2
    page = opened(browser, html.write(tmp_path, specimens.broken(), MANIFEST, PLAN, history))
    assert page.evaluate("timeline.data.tokens.fell.length") == marks
    page.close()


def test_a_tooltip_tells_the_hold_under_the_pointer(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["hostile"])
    page.evaluate("timeline.go(0.1e6, 0.5e6)")
    settled(page)
    page.locator("#timeline-lanes").scroll_into_view_if_needed()
    box = page.locator("#timeline-lanes").bounding_box()
    assert box is not None
    x, y = page.evaluate("[timeline.view.x(0.3e6), timeline.lanes.laneY(0) + 10]")
    page.mouse.move(box["x"] + x, box["y"] + y)
    tip = page.locator("#timeline-tip").inner_text()
    assert "holds <img src=x" in tip
    assert "token 30" in tip
    assert page.evaluate("document.querySelectorAll('#timeline img').length") == 0
    assert page.evaluate("window.hit") is None
    page.close()


def test_print_leaves_the_timeline_out_and_keeps_findings_and_overview(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["broken"])
    page.emulate_media(media="print")
    assert not page.locator("#timeline").is_visible()
    assert page.locator("#finding-1 svg.picture").first.is_visible()
    assert page.locator("#run svg").first.is_visible()
    assert len(page.pdf()) > 20_000
    page.close()


def test_without_javascript_findings_and_tables_are_readable(
    browser: Browser, files: dict[str, Path]
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(files["broken"].as_uri())
    assert page.locator("h1").is_visible()
    assert page.locator("#finding-1 svg.picture").first.is_visible()
    assert not page.locator("#timeline").is_visible()
    assert not page.locator("a.show").first.is_visible()
    context.close()
