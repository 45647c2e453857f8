"""The common claim about each lock service, its mechanism and its limit: `claims.toml`."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The claim about one system; `caveat` is printed as its limit."""

    claim: str
    mechanism: str
    caveat: str


CLAIMS = msgspec.toml.decode(
    Path(__file__).with_name("claims.toml").read_bytes(), type=dict[str, Claim]
)


def claim_of(label: str) -> Claim | None:
    """The claim of a system as a result names it: "redis persistence=always"."""
    return CLAIMS.get(label.split(" ", 1)[0])
