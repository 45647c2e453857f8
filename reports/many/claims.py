"""The common claim about each lock service, its mechanism and its limit, and what is claimed of its
properties: `claims.toml` in the folder of the system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

SYSTEMS = Path(__file__).parents[2] / "clusters" / "systems"
CLAIMED, NOT_CLAIMED = "claimed", "not claimed"


class CellClaim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is claimed of one property of a system.

    claimed   whether the property is claimed at all
    says      why, or why not
    lost      kinds of fault under which it is not claimed
    """

    says: str
    claimed: bool = True
    lost: tuple[str, ...] = ()

    def under(self, fault: str) -> str:
        """CLAIMED or NOT_CLAIMED of one kind of fault; "" of several and of a scenario's."""
        if fault == "several" or fault.startswith("scenario "):
            return ""
        if not self.claimed or fault in self.lost:
            return NOT_CLAIMED
        return CLAIMED

    def sentence(self) -> str:
        """The claim in words."""
        head = CLAIMED if self.claimed else NOT_CLAIMED
        unless = f", but not under {', '.join(self.lost)}" if self.lost else ""
        return f"{head}{unless}: {self.says}"


class Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The claim about one system; `caveat` is printed as its limit. cells: by property."""

    claim: str
    mechanism: str
    caveat: str
    cells: dict[str, CellClaim]


def _every() -> Iterator[tuple[str, Claim]]:
    for path in sorted(SYSTEMS.glob("*/claims.toml")):
        yield from msgspec.toml.decode(path.read_bytes(), type=dict[str, Claim]).items()


CLAIMS = dict(_every())


def claim_of(label: str) -> Claim | None:
    """The claim of a system as a result names it: "redis persistence=always"."""
    return CLAIMS.get(label.split(" ", 1)[0])
