"""The option of the majority vote: the quorum size."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.clusters.systems.reference.options import TRACED

KNOWN: dict[str, str] = {
    "quorum": "number of servers that must grant: 1 to all of them (default: more than half)",
    "mutant": "name of a planted bug (default: none)",
    **TRACED,
}
"""option -> its values and what it does"""


def quorum_of(options: Mapping[str, str], servers: int) -> int:
    """The quorum among this number of servers. Raises ValueError for an invalid one."""
    text = options.get("quorum", str(servers // 2 + 1))
    if not (text.isdecimal() and 1 <= int(text) <= servers):
        raise ValueError(f"invalid option quorum={text}: expected a whole number, 1 to {servers}")
    return int(text)
