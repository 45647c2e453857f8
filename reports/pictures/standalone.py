"""A drawing of the report as an SVG file of its own, with its style."""

from __future__ import annotations

from pathlib import Path

TEMPLATES = Path(__file__).parents[1] / "templates"


def standalone(drawn: str) -> str:
    """The text of an SVG file, 1000 pixels wide. drawn: a picture as it stands in a page."""
    style, patterns = ((TEMPLATES / name).read_text() for name in ("style.css", "patterns.svg"))
    begun, _, body = drawn.partition(">")
    head = begun.replace('width="100%"', 'width="1000"')
    if "xmlns=" not in head:
        head = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return f"{head}><style><![CDATA[{style}]]></style>{patterns}{body}\n"
