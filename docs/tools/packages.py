"""The table of packaged findings: `python -m docs.tools.packages FOLDER`.

FOLDER has one package per finding of the catalogue, as `holdfast package RUN --out FOLDER/FINDING`
wrote it. Prints the text of docs/findings/packages.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from holdfast.catalogue.findings import FINDINGS
from holdfast.packaging.package import Record
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
REASONS = {
    "redis-forgets": "the script would have to kill and restart the server",
    "nats-4320": "no shape for three servers of NATS",
    "dynamodb-orphan": "no shape: the script would wait for the library's own hour",
    "go-zookeeper-229": "no shape for Go",
    "etcd-11456-go": "no shape for Go",
    "galera-returning-retry": "no shape for three servers of Galera",
}
"""Finding -> why there is no shape for it."""
NOT_SEEN = "not run for this table"


def reason(name: str) -> str:
    """Why a finding is not packaged."""
    words = FINDINGS[name].command
    for kind, why in IMPOSSIBLE.items():
        if f"{kind}:" in words:
            return why
    if "compact:" in words or "replace-member:" in words or name.startswith("zookeeper-"):
        return "several servers have to be stopped and started around one step of theirs"
    return REASONS.get(name, NOT_SEEN)


def row(name: str, record: Record) -> str:
    """The row of a packaged finding."""
    fresh = f"{record.fresh} of {record.trials}" if record.fresh >= 0 else ""
    fixed = f"{record.fixed}: {record.fixed_shown} of {record.trials}" if record.fixed else ""
    return (
        f"| [{name}](libraries.md#{name}) | {record.package} | {record.shape} | {record.lines} |"
        f" {record.shown} of {record.trials} | {fresh} | {fixed} | {record.span} |\n"
    )


def page(folder: Path) -> str:
    """The page."""
    found = {
        name: msgspec.json.decode((folder / name / "measured.json").read_bytes(), type=Record)
        for name in FINDINGS
        if (folder / name / "measured.json").exists()
    }
    rows = "".join(row(name, record) for name, record in found.items())
    others = "".join(f"- `{name}`: {reason(name)}.\n" for name in FINDINGS if name not in found)
    return f"{BEGIN}{rows}\nNot packaged:\n\n{others}"


if __name__ == "__main__":
    sys.stdout.write(page(Path(sys.argv[1])))
