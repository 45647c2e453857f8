"""Pictures of the gallery from real runs: `python -m docs.tools.pictures [NAME...]`.

For each page of docs/gallery with a picture of its own name, its command is run and the first
finding of the report is photographed in Chromium. Pages that need a server need it installed.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.reports.browser import chromium

ROOT = Path(__file__).resolve().parents[2]
GALLERY = ROOT / "docs" / "gallery"
WIDTH, MARGIN = 1060, 8
SEED = "1"


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


def photograph(page: Path, picture: Path) -> None:
    """The first finding of the report: its sentence and its drawing."""
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        shown = report(command(page), Path(folder))
        tab = browser.new_page(viewport={"width": WIDTH, "height": 1400})
        tab.goto(shown.resolve().as_uri())
        tab.wait_for_selector("html[data-timeline=ready]", state="attached")
        card = tab.locator("#finding-1")
        box, drawing = card.bounding_box(), card.locator(".scroll").first.bounding_box()
        assert box is not None
        assert drawing is not None
        tab.screenshot(
            path=picture,
            full_page=True,
            clip={
                "x": box["x"] - MARGIN,
                "y": box["y"] - MARGIN,
                "width": box["width"] + 2 * MARGIN,
                "height": drawing["y"] + drawing["height"] - box["y"] + 2 * MARGIN,
            },
        )


def main(names: list[str]) -> None:
    """All pictures, or those of the named pages."""
    for page in sorted(GALLERY.glob("*.md")):
        picture = GALLERY / "pictures" / f"{page.stem}.png"
        if f"pictures/{page.stem}.png" in page.read_text() and (not names or page.stem in names):
            photograph(page, picture)
            sys.stdout.write(f"{picture.relative_to(ROOT)}: {picture.stat().st_size} bytes\n")


if __name__ == "__main__":
    main(sys.argv[1:])
