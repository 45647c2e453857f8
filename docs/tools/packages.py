"""The table of packaged findings: `python -m docs.tools.packages FOLDER`.

FOLDER has packages of findings of the catalogue, as `holdfast package RUN --out FOLDER/FINDING`
wrote them. Prints the text of docs/findings/packages.md: rows of these, and the rows that the page
already has for other findings.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec

from holdfast.catalogue.findings import FINDINGS
from holdfast.packaging.package import PackageRecord
from holdfast.packaging.shapes import IMPOSSIBLE

BEGIN = """# Packages of findings

Written by `python -m docs.tools.packages` from the packages themselves
([how a finding is packaged](../howto/package.md)). Each row was made from a run of the finding's
command: the shape follows from what the run shows. *Shown* and *new environment* are trials of the
script, each against new servers; the new environment has the packages that the folder names, and no
Holdfast. *Fixed release* and *releases* are trials of the same script.

| finding | package | shape | lines | shown | new environment | fixed release | releases |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
PAGE = Path(__file__).parents[1] / "findings" / "packages.md"
NAMED = re.compile(r"\| \[([\w-]+)\]\(")
NOT_SEEN = "not run for this table"


def reason(name: str) -> str:
    """Why a finding is not packaged."""
    words = FINDINGS[name].command
    for kind, why in IMPOSSIBLE.items():
        if f"{kind}:" in words:
            return why
    if "compact:" in words or "replace-member:" in words:
        return "several servers have to be stopped and started around one step of theirs"
    return NOT_SEEN


def row(name: str, record: PackageRecord) -> str:
    """The row of a packaged finding."""
    fresh = f"{record.fresh} of {record.trials}" if record.fresh >= 0 else ""
    fixed = f"{record.fixed}: {record.fixed_shown} of {record.trials}" if record.fixed else ""
    return (
        f"| [{name}](libraries.md#{name}) | {record.package} | {record.shape} | {record.lines} |"
        f" {record.shown} of {record.trials} | {fresh} | {fixed} | {record.span} |\n"
    )


def rows(text: str) -> dict[str, str]:
    """Finding -> its row, of a page."""
    lines = text.splitlines(keepends=True)
    return {found[1]: line for line in lines if (found := NAMED.match(line))}


def page(folder: Path, before: str) -> str:
    """The page; rows of `before` stay for findings that the folder does not have."""
    known = rows(before)
    for name in FINDINGS:
        measured = folder / name / "measured.json"
        if measured.exists():
            known[name] = row(name, msgspec.json.decode(measured.read_bytes(), type=PackageRecord))
    listed = "".join(known[name] for name in FINDINGS if name in known)
    others = "".join(f"- `{name}`: {reason(name)}.\n" for name in FINDINGS if name not in known)
    return f"{BEGIN}{listed}\nNot packaged:\n\n{others}" if others else f"{BEGIN}{listed}"


if __name__ == "__main__":
    sys.stdout.write(page(Path(sys.argv[1]), PAGE.read_text()))
