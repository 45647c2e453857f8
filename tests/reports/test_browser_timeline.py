"""The interactive timeline in a real browser: pointer, keyboard, links, dark mode, print, foes."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from holdfast.harness.core.operations import Op
from tests.reports import rendered as html
from tests.reports import specimens, test_coverage_table
from tests.reports.browser import chromium
from tests.reports.pieces import MANIFEST, MS, PLAN, at
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
    runs = {name: getattr(specimens, name)() for name in ("clean", "broken", "limit", "hostile")}
    runs |= {"unknown": specimens.unknown(), "held": test_coverage_table.run()}
    for name, run in runs.items():
        folder = tmp_path_factory.mktemp(name)
        history = recorded(strings=HOSTILE if name == "hostile" else STRINGS)
        plan = PLAN + ("# </pre><script>window.hit=1</script>\n" if name == "hostile" else "")
        made[name] = html.write(folder, run, MANIFEST, plan, history)
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
    page.evaluate("document.getElementById('timeline-more').open = true")
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
    page.locator("[data-act=all]").click()
    whole = settled(page)
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


def test_a_violation_opens_on_its_first_finding_and_j_goes_to_the_next(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["broken"])
    first, second = page.evaluate("timeline.data.about.findings.map((one) => [one.from, one.to])")
    assert settled(page) == pytest.approx([t / 1e6 for t in first], abs=1e-5)
    # The address is that of the page: a copy of it opens at the top.
    assert page.evaluate("location.hash") in ("", "#")
    page.locator("#timeline-lanes").focus()
    page.keyboard.press("j")
    assert settled(page) == pytest.approx([t / 1e6 for t in second], abs=1e-5)
    assert page.evaluate("location.hash").startswith("#t=")
    page.keyboard.press("k")
    assert settled(page) == pytest.approx([t / 1e6 for t in first], abs=1e-5)
    page.close()


def test_both_halves_of_the_proof_are_marked_with_the_numbers_of_the_text(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["limit"])
    proof = page.evaluate("timeline.data.about.findings[0].proof.map((half) => String(half.n))")
    assert len(proof) == 2
    card = page.locator("#finding-1")
    assert card.locator("li.half .at").all_inner_texts() == proof
    for drawing in (".wide-only", ".phone-only"):
        shown = card.locator(f"{drawing} text.half").all_text_contents()
        assert sorted(shown) == sorted(proof)
    page.close()


def test_the_story_of_one_cause_fits_two_windows(browser: Browser, files: dict[str, Path]) -> None:
    page = opened(browser, files["limit"])
    page.evaluate("document.getElementById('timeline-more').open = false")
    page.set_viewport_size({"width": 1400, "height": 900})
    top = "document.getElementById('timeline').getBoundingClientRect().top + scrollY"
    assert page.evaluate(top) < 900
    assert page.evaluate("document.documentElement.scrollHeight") < 1800
    assert page.locator("details.fold[open]").count() == 0
    page.close()


def test_a_phone_shows_the_late_write_without_scrolling_sideways(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["limit"])
    page.set_viewport_size({"width": 390, "height": 844})
    late = page.locator("#finding-1 .phone-only text.event.guilty")
    box = late.bounding_box()
    assert box is not None and "write accepted" in (late.text_content() or "")
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    assert not page.locator("#finding-1 .wide-only").is_visible()
    page.close()


def test_lanes_without_an_event_are_folded_and_named(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["limit"])
    assert page.evaluate("timeline.lanes.rows.length < timeline.data.lanes.length")
    folded = page.evaluate("timeline.lanes.folded.join(', ')")
    assert page.locator("#timeline-folded").inner_text() == f"hidden, without an event: {folded}"
    page.locator("#timeline-all-lanes").click()
    assert page.evaluate("timeline.lanes.rows.length === timeline.data.lanes.length")
    assert not page.locator("#timeline-folded").is_visible()
    page.close()


@pytest.mark.parametrize(
    ("name", "proof"),
    [("broken", "finding-1"), ("limit", "finding-1"), ("unknown", "asked"), ("held", "tried")],
)
def test_the_proof_is_at_most_six_keys_away(
    browser: Browser, files: dict[str, Path], name: str, proof: str
) -> None:
    page = opened(browser, files[name])
    for key in ("Tab", "Tab", "Enter"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.id") == proof
    within = f"document.getElementById('{proof}').getBoundingClientRect().top < innerHeight"
    assert page.evaluate(within)
    page.close()


def test_the_command_is_copied(browser: Browser, files: dict[str, Path]) -> None:
    page = opened(browser, files["broken"])
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".hero .copy").click()
    expect(page.locator(".hero .copy")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == specimens.broken()["command"]
    page.close()


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
    page.keyboard.press("0")
    whole = settled(page)
    page.keyboard.press("+")
    page.keyboard.press("+")
    zoomed = settled(page)
    assert zoomed[1] - zoomed[0] == pytest.approx((whole[1] - whole[0]) / 4, rel=0.01)
    page.keyboard.press("ArrowRight")
    assert settled(page)[0] > zoomed[0]
    page.keyboard.press("n")
    low, high = settled(page)
    # The page opened on the first one.
    assert low < page.evaluate("timeline.data.about.findings[1].t / 1e6") < high
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


def test_print_has_the_timeline_in_the_colours_of_paper(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["broken"], color_scheme="dark")
    corner = """() => [...document.getElementById("timeline-panels").getContext("2d")
      .getImageData(250, 20, 1, 1).data].slice(0, 3)"""
    assert max(page.evaluate(corner)) < 90
    page.emulate_media(media="print")
    assert page.locator("#timeline-lanes").is_visible()
    assert min(page.evaluate(corner)) > 150
    for hidden in ("#filter-lock", "#timeline-help", "#timeline-csv"):
        assert not page.locator(hidden).is_visible()
    assert page.locator("#finding-1 svg.picture").first.is_visible()
    assert page.locator("#run svg").first.is_visible()
    page.close()


def test_a_printed_report_has_no_megabytes_of_hatching(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["broken"])
    assert 20_000 < len(page.pdf(print_background=True)) < 1_500_000
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


def clicked(page: Page, at: str) -> None:
    """A click at a point of the lanes; `at` is [x, y] on their canvas."""
    page.locator("#timeline-lanes").scroll_into_view_if_needed()
    box = page.locator("#timeline-lanes").bounding_box()
    assert box is not None
    x, y = page.evaluate(at)
    page.mouse.click(box["x"] + x, box["y"] + y)


SECOND_WRITE = """[timeline.view.x(timeline.data.ops.t[timeline.data.lanes[0].op[1]]) + 1,
  timeline.lanes.laneY(0) + 23]"""


def test_a_click_selects_an_op_and_its_details_stay(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["clean"])
    page.evaluate("timeline.go(0.1e6, 1.1e6)")
    settled(page)
    clicked(page, SECOND_WRITE)
    title = page.locator("#timeline-op-title")
    assert "write: ok" in title.inner_text()
    facts = page.locator("#timeline-op-facts").inner_text()
    assert "c1/1" in facts and "0.220000 s" in facts and "4.00 ms" in facts
    kept = title.inner_text()
    page.mouse.move(5, 5)
    page.evaluate("timeline.go(5e6, 9e6)")
    settled(page)
    assert title.inner_text() == kept
    attempt = page.locator("#timeline-op-attempt button")
    words = ["acquire", "write", "served-write", "release"]
    assert [text.split()[0] for text in attempt.all_inner_texts()] == words
    attempt.nth(3).click()
    assert "release: ok" in title.inner_text()
    low, high = settled(page)
    assert low < page.evaluate("timeline.data.ops.t[timeline.details.op] / 1e6") < high
    page.locator("#timeline-op-close").click()
    assert not page.locator("#timeline-op").is_visible()
    page.close()


def test_the_keyboard_walks_over_ops_and_the_address_keeps_the_selected_one(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["broken"])
    page.locator("#timeline-lanes").focus()
    seen = []
    page.keyboard.press("0")
    for key in (".", ".", ".", ","):
        page.keyboard.press(key)
        seen.append(page.evaluate("timeline.data.ops.row[timeline.details.op]"))
    assert seen == [0, 1, 2, 1]
    settled(page)
    link = page.evaluate("location.hash")
    assert link.endswith("&row=1")
    page.keyboard.press("Escape")
    assert page.evaluate("timeline.details.op") == -1
    settled(page)
    assert "row" not in page.evaluate("location.hash")
    page.close()
    again = opened(browser, files["broken"], link)
    assert again.locator("#timeline-op-title").inner_text().startswith("Row 1,")
    again.close()


@pytest.mark.parametrize(
    ("choose", "words", "kept"),
    [
        ({"client": "c2"}, "", "ops.sender[i] === 1"),
        ({"op": "try"}, "", "data.series.byId[ops.kind[i] & 31] === 'try'"),
        ({"status": "fail"}, "", "data.about.statuses[ops.kind[i] >> 5] === 'fail'"),
        ({"lock": "db", "op": "write"}, "", "data.series.byId[ops.kind[i] & 31] === 'write'"),
        ({}, "timed out", "data.about.strings[ops.err[i]] === 'timed out'"),
        ({}, "#35", "ops.token[i] === 35"),
        (
            {},
            "c3 release",
            "ops.sender[i] === 2 && data.series.byId[ops.kind[i] & 31] === 'release'",
        ),
    ],
)
def test_a_filter_leaves_the_ops_that_match_everywhere(
    browser: Browser, files: dict[str, Path], choose: dict[str, str], words: str, kept: str
) -> None:
    page = opened(browser, files["clean"])
    count = f"""() => {{ const data = timeline.data, ops = data.ops; let n = 0;
      for (let i = 0; i < ops.n; i++) if ({kept}) n++; return n; }}"""
    drawn = "() => timeline.data.lanes.reduce((sum, lane) => sum + lane.n, 0)"
    whole = page.evaluate(drawn)
    for name, text in choose.items():
        page.locator(f"#filter-{name}").select_option(label=text)
    page.locator("#filter-text").fill(words)
    expect(page.locator("#filter-count")).not_to_be_empty()
    n = page.evaluate(count)
    assert 0 < n < whole
    assert page.evaluate(drawn) == n
    assert page.locator("#filter-count").inner_text() == f"{n} of {whole} ops match"
    page.locator("[data-act=list]").click()
    assert page.locator("#timeline-listed").inner_text() == f"{n} ops in view that match."
    assert page.locator("#timeline-ops tr").count() == n
    page.locator("#filter-clear").click()
    assert page.evaluate(drawn) == whole
    page.close()


def test_a_filter_by_client_keeps_its_holds_and_no_others(
    browser: Browser, files: dict[str, Path]
) -> None:
    page = opened(browser, files["clean"])
    holds = "timeline.data.lanes.map((lane) => lane.hold.n)"
    whole = page.evaluate(holds)
    page.locator("#filter-client").select_option(label="c2")
    assert page.evaluate(holds) == [n if k == 1 else 0 for k, n in enumerate(whole)]
    page.close()


@pytest.mark.parametrize("name", ["clean", "hostile"])
def test_the_rows_in_view_of_the_filter_are_downloaded_as_csv(
    browser: Browser, files: dict[str, Path], name: str
) -> None:
    page = opened(browser, files[name])
    button = page.locator("#timeline-csv")
    assert re.fullmatch(r"Download \d+ rows \(CSV, about \d+ kB\)", button.inner_text())
    with page.expect_download() as waiting:
        button.click()
    path = waiting.value.path()
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    ours = recorded().history.rows
    assert len(rows) == len(ours)
    assert [int(row["row"]) for row in rows] == list(range(len(ours)))
    for row, one in zip(rows, ours, strict=True):
        assert row["op"] == Op(int(one["f"])).name.lower().replace("_", "-")
        assert round(float(row["called_s"]) * 1e6) == (one["t_inv"] - at(0)) // 1000
        assert row["token"] == ("" if one["token"] < 0 else str(one["token"]))
        assert row["client"] == f"c{one['attempt'] >> 32}"
        assert row["lane"] == ("resource" if row["op"] == "served-write" else row["client"])
    assert {row["lock"][:10] for row in rows} == (
        {"db"} if name == "clean" else {"<img src=x"[:10]}
    )
    stated = int(re.findall(r"about (\d+) kB", button.inner_text())[0])
    assert stated * 500 < path.stat().st_size < stated * 2000 + 1000
    page.locator("#filter-op").select_option(label="try")
    assert button.inner_text().startswith("Download 12 rows")
    page.close()


def test_a_cell_of_the_download_is_no_formula(browser: Browser, files: dict[str, Path]) -> None:
    page = opened(browser, files["clean"])
    said = page.evaluate("""['=1+1', '+1', '-1', '@x', 'a,b', 'a"b', 'plain'].map(cell)""")
    assert said == ["'=1+1", "'+1", "'-1", "'@x", '"a,b"', '"a""b"', "plain"]
    page.close()


def test_the_violation_is_drawn_in_a_colour_that_nothing_else_has(
    browser: Browser, files: dict[str, Path]
) -> None:
    """Refusals, faults and expired leases leave the red to findings."""
    red = """() => { const canvas = document.getElementById("timeline-lanes");
      const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      let n = 0;
      for (let i = 0; i < data.length; i += 4) {
        if (data[i] > 150 && data[i + 1] < 80 && data[i + 2] < 80 && data[i + 3] > 200) n++;
      }
      return n; }"""
    page = opened(browser, files["broken"])
    page.evaluate("timeline.finding(0)")
    settled(page)
    assert page.evaluate(red) > 500
    owners = page.evaluate("timeline.data.about.findings[0].owners")
    assert owners == page.evaluate("[...timeline.lanes.owners.keys()].sort()")
    page.close()
    page = opened(browser, files["clean"])
    assert page.evaluate(red) == 0
    page.close()


def test_lanes_are_as_wide_as_the_window(browser: Browser, files: dict[str, Path]) -> None:
    page = opened(browser, files["broken"])
    for width in (1280, 1800, 390):
        page.set_viewport_size({"width": width, "height": 900})
        box = page.locator("#timeline-box").bounding_box()
        assert box is not None
        assert box["width"] >= width - 90
    page.close()


def test_a_hold_past_its_lease_is_drawn_lighter_and_said_and_has_a_key(
    browser: Browser, tmp_path: Path
) -> None:
    """Its service let the lease run on, as the ok of its release shows."""
    made, run = recorded(), specimens.clean()
    sure, row = made.drawn["sure"], made.drawn["row"]
    start = made.history.rows["t_ret"][row]
    lease = np.where(np.arange(len(sure)) == 4, (start + sure) // 2, -1)
    past = replace(made, drawn={**made.drawn, "lease": lease})
    for name, history, hidden in (("past", past, False), ("within", made, True)):
        (folder := tmp_path / name).mkdir()
        page = opened(browser, html.write(folder, run, MANIFEST, PLAN, history))
        assert page.evaluate("document.getElementById('timeline-past').hidden") is hidden
        if hidden:
            continue
        low, high = ((int(t) - at(0)) / 1000 for t in (start[4], sure[4]))
        tell = "(t) => timeline.holdText(timeline.data.lanes[4].hold, 0, t)"
        assert "past its lease, as a later ok shows" in page.evaluate(tell, (low + 3 * high) / 4)
        assert "past its lease" not in page.evaluate(tell, (3 * low + high) / 4)
        page.evaluate(
            "([from, to]) => { timeline.view.set(from, to); timeline.draw(); }",
            [low - 1000, high + 1000],
        )
        colour = """(t) => { const { canvas } = timeline.lanes, ratio = devicePixelRatio || 1;
          const y = timeline.lanes.laneY(4) + 6, x = timeline.view.x(t);
          return [...canvas.getContext("2d").getImageData(x * ratio, y * ratio, 1, 1).data]; }"""
        shades = [page.evaluate(colour, (low * a + high * b) / 4) for a, b in ((3, 1), (1, 3))]
        assert shades[0] != shades[1]


def test_the_sign_of_a_failover_has_a_key_where_there_is_one(
    browser: Browser, tmp_path: Path
) -> None:
    run = specimens.clean()
    assert run["evidence"]["failovers"]
    none = run | {"evidence": run["evidence"] | {"failovers": []}}
    for name, judged, hidden in (("some", run, False), ("none", none, True)):
        (folder := tmp_path / name).mkdir()
        page = opened(browser, html.write(folder, judged, MANIFEST, PLAN, recorded()))
        key = page.locator("#timeline-gap")
        assert key.is_hidden() is hidden
        assert "until the next grant" in (key.text_content() or "")
