"""A drawing of the report as an SVG file of its own, with its style."""

from __future__ import annotations

import re
from pathlib import Path

TEMPLATES = Path(__file__).parents[1] / "templates"
WIDTH, MARGIN = 1000, 12
HEIGHT = re.compile(r'height="([\d.]+)"')


def standalone(drawn: str) -> str:
    """The text of an SVG file with a background. drawn: a picture as it stands in a page."""
    style, patterns = ((TEMPLATES / name).read_text() for name in ("style.css", "patterns.svg"))
    begun, _, body = drawn.partition(">")
    size = HEIGHT.search(begun)
    assert size is not None, "every picture has a height"
    wide, high = WIDTH + 2 * MARGIN, float(size[1]) + 2 * MARGIN
    inside = begun.replace('width="100%"', "").replace(f'width="{WIDTH}"', "")
    inside = inside.replace("<svg", f'<svg x="{MARGIN}" y="{MARGIN}" width="{WIDTH}"', 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high:g}">'
        f"<style><![CDATA[{style}]]></style>{patterns}"
        '<rect width="100%" height="100%" style="fill: var(--sheet)"/>'
        f"{inside}>{body}</svg>\n"
    )
