"""Pictures of the gallery from real runs: `python -m docs.tools.pictures [NAME...]`.

For each page of docs/gallery with a picture of its own name, its command is run and the first
finding of the report is photographed in Chromium, in both colour schemes: `NAME.png` and
`NAME-dark.png`. Pages that need a server need it installed.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from playwright.sync_api import ViewportSize
from tests.reports.browser import chromium

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs" / "gallery"
WIDTH, MARGIN = 1280, 8
SEED = "1"
Scheme = Literal["light", "dark"]


def command(page: Path) -> list[str]:
    """The arguments of the page's first command."""
    found = re.search(r"^\$ holdfast (.*)$", page.read_text(), re.M)
    if found is None:
        raise SystemExit(f"{page}: no command")
    return shlex.split(found[1])


def report(arguments: list[str], folder: Path) -> Path:
    """Run a command in a folder; the report it wrote. A violation (exit code 1) is expected."""
    if "--seed" not in arguments and "finding" in " ".join(arguments):
        arguments = [*arguments, "--seed", SEED]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "holdfast", *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{shlex.join(arguments)}: exit code {done.returncode}\n{done.stderr}")
    return folder / ".holdfast" / "runs" / "latest" / "report.html"


def photograph(page: Path, pictures: Mapping[Scheme, Path]) -> None:
    """The first finding of the report, with its steps and its drawing, per colour scheme."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        shown = report(command(page), Path(folder)).resolve().as_uri()
        for scheme, picture in pictures.items():
            size: ViewportSize = {"width": WIDTH, "height": 1400}
            tab = browser.new_page(viewport=size, color_scheme=scheme)
            tab.goto(shown)
            tab.wait_for_selector("html[data-timeline=ready]", state="attached")
            card = tab.locator("#finding-1")
            box, story = card.bounding_box(), card.locator(".story").bounding_box()
            assert box is not None
            assert story is not None
            tab.screenshot(
                path=picture,
                full_page=True,
                clip={
                    "x": box["x"] - MARGIN,
                    "y": box["y"] - MARGIN,
                    "width": box["width"] + 2 * MARGIN,
                    "height": story["y"] + story["height"] - box["y"] + 2 * MARGIN,
                },
            )
            tab.close()


def main(names: list[str]) -> None:
    """All pictures, or those of the named pages."""
    for page in sorted(GALLERY.glob("*.md")):
        pictures: dict[Scheme, Path] = {
            "light": GALLERY / "pictures" / f"{page.stem}.png",
            "dark": GALLERY / "pictures" / f"{page.stem}-dark.png",
        }
        if f"pictures/{page.stem}.png" in page.read_text() and (not names or page.stem in names):
            photograph(page, pictures)
            for picture in pictures.values():
                sys.stdout.write(f"{picture.relative_to(ROOT)}: {picture.stat().st_size} bytes\n")


if __name__ == "__main__":
    main(sys.argv[1:])
