"""Kinds of findings, one row each, read by all that ask for one: `finding_kinds.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of finding: its words, what goes wrong, and which lost row could explain it."""

    name: str
    means: str
    remedy: str
    mechanism: str = ""
    lost_row: str = ""


KINDS = {
    name: Kind(**row)
    for name, row in tomllib.loads(
        Path(__file__).with_name("finding_kinds.toml").read_text()
    ).items()
}


def of_mechanism(mechanism: str) -> tuple[str, ...]:
    """The kinds of one mechanism."""
    return tuple(name for name, kind in KINDS.items() if kind.mechanism == mechanism)
