"""Hooks of the documentation site (mkdocs.yml): files outside docs/, example report.

Pages link to files of the repository beside docs/ (`../examples/soak.toml`); the site has a copy of
each such file, and of the report of one simulated run.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()((?:\.\./)+[\w./-]+)((?:#[\w-]+)?\))")
BLOCK = re.compile(r"<pre\b.*?</pre>", re.DOTALL)
OPTION = re.compile(r"(?<=[\s>])--[a-z][\w-]*")
SEARCH = '<div class="md-search" data-md-component="search" role="dialog">'
EXAMPLE_REPORT = "gallery/example-report.html"
FROZEN_HOLDER: dict[str, Any] = {
    "nemesis": "pause:target=holder,every=6s,for=4s",
    "resource": "unfenced",
    "seed": 7,
    "time": "20s",
}
"""The run of docs/gallery/frozen-holder.md: the same seed gives the same report."""


def outside(page: str, link: str) -> str:
    """The file of the repository that a page's link leads to, "" if it leads into docs/."""
    target = os.path.normpath(PurePosixPath("docs", page).parent / link)
    return "" if target.startswith(("docs/", "..")) else target


def copy(target: str) -> str:
    """The place in the site of a file beside docs/; Markdown of elsewhere is shown as it is."""
    return target + ".txt" if target.endswith(".md") else target


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the files beside docs/ that pages link to, and the example report."""
    for page in [one for one in files if one.is_documentation_page()]:
        for _, link, _ in LINK.findall(page.content_string):
            target = outside(page.src_uri, link)
            if not target or files.get_file_from_path(copy(target)) is not None:
                continue
            content = (ROOT / target).read_bytes()
            files.append(File.generated(config, copy(target), content=content))
    files.append(File.generated(config, EXAMPLE_REPORT, content=example_report()))
    return files


def on_page_markdown(markdown: str, page: Any, **rest: Any) -> str:
    """Turns links to files beside docs/ into links to their copies in the site."""

    def copied(found: re.Match[str]) -> str:
        target = outside(page.file.src_uri, found[2])
        if not target:
            return found[0]
        here = PurePosixPath(page.file.src_uri).parent
        return found[1] + os.path.relpath(copy(target), here) + found[3]

    return LINK.sub(copied, markdown)


def on_post_page(output: str, **rest: Any) -> str:
    """Keeps each option of a command in one piece, since a browser may break a line after its
    dashes, and names the dialog of the search, which the theme leaves without a name."""
    named = output.replace(SEARCH, SEARCH.replace(">", ' aria-label="Search">'))
    return BLOCK.sub(
        lambda block: OPTION.sub(r'<span class="option">\g<0></span>', block[0]), named
    )


def example_report() -> bytes:
    """The report of one simulated run."""
    import holdfast

    with tempfile.TemporaryDirectory() as folder:
        run = holdfast.simulate(out=folder, **FROZEN_HOLDER)
        return (Path(run.path) / "report.html").read_bytes()
