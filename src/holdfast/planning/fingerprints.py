"""Fingerprints of what a result depends on: checkers, a simulated system's code, users' files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import holdfast
from holdfast import catalogue
from holdfast.catalogue import plug_ins
from holdfast.harness.plans.plan import Plan, names_in

_HERE = Path(holdfast.__file__).parent


@cache
def checkers() -> str:
    """Of the source of all checkers, with their table of opportunities."""
    return _of(_HERE / "checkers")


@cache
def system(name: str, backend: str) -> str:
    """Of a simulated system: its source. "" for real servers, whose version a result does not
    have, and for a system of the user, whose name has a hash."""
    folder = _HERE / "clusters" / "systems" / name
    simulated = backend in catalogue.VIRTUAL_TIME and name in catalogue.SYSTEMS
    return _of(folder) if simulated and folder.is_dir() else ""


def _of(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        text = path.read_bytes()
        found.update(f"{path.relative_to(folder)}\0{len(text)}\0".encode() + text)
    return found.hexdigest()[:12]


def own_code(plans: Iterable[Plan]) -> str:
    """Hash of the code that plans bring along besides their systems, "" for none."""
    files: set[Path] = set()
    for plan in plans:
        for kind, name in names_in(plan):
            files.update(plug_ins.sources(kind, name).values() if kind != "systems" else ())
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()[:16] if files else ""
