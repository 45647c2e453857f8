"""Where a reader finds the answer on a page: y of verdict, cause, proof and timeline, its height.

Run: `python -m benchmarks.page_heights PAGE ... [--pictures FOLDER]`. A page is an HTML file or an
address. Each is opened in headless Chromium at 1400 and 390 px, light and dark; `pictures` keeps a
picture of the whole page of each. Sideways: by how much the page is wider than the window.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, sync_playwright
from tests import needs
from tests.reports.browser import FLAGS

SIZES = ((1400, 900), (390, 844))
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PLACES = {
    "verdict": "#verdict, .hero, h1",
    "cause": "section.first, #next, #tried, #failures, .failure",
    "proof": "section.first .drawing, #asked",
    "timeline": "#timeline, .map, .heat",
}
"""What a reader looks for -> where it is, of a run; then of a campaign or another page."""
TOPS = """(places) => {
  const shown = (one) => one.getClientRects().length > 0;
  const top = (query) => { const one = [...document.querySelectorAll(query)].find(shown);
    return one ? Math.round(one.getBoundingClientRect().top + scrollY) : null; };
  const guilty = [...document.querySelectorAll("section.first .guilty")].filter(shown)
    .map((one) => one.getBoundingClientRect());
  return {...Object.fromEntries(Object.entries(places).map(([name, query]) => [name, top(query)])),
    page: document.documentElement.scrollHeight,
    sideways: document.documentElement.scrollWidth - innerWidth,
    guilty: guilty.length ? guilty.every((one) => one.left >= 0 && one.right <= innerWidth) : null};
}"""


def measured(
    browser: Browser,
    address: str,
    size: tuple[int, int],
    scheme: Literal["light", "dark"],
    picture: Path | None = None,
) -> dict[str, Any]:
    """The places of one page in pixels; `guilty`: whether the violating call is within the window,
    None if the page draws none."""
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": size[0], "height": size[1]}
    )
    page = context.new_page()
    page.goto(address)
    if page.locator("#timeline").count():
        page.wait_for_selector("html[data-timeline]", state="attached", timeout=60_000)
    found: dict[str, Any] = page.evaluate(TOPS, PLACES)
    if picture is not None:
        page.screenshot(path=str(picture), full_page=True)
    context.close()
    return found


def main() -> None:
    """Print one line per page, width and scheme."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+")
    parser.add_argument("--pictures", type=Path)
    args = parser.parse_args()
    if args.pictures:
        args.pictures.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=needs.chromium(), args=FLAGS)
        for n, page in enumerate(args.pages):
            address = page if "://" in page else Path(page).resolve().as_uri()
            for size in SIZES:
                for scheme in SCHEMES:
                    name = f"{n}-{size[0]}-{scheme}.png"
                    picture = args.pictures / name if args.pictures else None
                    places = measured(browser, address, size, scheme, picture)
                    words = ", ".join(f"{key} {value}" for key, value in places.items())
                    sys.stdout.write(f"{page} {size[0]} {scheme}: {words}\n")
        browser.close()


if __name__ == "__main__":
    main()
